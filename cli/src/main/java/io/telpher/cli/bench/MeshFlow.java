package io.telpher.cli.bench;

import io.telpher.ConnectionMetrics;
import io.telpher.MemoryRegion;
import java.lang.foreign.MemorySegment;
import java.util.Comparator;
import org.HdrHistogram.Histogram;

/// The writes of one pair, from its first post to the target's last acknowledgement. Used by one
/// thread.
final class MeshFlow {
    private final Neighbour target;
    private final Flight flight;
    private final boolean[] flying;
    private final Histogram times = PhaseResult.histogram();
    private int open;
    private boolean posting = true;
    private long done;
    private long lastDone;

    /// @param what for errors: the pair and the operation
    /// @param number of the source
    MeshFlow(String what, MemoryRegion memory, int number, Neighbour target, MeshLayout layout) {
        this.target = target;
        Flight.Slot[] slots = new Flight.Slot[layout.depth()];
        for (int slot = 0; slot < slots.length; slot++) {
            slots[slot] =
                    new Flight.Slot(
                            target,
                            0,
                            memory,
                            layout.origin(target.rank(), slot),
                            target.target(),
                            layout.landing(number, slot),
                            null);
        }
        flight =
                new Flight(
                        Flight.Kind.WRITE,
                        what,
                        layout.bytes(),
                        slots,
                        MemorySegment.NULL,
                        Pause.YIELD);
        flying = new boolean[slots.length];
    }

    /// Posts every write once, whatever the time: what is checked has been written.
    void begin() {
        for (int slot = 0; slot < flying.length; slot++) {
            flight.postedAt[slot] = System.nanoTime();
            flight.postSurely(slot);
            flying[slot] = true;
            open++;
        }
    }

    /// Looks at each write, and posts those that are done once more.
    ///
    /// @param end when that is over
    /// @return whether something is still under way
    boolean turn(long end) {
        for (int slot = 0; slot < flying.length; slot++) {
            if (flying[slot]) {
                take(slot);
            }
            if (!flying[slot] && posting) {
                long now = System.nanoTime();
                posting = now < end;
                if (posting && flight.post(slot)) {
                    flight.postedAt[slot] = now;
                    flying[slot] = true;
                    open++;
                }
            }
        }
        return open > 0 || posting;
    }

    private void take(int slot) {
        if (flight.poll(slot)) {
            lastDone = System.nanoTime();
            times.recordValue(
                    Math.min(
                            (lastDone - flight.postedAt[slot]) * 1000,
                            times.getHighestTrackableValue()));
            flying[slot] = false;
            open--;
            done++;
        }
    }

    /// @return what was measured; the clock that `last` is from is the host's own
    Message result() {
        ConnectionMetrics metrics = target.connection().metrics();
        return Message.of("flow")
                .with("target", target.rank())
                .with("done", done)
                .with("last", lastDone)
                .with("p50", times.getValueAtPercentile(50) / 1e6)
                .with("p99", times.getValueAtPercentile(99) / 1e6)
                .with("p999", times.getValueAtPercentile(99.9) / 1e6)
                .with(
                        "path",
                        metrics.paths().stream()
                                .max(Comparator.comparingLong(ConnectionMetrics.Path::bytesSent))
                                .map(ConnectionMetrics.Path::name)
                                .orElse(""))
                .with(
                        "lanes",
                        metrics.lanes().stream().filter(ConnectionMetrics.Lane::alive).count());
    }
}

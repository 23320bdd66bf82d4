package io.telpher.sim;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/// A link between two hosts, with everything that can go wrong with it. Lanes of
/// [LinkOptions.Style#RING] know only [#reset]: memory does not get lost or come late.
public final class SimLink {
    private final Simulation simulation;
    private final SimHost first;
    private final SimHost second;
    private final LinkOptions options;
    private final String name;
    private final List<Stream> streams = new ArrayList<>();

    /// When each direction has carried what it was given.
    private final long[] busyUntil = new long[2];

    private long extraLatency;
    private long refusal;
    private boolean cut;
    private long cutSince = Long.MAX_VALUE;

    SimLink(Simulation simulation, SimHost first, SimHost second, LinkOptions options, int number) {
        this.simulation = simulation;
        this.first = first;
        this.second = second;
        this.options = options;
        this.name = "link " + number;
    }

    Simulation simulation() {
        return simulation;
    }

    String name() {
        return name;
    }

    boolean joins(SimHost a, SimHost b) {
        return (first == a && second == b) || (first == b && second == a);
    }

    boolean crosses(List<SimHost> group) {
        return group.contains(first) != group.contains(second);
    }

    /// @return what it is like
    public LinkOptions options() {
        return options;
    }

    // --- faults ---------------------------------------------------------------------------------

    /// Makes everything that is sent from now on travel so much longer; zero ends that.
    public void delay(Duration extra) {
        log("delays by " + extra);
        extraLatency = extra.toNanos();
    }

    /// Lets handshakes through, and no lane come of them: each side gives up by itself, after up to
    /// so long; zero ends that. As where a cable carries packets of one kind and not of another.
    public void refuseLanes(Duration atMost) {
        log("refuses lanes after up to " + atMost);
        refusal = atMost.toNanos();
    }

    /// Lets nothing arrive for a while, on all lanes; then everything does.
    public void stall(Duration time) {
        log("stalls for " + time);
        long until = simulation.scheduler.now() + time.toNanos();
        for (Stream stream : List.copyOf(streams)) {
            stream.stall(until);
        }
    }

    /// Lets nothing arrive on one of its present lanes for a while.
    ///
    /// @param lane number, taken modulo the number of lanes
    public void stall(int lane, Duration time) {
        if (!streams.isEmpty()) {
            streams.get(Math.floorMod(lane, streams.size()))
                    .stall(simulation.scheduler.now() + time.toNanos());
        }
    }

    /// Lets nothing arrive until [#mend()]. Nobody is told.
    public void cut() {
        log("is cut");
        if (!cut) {
            cutSince = simulation.scheduler.now();
        }
        cut = true;
    }

    /// Ends [#cut()].
    public void mend() {
        if (!cut) {
            return;
        }
        log("is mended");
        cut = false;
        cutSince = Long.MAX_VALUE;
        for (Stream stream : List.copyOf(streams)) {
            stream.goOn();
        }
    }

    /// Ends all its present lanes: both sides learn it soon, and what was under way is lost.
    public void reset() {
        for (Stream stream : List.copyOf(streams)) {
            stream.reset("the link was reset");
        }
    }

    /// Ends one of its present lanes.
    ///
    /// @param lane number, taken modulo the number of lanes
    public void reset(int lane) {
        if (!streams.isEmpty()) {
            streams.get(Math.floorMod(lane, streams.size())).reset("the lane was reset");
        }
    }

    /// @return how many lanes and handshakes it carries now
    public int lanes() {
        return streams.size();
    }

    // --- carrying -------------------------------------------------------------------------------

    private void log(String what) {
        simulation.scheduler.log(name, what);
    }

    /// @return when it was cut, the end of time when it is not
    long cutSince() {
        return cutSince;
    }

    boolean isHeldUp() {
        return cut;
    }

    /// @return after how long a side that makes a lane now gives up, zero when one comes of it
    long refusalNow() {
        return refusal == 0 ? 0 : simulation.scheduler.random.nextLong(1, refusal + 1);
    }

    void add(Stream stream) {
        streams.add(stream);
    }

    void remove(Stream stream) {
        streams.remove(stream);
    }

    long latencyNow() {
        long jitter = options.jitter().toNanos();
        return options.latency().toNanos()
                + extraLatency
                + (jitter == 0 ? 0 : simulation.scheduler.random.nextLong(jitter));
    }

    /// When bytes arrive that are sent now.
    long due(int side, int bytes) {
        long start = Math.max(busyUntil[side], simulation.scheduler.now());
        busyUntil[side] = start + (long) (bytes * 1e9 / options.bytesPerSecond());
        return busyUntil[side] + latencyNow();
    }

    @Override
    public String toString() {
        return "%s between %s and %s".formatted(name, first.name(), second.name());
    }
}

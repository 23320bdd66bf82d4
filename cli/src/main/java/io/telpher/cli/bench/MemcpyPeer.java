package io.telpher.cli.bench;

import io.telpher.cli.Content;
import io.telpher.internal.ffi.linux.Memory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.OptionalLong;
import java.util.function.LongSupplier;
import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;

/// A copy within one process, of the same size between the same two buffers again and again: the
/// limit of every path that copies once. The quicker of the JVM's copy and the C library's, as a
/// first look finds them.
final class MemcpyPeer implements Peer {
    private static final long SMALL = 64 << 10;
    private static final int UNTIMED_SMALL = 64;

    /// Whose copy.
    private enum Copier {
        JVM("MemorySegment.copy"),
        LIBC("memcpy");

        final String name;

        Copier(String name) {
            this.name = name;
        }

        void copy(MemorySegment from, MemorySegment to, long bytes) {
            switch (this) {
                case JVM -> MemorySegment.copy(from, 0, to, 0, bytes);
                case LIBC -> Memory.copy(from, 0, to, 0, bytes);
            }
        }
    }

    private final MeasuringThread thread = new MeasuringThread("telpher-memcpy");
    private final LongSupplier clock;

    /// @param cores the first is used; none where nothing is pinned
    MemcpyPeer(List<Integer> cores) {
        this(cores, System::nanoTime);
    }

    /// @param clock of nanoseconds
    MemcpyPeer(List<Integer> cores, LongSupplier clock) {
        this.clock = clock;
        if (!cores.isEmpty()) {
            String unused = thread.pin(cores.getFirst()); // the ranks have said why not
        }
    }

    @Override
    public String system() {
        return "memcpy";
    }

    @Override
    public List<PeerResult> measure(Stage stage, Case test, double seconds) {
        boolean matches =
                stage.transport().equals("shm") && test.op().oneSided() && test.pieces() == 1;
        return matches ? List.of(measure(test, seconds)) : List.of();
    }

    /// Copies for a while.
    ///
    /// @param test size, and whether single copies are timed, as at depth 1
    PeerResult measure(Case test, double seconds) {
        return thread.call(() -> copied(test.bytes(), seconds, test.depth() == 1));
    }

    private PeerResult copied(long bytes, double seconds, boolean timed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment from = arena.allocate(bytes, 4096);
            MemorySegment to = arena.allocate(bytes, 4096);
            Content.fill(from, 0, bytes, 1, 0);
            int untimed = bytes < SMALL ? UNTIMED_SMALL : 1;
            Copier copier = Copier.JVM;
            double nanos = Double.POSITIVE_INFINITY;
            for (Copier each : Copier.values()) {
                to.fill((byte) 1);
                long start = clock.getAsLong();
                long count = copy(each, from, to, bytes, seconds / 10, untimed, null);
                double found = (double) (clock.getAsLong() - start) / count;
                if (found < nanos) {
                    copier = each;
                    nanos = found;
                }
            }
            int group = timed ? RowMeter.group(nanos) : untimed;
            Histogram times = timed ? PhaseResult.histogram() : null;
            to.fill((byte) 1); // that what is timed is what is checked
            long cpu = CpuClock.nanos();
            long start = clock.getAsLong();
            long count = copy(copier, from, to, bytes, seconds, group, times);
            nanos = clock.getAsLong() - start;
            cpu = CpuClock.nanos() - cpu;
            double moved = (double) count * bytes;
            return new PeerResult(
                    system(),
                    Runtime.version().toString(),
                    "java",
                    "copy",
                    "shm",
                    "memcpy",
                    "own",
                    "write",
                    copier.name
                            + ", one process, one thread"
                            + (timed && group > 1 ? ", p50 over groups of " + group : ""),
                    count,
                    moved / nanos,
                    times == null ? Double.NaN : times.getValueAtPercentile(50) / 1e6,
                    Double.NaN,
                    cpu / moved,
                    OptionalLong.of(from.mismatch(to) < 0 ? 0 : bytes));
        }
    }

    /// @param group copies between two looks at the clock
    /// @param times gets picoseconds per copy of each group, or null
    private long copy(
            Copier copier,
            MemorySegment from,
            MemorySegment to,
            long bytes,
            double seconds,
            int group,
            @Nullable Histogram times) {
        long before = clock.getAsLong();
        long end = before + (long) (seconds * 1e9);
        long count = 0;
        do {
            for (int i = 0; i < group; i++) {
                copier.copy(from, to, bytes);
            }
            count += group;
            long now = clock.getAsLong();
            if (times != null) {
                times.recordValue((now - before) * 1000 / group);
            }
            before = now;
        } while (before - end < 0);
        return count;
    }

    @Override
    public void close() {
        thread.close();
    }
}

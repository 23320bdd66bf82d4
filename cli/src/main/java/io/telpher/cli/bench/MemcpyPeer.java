package io.telpher.cli.bench;

import io.telpher.cli.Content;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;

/// A copy within one process, of the same size between the same two buffers again and again: the
/// limit of every path that copies once.
final class MemcpyPeer implements Peer {
    private static final long MASK = 63;

    private final MeasuringThread thread = new MeasuringThread("telpher-memcpy");

    /// @param cores the first is used; none where nothing is pinned
    MemcpyPeer(List<Integer> cores) {
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
        return matches ? List.of(measure(test.bytes(), seconds)) : List.of();
    }

    /// Copies for a while.
    PeerResult measure(long bytes, double seconds) {
        return thread.call(() -> copied(bytes, seconds));
    }

    private PeerResult copied(long bytes, double seconds) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment from = arena.allocate(bytes, 4096);
            MemorySegment to = arena.allocate(bytes, 4096);
            Content.fill(from, 0, bytes, 1, 0);
            to.fill((byte) 1);
            copy(from, to, bytes, seconds / 10);
            long cpu = CpuClock.nanos();
            long start = System.nanoTime();
            long count = copy(from, to, bytes, seconds);
            double nanos = System.nanoTime() - start;
            double moved = (double) count * bytes;
            return new PeerResult(
                    system(),
                    Runtime.version().toString(),
                    "java",
                    "MemorySegment.copy",
                    "shm",
                    "memcpy",
                    "own",
                    "write",
                    "one process, one thread",
                    count,
                    moved / nanos,
                    nanos / count / 1e3,
                    Double.NaN,
                    (CpuClock.nanos() - cpu) / moved,
                    0);
        }
    }

    private static long copy(MemorySegment from, MemorySegment to, long bytes, double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long mask = bytes < 64 << 10 ? MASK : 0;
        long count = 0;
        do {
            MemorySegment.copy(from, 0, to, 0, bytes);
            count++;
        } while ((count & mask) != 0 || System.nanoTime() - end < 0);
        return count;
    }

    @Override
    public void close() {
        thread.close();
    }
}

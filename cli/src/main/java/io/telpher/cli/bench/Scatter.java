package io.telpher.cli.bench;

import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import java.util.ArrayList;
import java.util.List;

/// How the pieces of a vectored operation lie: one after the other in the memory that is read,
/// permuted in the memory that is written, so that no two neighbours can be joined.
final class Scatter {
    private Scatter() {}

    /// @return where a piece goes
    static int place(int piece, int pieces) {
        return (int) ((long) piece * step(pieces) % pieces);
    }

    /// A step near the golden section that has no common factor with the number of pieces.
    private static int step(int pieces) {
        int step = Math.max(1, (int) (pieces * 0.618));
        while (step > 1 && gcd(step, pieces) != 1) {
            step--;
        }
        return step;
    }

    private static int gcd(int a, int b) {
        return b == 0 ? a : gcd(b, a % b);
    }

    /// @return a local region's pieces
    static MemorySlices local(
            MemoryRegion region, long offset, long bytes, int pieces, Order order) {
        long length = bytes / pieces;
        List<MemorySlice> slices = new ArrayList<>(pieces);
        for (int i = 0; i < pieces; i++) {
            slices.add(region.slice(offset + order.index(i, pieces) * length, length));
        }
        return MemorySlices.of(slices);
    }

    /// @return a peer's pieces
    static RemoteSlices remote(
            RemoteMemory memory, long offset, long bytes, int pieces, Order order) {
        long length = bytes / pieces;
        List<RemoteMemory> slices = new ArrayList<>(pieces);
        for (int i = 0; i < pieces; i++) {
            slices.add(memory.slice(offset + order.index(i, pieces) * length, length));
        }
        return RemoteSlices.of(slices);
    }

    /// In which order pieces lie.
    enum Order {
        /// One after the other.
        STRAIGHT,
        /// By [#place].
        PERMUTED;

        long index(int piece, int pieces) {
            return this == STRAIGHT ? piece : place(piece, pieces);
        }
    }
}

package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;

/// Lays the bytes of a vectored write out in a region. Checks every piece: what the tables say
/// comes from the peer.
final class Scatter {
    private Scatter() {}

    /// @return 0, or why the frame is refused
    static int copy(MemorySegment from, long at, RegionMemory to, long offset, long length) {
        try {
            to.copyIn(offset, from, at, length);
            return 0;
        } catch (IllegalStateException | TelpherException e) {
            Log.warning("bytes of a peer could not be copied to their place", e);
            return Failures.ofMemory(e);
        }
    }

    /// Pieces of one size at equal distances.
    ///
    /// @return 0, or why the frame is refused
    static int strided(RegionImpl found, MemorySegment p, long pAt, int length) {
        if (length < Frame.STRIDED_TABLE) {
            return Connection.DENIED;
        }
        long offset = p.get(Frame.LONG, pAt);
        long stride = p.get(Frame.LONG, pAt + 8);
        long piece = p.get(Frame.INT, pAt + 16);
        int count = p.get(Frame.INT, pAt + 20);
        // Without empty pieces there are no more pieces than bytes; and the extent cannot overflow.
        if (piece <= 0
                || count < 0
                || stride < piece
                || piece * count != length - Frame.STRIDED_TABLE
                || (count > 1 && stride > found.size() / (count - 1))
                || (count > 0
                        && !Placing.fits(offset, stride * (count - 1L) + piece, found.size()))) {
            return Connection.DENIED;
        }
        long from = pAt + Frame.STRIDED_TABLE;
        RegionMemory to = found.memory();
        for (int i = 0; i < count; i++) {
            int result = copy(p, from, to, offset, piece);
            if (result != 0) {
                return result;
            }
            from += piece;
            offset += stride;
        }
        return 0;
    }

    /// Pieces as a table lists them.
    ///
    /// @return 0, or why the frame is refused
    static int pieces(RegionImpl found, MemorySegment p, long pAt, int length, int count) {
        long table = (long) count * Frame.PIECE;
        if (table > length) {
            return Connection.DENIED;
        }
        long left = length - table;
        long from = pAt + table;
        RegionMemory to = found.memory();
        for (int i = 0; i < count; i++) {
            long offset = p.get(Frame.LONG, pAt + (long) i * Frame.PIECE);
            long n = p.get(Frame.LONG, pAt + (long) i * Frame.PIECE + 8);
            if (n < 0 || n > left || !Placing.fits(offset, n, found.size())) {
                return Connection.DENIED;
            }
            int result = copy(p, from, to, offset, n);
            if (result != 0) {
                return result;
            }
            from += n;
            left -= n;
        }
        return left == 0 ? 0 : Connection.DENIED;
    }
}

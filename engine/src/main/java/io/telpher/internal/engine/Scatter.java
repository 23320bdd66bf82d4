package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;

/// The pieces of a vectored write, as the table in its frame lists them: walks over them and checks
/// each, for what the table says comes from the peer. Used again and again, under a lane's poll
/// token.
final class Scatter {
    private MemorySegment payload = MemorySegment.NULL;
    private long payloadAt;
    private long size;
    private int count;
    private boolean strided;

    /// Bytes of all pieces.
    private long total;

    // The strided form.
    private long stride;
    private long each;

    private int next;
    private long left;

    /// 0, or why the frame is refused; once [#next] has returned false.
    int reason;

    /// Where the piece's bytes lie in the payload, and how many.
    long from;

    long bytes;

    /// Where they go in the region.
    long to;

    /// Starts at the first piece.
    void start(
            MemorySegment p, long pAt, int length, int pieces, boolean isStrided, long regionSize) {
        payload = p;
        payloadAt = pAt;
        size = regionSize;
        count = pieces;
        strided = isStrided;
        next = 0;
        bytes = 0;
        reason = 0;
        if (isStrided) {
            startStrided(length);
        } else {
            long table = (long) pieces * Frame.PIECE;
            total = length - table;
            from = pAt + table;
            reason = total < 0 ? Connection.DENIED : 0;
        }
        left = total;
    }

    /// Pieces of one size at equal distances.
    private void startStrided(int length) {
        total = 0;
        count = 0;
        if (length < Frame.STRIDED_TABLE) {
            reason = Connection.DENIED;
            return;
        }
        to = payload.get(Frame.LONG, payloadAt);
        stride = payload.get(Frame.LONG, payloadAt + 8);
        each = payload.get(Frame.INT, payloadAt + 16);
        count = payload.get(Frame.INT, payloadAt + 20);
        total = length - (long) Frame.STRIDED_TABLE;
        from = payloadAt + Frame.STRIDED_TABLE;
        // Without empty pieces there are no more pieces than bytes; and the extent cannot overflow.
        if (each <= 0
                || count < 0
                || stride < each
                || each * count != total
                || (count > 1 && stride > size / (count - 1))
                || (count > 0 && !Placing.fits(to, stride * (count - 1L) + each, size))) {
            reason = Connection.DENIED;
        }
    }

    /// Goes to the next piece.
    ///
    /// @return false at the end, or when [#reason] says why not
    boolean next() {
        if (reason != 0) {
            return false;
        }
        if (next == count) {
            reason = left == 0 ? 0 : Connection.DENIED;
            return false;
        }
        from += bytes;
        if (strided) {
            to += next == 0 ? 0 : stride;
            bytes = each;
        } else {
            to = payload.get(Frame.LONG, payloadAt + (long) next * Frame.PIECE);
            bytes = payload.get(Frame.LONG, payloadAt + (long) next * Frame.PIECE + 8);
            if (bytes < 0 || bytes > left || !Placing.fits(to, bytes, size)) {
                reason = Connection.DENIED;
                return false;
            }
        }
        next++;
        left -= bytes;
        return true;
    }

    /// @return bytes of all pieces, if nothing is wrong
    long total() {
        return total;
    }

    /// Copies all pieces to their places.
    ///
    /// @return 0, or why the frame is refused
    int copyTo(RegionMemory region) {
        while (next()) {
            int result = copy(payload, from, region, to, bytes);
            if (result != 0) {
                return result;
            }
        }
        return reason;
    }

    /// @return 0, or why the frame is refused
    static int copy(MemorySegment from, long at, RegionMemory to, long offset, long length) {
        try {
            to.copyIn(offset, from, at, length);
            return 0;
        } catch (IllegalStateException e) {
            return Connection.STALE; // the owner closed the arena under its region
        } catch (TelpherException e) {
            Log.warning("bytes of a peer could not be copied to their place", e);
            return Failures.ofMemory(e);
        }
    }
}

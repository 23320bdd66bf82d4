package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.MemorySlices;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;

/// Answers to the peer's read requests: operations that send from a region. Guarded by the
/// connection's lock, which lanes that bring a request do not hold yet and which everything else
/// calls under.
final class Serving {
    private final ConnectionCore connection;
    private final SpinLock lock;
    private final OperationTable table;
    private final Outbound outbound;
    int running;

    Serving(ConnectionCore connection, OperationTable table, Outbound outbound) {
        this.connection = connection;
        this.lock = connection.lock;
        this.table = table;
        this.outbound = outbound;
    }

    /// Starts an answer. Without the lock.
    ///
    /// @return 0, or why it is refused
    int serve(RegionImpl region, long offset, long length, long token, long base, boolean high) {
        lock.lock();
        try {
            return serveLocked(region, offset, length, token, base, high);
        } finally {
            lock.unlock();
        }
    }

    private int serveLocked(
            RegionImpl region, long offset, long length, long token, long base, boolean high) {
        if (offset < 0 || length < 0 || offset > region.size() || length > region.size() - offset) {
            return Connection.DENIED;
        }
        Operation op = take(region, token, base, high);
        if (op == null) {
            return running > Credits.READS ? Connection.BACK_PRESSURED : Connection.STALE;
        }
        op.region = region;
        op.localOffset = offset;
        op.length = length;
        go(op);
        return 0;
    }

    /// Starts an answer that is put together from pieces. Without the lock.
    ///
    /// @param pieces where the table of pieces is, from `at`
    /// @return 0, or why it is refused
    int servePieces(
            RegionImpl region,
            MemorySegment pieces,
            long at,
            int bytes,
            int count,
            long token,
            long base,
            boolean high) {
        lock.lock();
        try {
            return servePiecesLocked(region, pieces, at, bytes, count, token, base, high);
        } finally {
            lock.unlock();
        }
    }

    private int servePiecesLocked(
            RegionImpl region,
            MemorySegment pieces,
            long at,
            int bytes,
            int count,
            long token,
            long base,
            boolean high) {
        if (bytes != count * Frame.PIECE || count == 0) {
            return Connection.DENIED;
        }
        long[] offsets = new long[count];
        long[] lengths = new long[count];
        long total = 0;
        for (int i = 0; i < count; i++) {
            long offset = pieces.get(Frame.LONG, at + (long) i * Frame.PIECE);
            long length = pieces.get(Frame.LONG, at + (long) i * Frame.PIECE + 8);
            if (offset < 0
                    || length < 0
                    || offset > region.size()
                    || length > region.size() - offset) {
                return Connection.DENIED;
            }
            offsets[i] = offset;
            lengths[i] = length;
            total += length;
            if (total < 0) {
                return Connection.DENIED;
            }
        }
        Operation op = take(region, token, base, high);
        if (op == null) {
            return running > Credits.READS ? Connection.BACK_PRESSURED : Connection.STALE;
        }
        op.localPieces = MemorySlices.of(region, offsets, lengths);
        op.length = total;
        go(op);
        return 0;
    }

    private @org.jspecify.annotations.Nullable Operation take(
            RegionImpl region, long token, long base, boolean high) {
        Operation op = running > Credits.READS ? null : table.take();
        if (op == null) {
            return null;
        }
        if (!op.hold.enter(region)) {
            table.release(op);
            return null;
        }
        running++;
        op.kind = Operation.Kind.SERVE;
        op.peerToken = token;
        op.streamBase = base;
        op.high = high;
        // The reader's deadline counts; this one only bounds what nobody waits for any more.
        op.allow(connection.defaultDeadline);
        return op;
    }

    private void go(Operation op) {
        op.stage = Operation.Stage.DATA;
        op.setState(Operation.PENDING);
        outbound.enqueue(op);
    }

    /// All of an answer was sent, or the word that it ends early: the reader may ask for the next
    /// from now on, so neither confirmation nor end is waited for.
    void ended() {
        running--;
    }
}

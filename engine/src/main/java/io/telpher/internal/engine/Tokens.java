package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// The style of posting that allocates nothing: operations on one range of local memory, named by a
/// token that is polled and, when its operation has ended, taken. An operation that is posted here
/// keeps its slot until its result has been taken. Called by posting threads without lock and
/// tokens.
final class Tokens {
    private final ConnectionCore connection;
    private final Posting posting;
    private final SpinLock lock;
    private final OperationTable table;
    private final Pump pump;
    private final OneSided oneSided;

    /// Of the operation whose result was taken last: by the thread that polls, or by any of them.
    private long lastMoved;

    Tokens(ConnectionCore connection, Posting posting) {
        this.connection = connection;
        this.posting = posting;
        this.lock = connection.lock;
        this.table = connection.table;
        this.pump = connection.pump;
        this.oneSided = connection.oneSided;
    }

    /// Tries a write or read: a short one at once, if there is a window.
    long tryOneSided(
            Operation.Kind kind,
            MemoryRegion local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length) {
        RegionImpl region = connection.endpoint().own(local);
        check(localOffset, length, region.size());
        check(remoteOffset, length, remote.length());
        if (connection.isOver()) {
            return connection.reasonOver();
        }
        if (length <= Direct.SHORT) {
            int result = oneSided.copyNow(kind, region, localOffset, remote, remoteOffset, length);
            if (result != OneSided.NOT_NOW) {
                if (result == Connection.DONE) {
                    return Connection.ALREADY_DONE;
                }
                connection.endings.failedAtOnce(
                        kind, length, oneSided.path(remote), result, connection.failure());
                return result;
            }
        }
        return tryPost(kind, region, localOffset, length, remote, remoteOffset, 0);
    }

    /// Posts an operation on one range of local memory, for a token.
    private long tryPost(
            Operation.Kind kind,
            RegionImpl region,
            long localOffset,
            long length,
            @Nullable RemoteMemory remote,
            long remoteOffset,
            long tag) {
        boolean viaWindow;
        LaneState claimed;
        Operation op;
        long token;
        lock.lock();
        try {
            op = table.take();
            if (op == null) {
                return Connection.BACK_PRESSURED;
            }
            op.setKind(kind);
            op.region = region;
            op.localOffset = localOffset;
            op.length = length;
            op.remote = remote;
            op.remoteOffset = remoteOffset;
            op.tag = tag;
            op.allow(connection.defaultDeadline);
            token = op.token();
            viaWindow = posting.start(op, op.hold.enter(region));
            claimed = pump.claim(null);
        } finally {
            lock.unlock();
        }
        posting.goOn(op, viaWindow, claimed);
        return token;
    }

    private static void check(long offset, long length, long size) {
        if (offset < 0 || length < 0 || offset > size || length > size - offset) {
            throw new IndexOutOfBoundsException(
                    "offset %d and length %d do not fit into %d bytes"
                            .formatted(offset, length, size));
        }
    }

    /// Tries a send or receive.
    long tryMessage(Operation.Kind kind, long tag, MemoryRegion local, long offset, long length) {
        RegionImpl region = connection.endpoint().own(local);
        check(offset, length, region.size());
        return connection.isOver()
                ? connection.reasonOver()
                : tryPost(kind, region, offset, length, null, 0, tag);
    }

    /// Refuses a notification that is larger than this endpoint's limit.
    void checkNote(long length) {
        int most = connection.endpoint().options().maxNotification();
        if (length > most) {
            throw new IllegalArgumentException(
                    ("a notification of %d bytes is above the limit of %d; raise"
                                    + " EndpointOptions.maxNotification at both ends, or write into"
                                    + " a region")
                            .formatted(length, most));
        }
    }

    long tryNotify(MemorySegment payload, long offset, int length) {
        checkNote(length);
        if (connection.isOver()) {
            return connection.reasonOver();
        }
        Operation op;
        LaneState claimed;
        long token;
        lock.lock();
        try {
            op = table.take();
            if (op == null) {
                return Connection.BACK_PRESSURED;
            }
            op.kind = Operation.Kind.NOTIFY;
            op.allow(connection.defaultDeadline);
            try {
                op.keepNote(payload, offset, length);
            } catch (RuntimeException e) {
                table.release(op);
                throw e;
            }
            token = op.token();
            claimed = posting.startNote(op);
        } finally {
            lock.unlock();
        }
        posting.goOn(op, false, claimed);
        return token;
    }

    int poll(long token) {
        if (token == Connection.ALREADY_DONE) {
            return Connection.DONE;
        }
        // The slot cannot be used for anything else before its token has been taken here.
        Operation posted = table.find(token);
        if (posted != null && posted.state() != Operation.ENDED) {
            connection.poll();
            if (posted.state() != Operation.ENDED) {
                return Connection.PENDING;
            }
        }
        return take(token);
    }

    private int take(long token) {
        lock.lock();
        try {
            Operation op = table.find(token);
            if (op == null || op.transfer != null) {
                throw new IllegalArgumentException(
                        "token " + token + " is none, or its result was taken already");
            }
            if (op.state() != Operation.ENDED) {
                return Connection.PENDING;
            }
            int reason = op.reason;
            lastMoved = op.kind == Operation.Kind.RECEIVE ? op.received : op.length;
            table.release(op);
            return reason;
        } finally {
            lock.unlock();
        }
    }

    long lastMoved() {
        return lastMoved;
    }
}

package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;

/// What the peer reports of the lanes and of the operations of this side: how far it came, what it
/// refused, withdrew or ended early. Nothing of that is believed; what makes no sense ends the
/// connection.
///
/// Called by the lanes as they take frames in, under a poll token; has no state of its own. Reports
/// of lanes take the connection's lock, those of operations come under it.
final class Reports {
    private final ConnectionCore connection;
    private final SpinLock lock;
    private final OperationTable table;
    private final Outbound outbound;
    private final LaneKeeper keeper;
    private final Endings endings;

    Reports(ConnectionCore connection) {
        this.connection = connection;
        this.lock = connection.lock;
        this.table = connection.table;
        this.outbound = connection.outbound;
        this.keeper = connection.keeper;
        this.endings = connection.endings;
    }

    // --- of lanes -------------------------------------------------------------------------------

    boolean applied(LaneState s, long upTo) {
        lock.lock();
        try {
            return outbound.applied(s, upTo);
        } finally {
            lock.unlock();
        }
    }

    boolean applied(int laneIndex, long upTo) {
        LaneState s = connection.lane(laneIndex);
        return s == null || applied(s, Math.max(upTo, 0));
    }

    /// The peer gives a lane up. One that this side does not know yet, because it is still joining
    /// here, may not join any more: what the peer has sent on it goes out again on the others.
    void fenceAsked(int laneIndex) {
        if (laneIndex < 0 || laneIndex >= Lanes.MOST) {
            connection.violated("FENCE for lane " + laneIndex + ", which there cannot be");
            return;
        }
        LaneState s;
        lock.lock();
        try {
            s = connection.lane(laneIndex);
            if (s == null) {
                connection.lanes.spend(laneIndex);
                outbound.signal(Frame.FENCED, laneIndex, 0, 0);
            }
        } finally {
            lock.unlock();
        }
        if (s != null) {
            keeper.fenceAsked(s);
        }
    }

    void fenced(int laneIndex, long upTo, long refusals) {
        LaneState s = connection.lane(laneIndex);
        boolean good;
        lock.lock();
        try {
            good = s != null && keeper.fenced(s, upTo, refusals);
        } finally {
            lock.unlock();
        }
        if (!good) {
            connection.violated("FENCED for a lane that was not fenced");
        }
    }

    void answer(int type, LaneState s) {
        if (type == Frame.PONG) {
            s.pongDue = true;
            lock.lock();
            try {
                outbound.urgent();
            } finally {
                lock.unlock();
            }
        }
    }

    // --- of operations; under the lock ---------------------------------------------------------

    /// A frame of an operation was confirmed, or will never be. Under the lock.
    void confirmed(Operation op, LaneState.Sent kind, int length) {
        if (op.state() == Operation.FREE) {
            if (op.unconfirmed == 0) {
                table.release(op); // it ended without waiting for this
            }
            return;
        }
        op.confirmedBytes += kind == LaneState.Sent.DATA ? length : 0;
        if (!op.isPending()) {
            endings.tryFinish(op, false);
            return;
        }
        switch (op.kind) {
            case WRITE, NOTIFY -> outbound.advanceWrite(op);
            case SEND -> {
                // Whichever frame is confirmed last: the request may be, by another lane.
                if (op.unconfirmed == 0
                        && op.stage == Operation.Stage.WAIT
                        && (op.direct || (op.started && op.sent == op.length))) {
                    endings.finish(op, Connection.DONE);
                }
            }
            case SERVE -> {
                if (op.started && op.sent == op.length && op.unconfirmed == 0) {
                    endings.finish(op, Connection.DONE);
                }
            }
            default -> {}
        }
    }

    /// The peer has refused a frame. Which operation it was made of is known here: the token in the
    /// frame may have been the peer's own.
    void refused(
            int laneIndex,
            long sequence,
            int reason,
            boolean readRequest,
            long sent,
            long capacity) {
        if (readRequest) {
            outbound.credits.readAnswered();
        }
        LaneState s = connection.lane(laneIndex);
        if (s == null || sequence <= s.acked || sequence > s.sent) {
            connection.violated("a refusal of frame " + sequence + ", which is not under way");
            return;
        }
        if (!(s.ref(sequence - 1) instanceof Operation op)) {
            return;
        }
        if (reason == Connection.TRUNCATED && op.isPending()) {
            op.error = new TelpherException.Truncated(sent, capacity);
        }
        endings.revokeLater(op, reason, refusalDetail(op, reason));
    }

    private static String refusalDetail(Operation op, int reason) {
        if (reason == Connection.DENIED && op.noteSent > 0 && op.counter == null) {
            // Its bytes have arrived: notifications that go in parts follow them.
            return "its notification of %d bytes is above the peer's limit; raise EndpointOptions.maxNotification there"
                    .formatted(op.noteLength);
        }
        if (reason == Connection.CANCELLED) {
            return op.kind == Operation.Kind.SERVE
                    ? "the reader gave up"
                    : "the peer's receive was cancelled";
        }
        return reason == Connection.FAILED
                ? "a device of the peer could not copy it; its log says why"
                : "";
    }

    void truncated(long token, TelpherException.Truncated error) {
        Operation op = table.find(token);
        if (op != null && op.isPending()) {
            op.error = error;
            op.peerEnded = true;
            endings.revokeLater(op, Connection.TRUNCATED, "");
        }
    }

    void aborted(long token, int reason, boolean readRequest) {
        if (readRequest) {
            outbound.credits.readAnswered();
        }
        Operation op = table.find(token);
        if (op != null) {
            aborted(
                    op,
                    reason,
                    op.kind == Operation.Kind.READ
                            ? "the owner closed the region"
                            : "the peer ended it early");
        }
    }

    /// The peer ended an operation early. A receive whose memory it could not reach has lost its
    /// region.
    void aborted(Operation op, int reason, String detail) {
        RegionImpl region = op.region;
        boolean ours = op.kind == Operation.Kind.RECEIVE && region != null && !region.isOpen();
        op.peerEnded = true;
        endings.revokeLater(
                op,
                ours ? Connection.STALE : reason,
                ours ? "its local region was closed" : detail);
    }

    void receiveWithdrawn(Operation op) {
        op.asking = false;
        op.exposed &= op.revocable; // of which the sender's word tells
        endings.tryFinish(op, false);
    }

    void withdrawn(long token) {
        Operation op = table.find(token);
        if (op != null && op.kind == Operation.Kind.RECEIVE) {
            receiveWithdrawn(op);
        }
    }

    /// The peer has stored a message.
    ///
    /// @return false when there is no such receive any more: the message is lost, and the peer must
    ///     hear of it
    boolean receivedByStore(long token, long length) {
        Operation op = table.find(token);
        if (op == null || op.kind != Operation.Kind.RECEIVE || !op.isPending()) {
            return false;
        }
        op.received = Math.clamp(length, 0, op.length);
        return endings.finish(op, Connection.DONE);
    }
}

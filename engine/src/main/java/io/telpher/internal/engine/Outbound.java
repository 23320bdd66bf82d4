package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.Arena;
import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/// The sending half of a connection: owns the queues, and settles what the peer confirms. Who goes
/// next on a lane is in [Schedule], the making of frames in [Cutting], what has to wait for the
/// peer in [Credits], what a dead lane has not delivered in [Resending], the giving of frames to
/// lanes in [Pump].
///
/// Guarded by the connection's lock, under which everything is called; hints alone are read
/// without.
///
/// Lanes pull: whoever has a lane's send token takes the next frame from the queues, so that a fast
/// lane takes more and a slow one never holds up the others. Control and short operations go over
/// the first live lane, the rest over the others, or over the first when there is no other.
final class Outbound {
    /// Operations up to this size go over the control lane.
    static final long SHORT = 64 * 1024;

    /// Longest message that travels without a receive being there.
    static final int EAGER = 8 * 1024;

    /// Longest notification that goes in its tail.
    static final int SHORT_NOTE = 8 * 1024;

    /// Frames of the engine's own that may wait: several for every operation that there can be.
    private static final int MOST_CONTROL = 4 * OperationTable.LIMIT;

    private static final int MOST_SIGNALS = 1024;

    /// Control frames that are kept for their next use.
    private static final int POOL = 64;

    private final ConnectionCore connection;
    final Credits credits;
    final Cutting cutting;
    final Resending resending;
    final Schedule schedule;
    private final Lanes lanes;
    final OperationQueue shortQueue;
    final Bulk bulk;
    final ArrayDeque<ControlFrame> control = new ArrayDeque<>();
    private final ArrayDeque<ControlFrame> pool = new ArrayDeque<>();
    final ArrayDeque<ControlFrame> signals = new ArrayDeque<>();
    private final Hint urgentWork = new Hint();

    /// Changes, under the lock, whenever there may be more to send than before.
    private final Hint stamp = new Hint();

    Outbound(ConnectionCore connection, Arena arena) {
        this.connection = connection;
        this.lanes = connection.lanes;
        this.credits = new Credits(connection.table, this);
        Encoder encoder = new Encoder(arena);
        this.cutting = new Cutting(connection, this, encoder);
        this.resending = new Resending(connection, this, encoder);
        this.shortQueue = new OperationQueue(connection.table);
        this.bulk = new Bulk(connection.table, lanes, cutting);
        this.schedule = new Schedule(this, lanes, cutting);
    }

    // --- queues; under the lock ---------------------------------------------------------------

    /// Puts an operation where the next lane finds it.
    void enqueue(Operation op) {
        boolean isBulk =
                op.stage == Operation.Stage.DATA
                        && op.kind != Operation.Kind.READ
                        && op.length - op.sent > SHORT;
        (isBulk ? bulk.queue(op) : shortQueue).add(op);
        stamp.count();
    }

    ControlFrame control(int type, int flags, int count, long transfer) {
        ControlFrame frame = pool.pollFirst();
        if (frame == null) {
            frame = new ControlFrame();
        }
        frame.start(type, flags, count, transfer);
        return frame;
    }

    /// Keeps a control frame that is settled for its next use.
    void recycle(ControlFrame frame) {
        if (pool.size() < POOL) {
            pool.addLast(frame);
        }
    }

    void enqueue(ControlFrame frame) {
        if (control.size() > MOST_CONTROL) {
            connection.violated("requests without taking the answers");
            return;
        }
        control.addLast(frame);
        urgentWork.set();
        stamp.count();
    }

    /// Queues a frame that is neither confirmed nor kept.
    void signal(int type, long a, long b, long c) {
        if (signals.size() > MOST_SIGNALS) {
            return; // they may be lost
        }
        ControlFrame frame =
                control(type, 0, 0, 0).with(Frame.A, a).with(Frame.B, b).with(Frame.C, c);
        signals.addLast(frame);
        urgentWork.set();
        stamp.count();
    }

    /// Something small waits that is in no queue.
    void urgent() {
        urgentWork.set();
        stamp.count();
    }

    /// The peer should hear how far a lane was applied.
    void acknowledge(LaneState s) {
        s.ackDue = true;
        urgentWork.set();
        stamp.count();
    }

    /// A hint, without the lock: a short operation waits.
    boolean hasShort() {
        return shortQueue.isFilled();
    }

    /// A hint, without the lock: something waits that is in no queue of operations.
    boolean hasControl() {
        return urgentWork.isSet();
    }

    /// Nothing of that kind is left.
    void noControl() {
        urgentWork.clear();
    }

    /// @return a number that changes whenever there may be more to send than before
    long stamp() {
        return stamp.get();
    }

    /// There may be more to send than before.
    void touch() {
        stamp.count();
    }

    /// Takes an operation out of the queue for short ones.
    void unqueue(Operation op) {
        shortQueue.remove(op);
    }

    /// Queues a notification that a dead lane has not delivered in front of those sent later.
    void notifyAgain(Operation op) {
        op.stage = Operation.Stage.TAIL;
        shortQueue.addFirst(op);
        stamp.count();
    }

    /// Tells the reader that not all of an answer will come.
    ///
    /// @param end whether its last frame is among what does not: then this counts as its end
    void abortServe(Operation op, int reason, boolean end) {
        enqueue(control(Frame.ABORT, 0, -reason, op.peerToken).with(Frame.E, end ? 1 : 0));
    }

    // --- confirmations; under the lock ----------------------------------------------------------

    /// The peer has applied a lane's frames up to a sequence.
    ///
    /// @return false when it claims more than was sent
    boolean applied(LaneState s, long upTo) {
        if (upTo > s.sent) {
            return false;
        }
        while (s.acked < upTo) {
            long sequence = s.acked;
            Object ref = s.ref(sequence);
            LaneState.Sent kind = s.kind(sequence);
            int length = s.length(sequence);
            s.forget();
            settle(kind, ref, length);
        }
        adaptWindow(s);
        stamp.count();
        return true;
    }

    private void settle(LaneState.Sent kind, @Nullable Object ref, int length) {
        if (ref instanceof ControlFrame frame) {
            ControlFrame.Owner owner = frame.owner;
            recycle(frame);
            if (owner != null) {
                owner.confirmed();
            }
        } else if (ref instanceof Operation op) {
            op.unconfirmed--;
            connection.reports.confirmed(op, kind, length);
        }
    }

    /// What comes next for a write or notification all of whose frames so far are confirmed.
    void advanceWrite(Operation op) {
        if (op.unconfirmed > 0 || !op.dataSent() || op.stage != Operation.Stage.WAIT) {
            return;
        }
        if (op.hasTail() && !op.tailSent) {
            op.stage =
                    op.noteLength > SHORT_NOTE && op.noteSent < op.noteLength
                            ? Operation.Stage.NOTE
                            : Operation.Stage.TAIL;
            if (op.noteLength < 0 || credits.mayNotify(op)) {
                enqueue(op);
            }
        } else {
            connection.endings.finish(op, Connection.DONE);
        }
    }

    /// Gives each lane as much room as it drains in 25 ms, so that the last chunks of a transfer do
    /// not queue up on a slow lane while a fast one is idle. A lone bulk lane needs no limit.
    private void adaptWindow(LaneState s) {
        if (lanes.all().length <= 2) {
            return;
        }
        long now = connection.platform.nanoTime();
        long time = now - s.rateSince;
        if (time < 10_000_000) {
            return;
        }
        long bytes = s.ackedBytes - s.rateBytes;
        s.rateBytes = s.ackedBytes;
        s.rateSince = now;
        if (time < 1_000_000_000 && bytes > 0) {
            long room = Math.max(2L * s.lane.maxPayload(), bytes * 25_000_000 / time);
            s.window = s.window == Long.MAX_VALUE ? room : (s.window + room) / 2;
        }
    }
}

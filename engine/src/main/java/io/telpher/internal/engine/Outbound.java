package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.TelpherException;
import io.telpher.internal.memory.Raw;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/// The sending half of a connection: owns the queues, decides which frame goes out next on which
/// lane, and settles what the peer confirms. What has to wait for the peer is in [Credits], what a
/// dead lane has not delivered in [Resending], the giving of frames to lanes in [Pump].
///
/// Guarded by the connection's lock, under which everything is called; hints alone are read
/// without. Encoding a frame needs the lane's send token besides.
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

    /// An operation gives way to its equals after so many bytes.
    private static final long QUANTUM = 4 << 20;

    private final ConnectionCore connection;
    final Credits credits;
    final Resending resending;
    private final Lanes lanes;
    private final Encoder encoder;
    final OperationQueue shortQueue;
    final OperationQueue bulkQueue;
    final ArrayDeque<ControlFrame> control = new ArrayDeque<>();
    private final ArrayDeque<ControlFrame> pool = new ArrayDeque<>();
    final ArrayDeque<ControlFrame> signals = new ArrayDeque<>();
    private final Hint urgentWork = new Hint();

    /// Changes, under the lock, whenever there may be more to send than before.
    private final Hint stamp = new Hint();

    Outbound(ConnectionCore connection, Arena arena) {
        this.connection = connection;
        this.lanes = connection.lanes;
        this.encoder = new Encoder(arena);
        this.shortQueue = new OperationQueue(connection.table);
        this.bulkQueue = new OperationQueue(connection.table);
        this.credits = new Credits(connection.table, this);
        this.resending = new Resending(connection, this, encoder);
    }

    // --- queues; under the lock ---------------------------------------------------------------

    /// Puts an operation where the next lane finds it.
    void enqueue(Operation op) {
        boolean bulk =
                op.stage == Operation.Stage.DATA
                        && op.kind != Operation.Kind.READ
                        && op.length - op.sent > SHORT;
        (bulk ? bulkQueue : shortQueue).add(op);
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

    /// There may be more to send than before.
    void touch() {
        stamp.count();
    }

    /// Takes an operation out of the queue for short ones.
    void unqueue(Operation op) {
        shortQueue.remove(op);
    }

    /// Tells the reader that not all of an answer will come.
    ///
    /// @param end whether its last frame is among what does not: then this counts as its end
    void abortServe(Operation op, int reason, boolean end) {
        enqueue(control(Frame.ABORT, 0, -reason, op.peerToken).with(Frame.E, end ? 1 : 0));
    }

    // --- sending ------------------------------------------------------------------------------

    /// A hint, without the lock: there may be something for this lane.
    boolean isQueued(LaneState s) {
        boolean first = s == lanes.control();
        return s.pingDue
                || s.pongDue
                || (first && (urgentWork.isSet() || shortQueue.isFilled()))
                || (bulkQueue.isFilled() && lanes.carriesBulk(s))
                || s.out.isWaiting()
                || resending.hasWork();
    }

    /// Whether control frames wait that no lane has been offered; a hint.
    boolean hasControl() {
        return urgentWork.isSet();
    }

    /// @return a number that changes whenever there may be more to send than before
    long stamp() {
        return stamp.get();
    }

    /// Encodes the next frame for a lane. Under the lock and the send token.
    boolean next(LaneState s) {
        LaneState first = lanes.control();
        boolean leads = s == first;
        if (s.pingDue || s.pongDue) {
            int type = s.pongDue ? Frame.PONG : Frame.PING;
            if (s.pongDue) {
                s.pongDue = false;
            } else {
                s.pingDue = false;
            }
            Encoder.noPayload(s);
            s.start(type, 0, 0, 0, 0);
            confirm(s);
            return true;
        }
        if (leads && urgentWork.isSet()) {
            ControlFrame signal = signals.pollFirst();
            if (signal != null) {
                copyControl(s, signal);
                confirm(s); // a lane with checksums counts on it in every frame
                if (pool.size() < 64) {
                    pool.addLast(signal);
                }
                return true;
            }
            for (LaneState other : lanes.all()) {
                if (other.ackDue) {
                    other.ackDue = false;
                    long upTo = other.reportable();
                    if (upTo > other.reported && !other.lane.confirmsNatively()) {
                        other.reported = upTo;
                        Encoder.noPayload(s);
                        s.start(Frame.APPLIED, 0, 0, 0, 0);
                        s.set(Frame.A, other.index);
                        s.set(Frame.B, upTo);
                        confirm(s);
                        return true;
                    }
                }
            }
            ControlFrame frame = control.pollFirst();
            if (frame != null) {
                copyControl(s, frame);
                s.remember(LaneState.Sent.CONTROL, frame, 0, 0);
                confirm(s);
                return true;
            }
            urgentWork.clear();
        }
        if (s.sent - s.acked >= LaneState.WINDOW) {
            return false;
        }
        if (resending.next(s, leads)) {
            confirm(s);
            return true;
        }
        Operation op;
        while (leads && (op = shortQueue.peek()) != null) {
            if (op.kind == Operation.Kind.NOTIFY && notesAreOut(s)) {
                break;
            }
            if (encode(op, s, shortQueue)) {
                confirm(s);
                return true;
            }
        }
        while (!s.windowFull() && (op = bulkQueue.peek()) != null && lanes.carriesBulk(s)) {
            if (s.out.takes(op)) {
                if (!s.out.hasRoom()) {
                    break;
                }
                stage(op, s); // as many as there are buffers: GPUs fill them at the same time
            } else if (encode(op, s, bulkQueue)) {
                confirm(s);
                return true;
            }
        }
        if (!s.out.next()) {
            return false;
        }
        confirm(s);
        return true;
    }

    /// Cuts a frame of a bulk operation whose bytes a GPU copies out.
    private void stage(Operation op, LaneState s) {
        OutboundStaging.StagedFrame frame = s.out.claim(op);
        s.cutting = frame;
        boolean kept = false;
        try {
            kept = encode(op, s, bulkQueue);
        } finally {
            s.cutting = null;
            Encoder.noPayload(s);
            if (!kept) {
                s.out.abandon(frame);
            }
        }
    }

    /// Whether the peer may not have heard yet what was notified over a lane that has died: what is
    /// notified later has to wait until it says so.
    private boolean notesAreOut(LaneState s) {
        for (LaneState other : lanes.all()) {
            if (other != s && other.dead && !other.fenced && other.hasNotes()) {
                return true;
            }
        }
        return false;
    }

    /// Queues a notification that a dead lane has not delivered in front of those sent later.
    void notifyAgain(Operation op) {
        op.stage = Operation.Stage.TAIL;
        shortQueue.addFirst(op);
        stamp.count();
    }

    /// Encodes a notification, which is in no queue, if nothing is before it. Under the lock and
    /// the send token.
    boolean atOnce(Operation note, LaneState s) {
        if (urgentWork.isSet()
                || shortQueue.isFilled()
                || resending.hasWork()
                || notesAreOut(s)
                || s.sent - s.acked >= LaneState.WINDOW
                || note.noteLength > SHORT_NOTE
                || !credits.mayNotifyNow(note)) {
            return false;
        }
        encoder.tail(note, s, false);
        note.tailSent = true;
        remember(s, LaneState.Sent.TAIL, note, 0, 0);
        confirm(s);
        return true;
    }

    /// Every frame says how far its lane was applied, which spares the peer a look at the word of
    /// lanes that have one.
    private void confirm(LaneState s) {
        long upTo = s.reportable();
        if (upTo > s.reported) {
            s.reported = upTo;
        }
        s.set(Frame.CONFIRM, upTo);
    }

    static void copyControl(LaneState s, ControlFrame frame) {
        MemorySegment.copy(frame.header, 0, Raw.ALL, s.header, Lane.HEADER);
        Encoder.noPayload(s);
        MemorySegment payload = frame.payload;
        if (frame.length > 0 && payload != null) {
            s.payload = payload;
            s.payloadLength = frame.length;
        }
    }

    /// Cuts one frame from an operation that is first in a queue; takes it out when nothing is left
    /// to cut.
    ///
    /// @return false when there was nothing to send after all
    private boolean encode(Operation op, LaneState s, OperationQueue queue) {
        try {
            return encodeStage(op, s, queue);
        } catch (IllegalStateException | TelpherException e) {
            // The caller closed the arena under its registered memory.
            queue.removeFirst();
            connection.endings.revokeLater(op, Failures.ofMemory(e), Failures.memoryDetail(e));
            return false;
        }
    }

    private boolean encodeStage(Operation op, LaneState s, OperationQueue queue) {
        switch (op.stage) {
            case DATA -> {
                return encodeData(op, s, queue);
            }
            case NOTE -> {
                int at = op.noteSent;
                int n = encoder.notePart(op, s, at);
                op.noteSent += n;
                remember(s, LaneState.Sent.NOTE, op, at, n);
                if (op.noteSent == op.noteLength) {
                    queue.removeFirst();
                    op.stage = Operation.Stage.WAIT;
                }
                return true;
            }
            case TAIL -> {
                if (op.unconfirmed > 0 && op.carrier != s) {
                    // The lane that carries its data has died in between: order helps no more.
                    queue.removeFirst();
                    op.stage = Operation.Stage.WAIT;
                    return false;
                }
                boolean parts = op.noteSent > 0;
                if (op.noteLength >= 0 && !credits.admit(op)) {
                    queue.removeFirst();
                    credits.hold(op);
                    return false;
                }
                encoder.tail(op, s, parts);
                op.tailSent = true;
                done(op, s, queue, LaneState.Sent.TAIL);
                credits.noteSent(op);
                return true;
            }
            case MESSAGE -> {
                encoder.message(op, s);
                op.started = true;
                op.sent = op.length;
                queue.removeFirst();
                op.stage = Operation.Stage.WAIT;
                remember(s, LaneState.Sent.MESSAGE, op, addCredits(s), 0);
                return true;
            }
            case REQUEST -> {
                encoder.request(op, s);
                done(op, s, queue, LaneState.Sent.REQUEST);
                return true;
            }
            case STORED -> {
                encoder.stored(op, s);
                done(op, s, queue, LaneState.Sent.STORED);
                return true;
            }
            default -> {
                queue.removeFirst();
                return false;
            }
        }
    }

    /// Gives the peer with a message what is owed to it.
    ///
    /// @return how many credits, to be remembered: the frame may get lost
    int addCredits(LaneState s) {
        int owed = connection.matcher.takeCredits();
        if (owed > 0) {
            s.addFlags(Frame.CREDITS);
            s.set(Frame.C, owed);
        }
        return owed;
    }

    private void done(Operation op, LaneState s, OperationQueue queue, LaneState.Sent kind) {
        queue.removeFirst();
        op.stage = Operation.Stage.WAIT;
        remember(s, kind, op, 0, 0);
    }

    private static void remember(
            LaneState s, LaneState.Sent kind, Operation op, long offset, long length) {
        op.unconfirmed++;
        s.remember(kind, op, offset, (int) length);
    }

    private boolean encodeData(Operation op, LaneState s, OperationQueue queue) {
        boolean read = op.kind == Operation.Kind.READ;
        if (read && !credits.mayRead()) {
            queue.removeFirst();
            credits.holdRead(op);
            return false;
        }
        long at = op.sent;
        OutboundStaging.StagedFrame staged = s.cutting;
        long most = op.length - at;
        long n = cut(op, s, at, staged == null ? most : staged.most(at, most));
        op.sent += n;
        op.started = true;
        if (read) {
            credits.readSent();
        }
        advance(op, s, queue, at, n);
        if (staged != null) {
            s.out.keep(staged, op, at, n);
        } else {
            remember(s, read ? LaneState.Sent.READ : LaneState.Sent.DATA, op, at, n);
        }
        return true;
    }

    /// A frame was cut from an operation's data: what comes next of it.
    private void advance(Operation op, LaneState s, OperationQueue queue, long at, long n) {
        if (op.sent < op.length) {
            op.quantum += n;
            if (op.quantum >= QUANTUM) {
                op.quantum = 0;
                queue.rotate();
            }
            return;
        }
        if (op.kind == Operation.Kind.WRITE
                && op.hasTail()
                && at == 0
                && queue == shortQueue
                && op.noteLength <= SHORT_NOTE) {
            // One frame, and its tail right behind it on the same lane: order is enough.
            s.addFlags(Frame.COUNTED);
            op.carrier = s;
            op.stage = Operation.Stage.TAIL;
            return;
        }
        markLast(op, s);
        if (op.kind == Operation.Kind.SERVE) {
            connection.serving.ended();
        }
        queue.removeFirst();
        op.stage = Operation.Stage.WAIT;
    }

    /// Marks the frame that ends the data of an operation.
    static void markLast(Operation op, LaneState s) {
        switch (op.kind) {
            case SERVE -> s.addFlags(Frame.COUNTED);
            case READ -> {}
            default -> s.addFlags(Frame.URGENT);
        }
    }

    long cut(Operation op, LaneState s, long at, long limit) {
        return switch (op.kind) {
            case WRITE -> encoder.write(op, s, at, limit);
            case READ -> encoder.read(op, s, at, limit);
            default -> encoder.data(op, s, at, limit);
        };
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
            if (pool.size() < 64) {
                pool.addLast(frame);
            }
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

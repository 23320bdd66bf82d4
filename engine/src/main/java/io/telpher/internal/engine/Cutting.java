package io.telpher.internal.engine;

import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;

/// Cuts frames from operations: the next one of each stage, what is remembered of it until the peer
/// confirms it, and what follows in the operation. Which operation is next, [Schedule] says; how a
/// frame looks, [Encoder] knows.
///
/// Guarded by the connection's lock and the lane's send token.
final class Cutting {
    /// An operation gives way to its equals after so many bytes.
    private static final long QUANTUM = 4 << 20;

    private final ConnectionCore connection;
    private final Outbound outbound;
    private final Encoder encoder;

    Cutting(ConnectionCore connection, Outbound outbound, Encoder encoder) {
        this.connection = connection;
        this.outbound = outbound;
        this.encoder = encoder;
    }

    /// Cuts one frame from an operation that is first in a queue; takes it out when nothing is left
    /// to cut.
    ///
    /// @return false when there was nothing to send after all
    boolean cut(Operation op, LaneState s, OperationQueue queue) {
        try {
            return cutStage(op, s, queue);
        } catch (IllegalStateException | TelpherException e) {
            // The caller closed the arena under its registered memory.
            queue.removeFirst();
            connection.endings.revokeLater(op, Failures.ofMemory(e), Failures.memoryDetail(e));
            return false;
        }
    }

    /// Cuts one frame from the data of the operation that is first in a queue, to be put aside
    /// until a GPU has filled it; there is a buffer.
    void stage(Operation op, LaneState s, OperationQueue queue) {
        OutboundStaging.StagedFrame frame = s.out.claim(op);
        s.cutting = frame;
        boolean kept = false;
        try {
            kept = cut(op, s, queue);
        } finally {
            s.cutting = null;
            Encoder.noPayload(s);
            if (!kept) {
                s.out.abandon(frame);
            }
        }
    }

    /// Makes the frame of a notification that is in no queue, and is admitted.
    void note(Operation note, LaneState s) {
        encoder.tail(note, s, false);
        note.tailSent = true;
        remember(s, LaneState.Sent.TAIL, note, 0, 0);
    }

    private boolean cutStage(Operation op, LaneState s, OperationQueue queue) {
        switch (op.stage) {
            case DATA -> {
                return cutData(op, s, queue);
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
                if (op.noteLength >= 0 && !outbound.credits.admit(op)) {
                    queue.removeFirst();
                    outbound.credits.hold(op);
                    return false;
                }
                encoder.tail(op, s, parts);
                op.tailSent = true;
                done(op, s, queue, LaneState.Sent.TAIL);
                outbound.credits.noteSent(op);
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
        int owed = connection.matcher.receives.takeCredits();
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

    private boolean cutData(Operation op, LaneState s, OperationQueue queue) {
        boolean read = op.kind == Operation.Kind.READ;
        if (read && !outbound.credits.mayRead()) {
            queue.removeFirst();
            outbound.credits.holdRead(op);
            return false;
        }
        long at = op.sent;
        OutboundStaging.StagedFrame staged = s.cutting;
        long most = op.length - at;
        long n = range(op, s, at, staged == null ? most : staged.most(at, most));
        op.sent += n;
        op.started = true;
        if (read) {
            outbound.credits.readSent();
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
            OperationQueue next = queue == outbound.shortQueue ? queue : outbound.bulk.queue(op);
            if (next != queue) {
                queue.removeFirst();
                next.add(op);
            } else if (op.quantum >= QUANTUM) {
                op.quantum = 0;
                queue.rotate();
            }
            return;
        }
        if (op.kind == Operation.Kind.WRITE
                && op.hasTail()
                && at == 0
                && queue == outbound.shortQueue
                && op.noteLength <= Outbound.SHORT_NOTE) {
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

    /// Encodes a frame from a range of an operation's data.
    ///
    /// @return how many bytes of it
    long range(Operation op, LaneState s, long at, long limit) {
        return switch (op.kind) {
            case WRITE -> encoder.write(op, s, at, limit);
            case READ -> encoder.read(op, s, at, limit);
            default -> encoder.data(op, s, at, limit);
        };
    }
}

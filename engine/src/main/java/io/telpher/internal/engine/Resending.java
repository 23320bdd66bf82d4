package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.TelpherException;
import java.util.ArrayDeque;

/// Sends again what a dead lane has not delivered. What is left of a lane that was fenced is taken
/// back frame by frame; each is made anew from its operation, on whichever lane comes first. What
/// belongs to an operation that has ended does not go out again, and whoever would wait for it
/// hears of that.
///
/// Guarded by the connection's lock, under which everything is called.
final class Resending {
    /// A frame that has to be made again.
    private record Resend(LaneState.Sent kind, Object ref, long offset, int length) {}

    private final ConnectionCore connection;
    private final Outbound outbound;
    private final Credits credits;
    private final Encoder encoder;
    final ArrayDeque<Resend> resends = new ArrayDeque<>(0);

    /// A hint: `resends` holds something.
    private final Hint filled = new Hint();

    Resending(ConnectionCore connection, Outbound outbound, Encoder encoder) {
        this.connection = connection;
        this.outbound = outbound;
        this.credits = outbound.credits;
        this.encoder = encoder;
    }

    /// A hint, without the lock.
    boolean hasWork() {
        return filled.isSet();
    }

    /// Takes back what a dead lane has not delivered.
    ///
    /// @param arrived how many frames it has delivered
    void takeBack(LaneState s, long arrived) {
        if (arrived == s.sent) {
            return;
        }
        filled.set();
        outbound.touch();
        ArrayDeque<Operation> notes = new ArrayDeque<>();
        for (long sequence = arrived; sequence < s.sent; sequence++) {
            LaneState.Sent kind = s.kind(sequence);
            Object ref = s.ref(sequence);
            long offset = s.offset(sequence);
            int length = s.length(sequence);
            if (ref instanceof ControlFrame) {
                resends.addLast(new Resend(kind, ref, offset, length));
            } else if (ref instanceof Operation op) {
                if (kind == LaneState.Sent.TAIL) {
                    // Its data may have to go first: the tail waits until that is confirmed.
                    op.unconfirmed--;
                    op.tailSent = false;
                    if (op.isPending()) {
                        op.stage = Operation.Stage.WAIT;
                        if (op.kind == Operation.Kind.NOTIFY) {
                            notes.addFirst(op);
                        } else {
                            outbound.advanceWrite(op);
                        }
                    } else {
                        credits.noteRevoked(op);
                        connection.reports.confirmed(op, kind, 0);
                    }
                } else if (kind == LaneState.Sent.NOP) {
                    op.unconfirmed--;
                    connection.reports.confirmed(op, kind, 0);
                } else if (kind == LaneState.Sent.MESSAGE) {
                    connection.matcher.receives.owe((int) offset);
                    resends.addLast(new Resend(kind, op, 0, length));
                } else {
                    resends.addLast(new Resend(kind, op, offset, length));
                }
            }
        }
        s.forgetFrom(arrived);
        notes.forEach(outbound::notifyAgain);
    }

    /// A frame was cut and not sent: goes out over another lane.
    void add(Operation op, long offset, int length) {
        filled.set();
        outbound.touch();
        resends.addLast(new Resend(LaneState.Sent.DATA, op, offset, length));
    }

    /// Encodes the next frame that has to be made again, if this lane may carry it.
    ///
    /// @param leads whether it is the first live lane, which carries everything but bulk data
    /// @return whether a frame was encoded
    boolean next(LaneState s, boolean leads) {
        filled.set(resends.size());
        while (!resends.isEmpty()) {
            if (encode(s, leads)) {
                return true;
            }
            if (!resends.isEmpty() && !leads) {
                return false;
            }
        }
        return false;
    }

    /// @return whether a frame was encoded; the queue's head has been dealt with unless it needs
    ///     another lane
    private boolean encode(LaneState s, boolean leads) {
        Resend r = resends.peekFirst();
        if (r == null) {
            return false;
        }
        boolean anyLane = r.kind == LaneState.Sent.DATA || r.kind == LaneState.Sent.READ;
        if (!anyLane && !leads) {
            return false;
        }
        resends.removeFirst();
        if (r.ref instanceof ControlFrame frame) {
            Encoder.control(frame, s);
            s.remember(LaneState.Sent.CONTROL, frame, 0, 0);
            s.resends++;
            return true;
        }
        Operation op = (Operation) r.ref;
        if (!op.isPending() || (r.kind == LaneState.Sent.REQUEST && op.peerToken != 0)) {
            dropped(op, r.kind, r.offset, r.length);
            op.unconfirmed--;
            connection.reports.confirmed(op, r.kind, 0);
            return false;
        }
        try {
            encodeAgain(op, r, s);
            s.resends++;
            return true;
        } catch (IllegalStateException | TelpherException e) {
            connection.endings.revokeLater(op, Failures.ofMemory(e), Failures.memoryDetail(e));
            dropped(op, r.kind, r.offset, r.length);
            op.unconfirmed--;
            connection.reports.confirmed(op, r.kind, 0);
            return false;
        }
    }

    /// A frame that was cut from an operation does not go out, or not again: whoever would wait for
    /// what it was to bring about hears of it.
    void dropped(Operation op, LaneState.Sent kind, long offset, long length) {
        switch (kind) {
            case DATA -> {
                if (op.kind == Operation.Kind.SERVE) {
                    // Its last frame may have gone out over another lane: the reader waits for all.
                    int reason = op.isPending() ? Connection.CANCELLED : op.reason;
                    outbound.abortServe(op, reason, offset + length == op.length);
                }
            }
            case READ -> credits.readAnswered();
            case MESSAGE -> {
                connection.matcher.receives.owe((int) offset);
                connection.matcher.sends.unsent(op, kind);
            }
            case REQUEST -> connection.matcher.sends.unsent(op, kind);
            default -> {}
        }
    }

    private void encodeAgain(Operation op, Resend r, LaneState s) {
        long at = r.offset;
        long n = r.length;
        switch (r.kind) {
            case DATA, READ -> {
                n = outbound.cutting.range(op, s, r.offset, r.length);
                if (n < r.length && r.kind == LaneState.Sent.READ) {
                    credits.readSent();
                }
                if (r.offset + n == op.length) {
                    Cutting.markLast(op, s);
                }
            }
            case NOTE -> n = encoder.notePart(op, s, (int) r.offset);
            case MESSAGE -> {
                encoder.message(op, s);
                at = outbound.cutting.addCredits(s);
            }
            case REQUEST -> encoder.request(op, s);
            default -> encoder.stored(op, s);
        }
        if (n < r.length) {
            // This lane's frames hold less than those of the one that died.
            resends.addFirst(new Resend(r.kind, op, r.offset + n, (int) (r.length - n)));
            op.unconfirmed++;
        }
        s.remember(r.kind, op, at, (int) n);
    }
}

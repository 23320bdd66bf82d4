package io.telpher.internal.engine;

import io.telpher.internal.wire.Frame;

/// Who goes next on a lane. In this order:
///
/// 1. probes, on the lane that they are about
/// 2. on the first live lane: signals, confirmations, control frames
/// 3. what a dead lane has not delivered ([Resending])
/// 4. on the first live lane: short operations
/// 5. on the lanes for bulk: bulk operations, of hosts and of devices in turn ([Bulk])
///
/// Within a queue [OperationQueue] and [Cutting#QUANTUM] decide. From 3 on a lane sends only while
/// the peer confirms. Guarded by the connection's lock and the lane's send token.
final class Schedule {
    private final Outbound outbound;
    private final Lanes lanes;
    private final Cutting cutting;

    Schedule(Outbound outbound, Lanes lanes, Cutting cutting) {
        this.outbound = outbound;
        this.lanes = lanes;
        this.cutting = cutting;
    }

    /// A hint, without lock and token: there may be something for this lane.
    boolean hasWork(LaneState s) {
        boolean leads = s == lanes.control();
        return s.pingDue
                || s.pongDue
                || (leads && (outbound.hasControl() || outbound.hasShort()))
                || (outbound.bulk.isFilled() && lanes.carriesBulk(s))
                || s.out.isWaiting()
                || outbound.resending.hasWork();
    }

    /// Encodes the next frame for a lane.
    ///
    /// @return false when there is none that may go out now
    boolean next(LaneState s) {
        boolean leads = s == lanes.control();
        boolean encoded =
                nextProbe(s)
                        || (leads && nextControl(s))
                        || (!isFull(s)
                                && (outbound.resending.next(s, leads)
                                        || (leads && nextShort(s))
                                        || s.bulk.next()));
        if (encoded) {
            confirm(s);
        }
        return encoded;
    }

    /// Encodes a notification, which is in no queue, if nothing is before it.
    boolean atOnce(Operation note, LaneState s) {
        if (outbound.hasControl()
                || outbound.hasShort()
                || outbound.resending.hasWork()
                || notesAreOut(s)
                || isFull(s)
                || note.noteLength > Outbound.SHORT_NOTE
                || !outbound.credits.mayNotifyNow(note)) {
            return false;
        }
        cutting.note(note, s);
        confirm(s);
        return true;
    }

    /// Whether the peer has to confirm something first.
    private static boolean isFull(LaneState s) {
        return s.sent - s.acked >= LaneState.WINDOW;
    }

    private static boolean nextProbe(LaneState s) {
        boolean pong = s.pongDue;
        if (!pong && !s.pingDue) {
            return false;
        }
        if (pong) {
            s.pongDue = false;
        } else {
            s.pingDue = false;
        }
        Encoder.noPayload(s);
        s.start(pong ? Frame.PONG : Frame.PING, 0, 0, 0, 0);
        return true;
    }

    private boolean nextControl(LaneState s) {
        if (!outbound.hasControl()) {
            return false;
        }
        ControlFrame signal = outbound.signals.pollFirst();
        if (signal != null) {
            Encoder.control(signal, s);
            outbound.recycle(signal);
            return true;
        }
        for (LaneState other : lanes.all()) {
            if (other.ackDue) {
                other.ackDue = false;
                if (confirm(other, s)) {
                    return true;
                }
            }
        }
        ControlFrame frame = outbound.control.pollFirst();
        if (frame == null) {
            outbound.noControl();
            return false;
        }
        Encoder.control(frame, s);
        s.remember(LaneState.Sent.CONTROL, frame, 0, 0);
        return true;
    }

    /// Says over one lane how far another was applied, if the peer has not heard.
    private static boolean confirm(LaneState other, LaneState by) {
        long upTo = other.reportable();
        if (upTo <= other.reported || other.lane.confirmsNatively()) {
            return false;
        }
        other.reported = upTo;
        Encoder.noPayload(by);
        by.start(Frame.APPLIED, 0, 0, 0, 0);
        by.set(Frame.A, other.index);
        by.set(Frame.B, upTo);
        return true;
    }

    private boolean nextShort(LaneState s) {
        Operation op;
        while ((op = outbound.shortQueue.peek()) != null) {
            if (op.kind == Operation.Kind.NOTIFY && notesAreOut(s)) {
                return false;
            }
            if (cutting.cut(op, s, outbound.shortQueue)) {
                return true;
            }
        }
        return false;
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

    /// Every frame says how far its lane was applied, which spares the peer a look at the word of
    /// lanes that have one, and which a lane with checksums counts on.
    private static void confirm(LaneState s) {
        long upTo = s.reportable();
        if (upTo > s.reported) {
            s.reported = upTo;
        }
        s.set(Frame.CONFIRM, upTo);
    }
}

package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// The receiving half of one lane: takes in its frames one by one, in two steps. `begin` says where
/// the payload goes ([Placing]), `end` applies the frame when the payload is there.
///
/// Used under the lane's poll token, which guards all of it and its parts; takes the connection's
/// lock for what the lanes share. Nothing in a frame is believed: every type, length, range, region
/// and token is checked before it is used. A frame that makes no sense ends the lane; one that may
/// not be applied is refused, and the lane lives on.
final class Inbound implements Receiver {
    private final ConnectionCore connection;
    private final LaneState lane;
    private final Placing placing;
    private final Refusals refusals;
    final Tails tails;
    private final Announcements announcements;
    private long lastConfirm;

    Inbound(ConnectionCore connection, LaneState lane) {
        this.connection = connection;
        this.lane = lane;
        this.placing = new Placing(connection);
        this.refusals = new Refusals(connection, lane);
        this.tails = new Tails(connection, lane, placing, refusals);
        this.announcements = new Announcements(connection, lane, refusals);
    }

    @Override
    public boolean begin(MemorySegment h, long at, Placement placement) {
        int type = Frame.type(h, at);
        int length = Frame.length(h, at);
        if (length < 0 || length > lane.lane.maxPayload()) {
            return false;
        }
        long confirm = Frame.field(h, at, Frame.CONFIRM);
        if (confirm != lastConfirm && confirm != 0) {
            lastConfirm = confirm;
            if (lane.lane.confirmsNatively()) {
                lane.told = Math.max(lane.told, confirm); // looked after when there is time
            } else if (!connection.reports.applied(lane, confirm)) {
                return false;
            }
        }
        return placing.place(h, at, type, length, placement);
    }

    /// The next short notification is wanted here, unless others are before it.
    void want(@Nullable MemorySegment into) {
        tails.want(into);
    }

    /// It is not wanted any more.
    ///
    /// @return 1 and the length of the notification that has come, or 0
    int wanted() {
        return tails.wanted();
    }

    /// The lane ends: a frame that has only come in part is forgotten.
    void abandon() {
        placing.abandon();
        tails.giveCredit();
    }

    @Override
    public void end(MemorySegment h, long at, MemorySegment p, long pAt, Placement placement) {
        int type = Frame.type(h, at);
        int length = Frame.length(h, at);
        lane.framesReceived++;
        lane.bytesReceived += length + Frame.inlined(h, at);
        apply(h, at, p, pAt, placement, type, length);
        if (type < Frame.FIRST_UNSEQUENCED) {
            // Only now: another thread may confirm it at once, which says that its bytes are there
            // and that a refusal is held.
            lane.countReceived();
            lane.unreportedBytes += length;
            if ((Frame.flags(h, at) & Frame.URGENT) != 0) {
                lane.urgent = true;
            }
        }
    }

    private void apply(
            MemorySegment h,
            long at,
            MemorySegment p,
            long pAt,
            Placement placement,
            int type,
            int length) {
        switch (type) {
            case Frame.WRITE -> endWrite(h, at, p, pAt, length, placement);
            case Frame.WRITE_PIECES -> endWritePieces(h, at, p, pAt, length);
            case Frame.TAIL -> tails.tail(h, at, p, pAt, length);
            case Frame.NOTE_PART -> tails.part(h, at, p, pAt, length);
            case Frame.READ, Frame.READ_PIECES -> endRead(h, at, p, pAt, length, type);
            case Frame.DATA -> endData(h, at, p, pAt, length, placement);
            case Frame.NOP -> {}
            case Frame.APPLIED -> {
                if (!connection.reports.applied(
                        (int) Frame.field(h, at, Frame.A), Frame.field(h, at, Frame.B))) {
                    connection.violated("APPLIED of frames that were not sent");
                }
            }
            case Frame.FENCE -> connection.reports.fenceAsked((int) Frame.field(h, at, Frame.A));
            case Frame.FENCED ->
                    connection.reports.fenced(
                            (int) Frame.field(h, at, Frame.A),
                            Frame.field(h, at, Frame.B),
                            Frame.field(h, at, Frame.C));
            case Frame.PING -> connection.reports.answer(Frame.PONG, lane);
            case Frame.PONG -> {}
            default -> announcements.apply(h, at, p, pAt, length, type);
        }
    }

    private void endWrite(
            MemorySegment h, long at, MemorySegment p, long pAt, int length, Placement placement) {
        int flags = Frame.flags(h, at);
        RegionImpl found = placing.region;
        int reason = placing.reason;
        if (reason == 0 && placement.discarded()) {
            reason = Connection.STALE;
        }
        boolean inline = (flags & Frame.INLINE) != 0;
        boolean buffered = length > 0 && placement.mode() == Placement.Mode.BUFFER;
        if (reason == 0 && found != null && (inline || buffered)) {
            // The region's close takes this lane's poll token after marking it: it is either closed
            // already, or waits.
            if (!found.isOpen()) {
                reason = Connection.STALE;
            } else {
                reason =
                        Scatter.copy(
                                inline ? h : p,
                                inline ? at + Frame.D : pAt,
                                found.memory(),
                                Frame.field(h, at, Frame.C),
                                inline ? Frame.count(h, at) : length);
            }
        }
        if (reason != 0) {
            refusals.refuse(h, at, reason, (flags & Frame.COUNTED) != 0, 0, 0);
        }
    }

    private void endWritePieces(MemorySegment h, long at, MemorySegment p, long pAt, int length) {
        RegionImpl found = placing.writable(h, at);
        int reason = placing.reason;
        int flags = Frame.flags(h, at);
        if (found != null) {
            int count = Frame.count(h, at);
            reason =
                    (flags & Frame.STRIDED) != 0
                            ? Scatter.strided(found, p, pAt, length)
                            : Scatter.pieces(found, p, pAt, length, count);
        }
        if (reason != 0) {
            refusals.refuse(h, at, reason, (flags & Frame.COUNTED) != 0, 0, 0);
        }
    }

    private void endRead(
            MemorySegment h, long at, MemorySegment p, long pAt, int length, int type) {
        RegionImpl found = placing.named(h, at);
        int reason = placing.reason;
        if (found != null && !found.access().canRead()) {
            reason = Connection.DENIED;
        } else if (found != null) {
            reason =
                    type == Frame.READ
                            ? connection.serving.serve(
                                    found,
                                    Frame.field(h, at, Frame.C),
                                    Frame.field(h, at, Frame.D),
                                    Frame.field(h, at, Frame.TRANSFER),
                                    Frame.field(h, at, Frame.E))
                            : connection.serving.servePieces(
                                    found,
                                    p,
                                    pAt,
                                    length,
                                    Frame.count(h, at),
                                    Frame.field(h, at, Frame.TRANSFER),
                                    Frame.field(h, at, Frame.E));
        }
        if (reason != 0) {
            refusals.refuse(h, at, reason, false, 0, 1);
        }
    }

    private void endData(
            MemorySegment h, long at, MemorySegment p, long pAt, int length, Placement placement) {
        Operation op = placing.target;
        int reason = placing.reason;
        placing.arrived();
        SpinLock lock = connection.lock;
        lock.lock();
        try {
            boolean ends = (Frame.flags(h, at) & Frame.COUNTED) != 0;
            if (ends) {
                connection.outbound.credits.readAnswered();
            }
            if (reason == 0
                    && (op == null
                            || !op.isPending()
                            || op.token() != Frame.field(h, at, Frame.TRANSFER)
                            || placement.discarded())) {
                reason = Connection.CANCELLED;
            }
            if (reason == 0 && op != null) {
                if (length > 0 && placement.mode() == Placement.Mode.BUFFER) {
                    try {
                        op.scatter(Frame.field(h, at, Frame.A), p, pAt, length);
                    } catch (IllegalStateException e) {
                        connection.endings.revokeLater(
                                op, Connection.STALE, "the local memory is not accessible");
                        reason = Connection.CANCELLED;
                    }
                }
                if (reason == 0) {
                    op.received += length;
                    if (op.kind == Operation.Kind.RECEIVE) {
                        op.expected = Frame.field(h, at, Frame.B);
                    } else {
                        op.expected = op.length;
                    }
                    if (op.received == op.expected && op.claimed > op.received) {
                        connection.violated("more data than it said");
                    } else if (op.received == op.expected) {
                        connection.endings.finish(op, Connection.DONE);
                    }
                }
            }
            if (reason != 0) {
                refusals.refuseLocked(h, at, reason, 0, 0);
            }
        } finally {
            lock.unlock();
        }
    }
}

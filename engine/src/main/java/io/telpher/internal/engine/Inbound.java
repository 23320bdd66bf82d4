package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.TelpherException;
import io.telpher.internal.memory.Raw;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
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
    final InboundStaging staging;
    private final Scatter scatter = new Scatter();
    private long lastConfirm;

    /// Sequenced frames that have come in, applied or not.
    private long arrived;

    Inbound(ConnectionCore connection, LaneState lane, Arena arena) {
        this.connection = connection;
        this.lane = lane;
        this.staging = new InboundStaging(connection, lane, arena);
        this.placing = new Placing(connection, staging);
        this.refusals = new Refusals(connection, lane);
        this.tails = new Tails(connection, lane, placing, refusals);
        this.announcements = new Announcements(connection, lane, refusals);
    }

    @Override
    public boolean begin(MemorySegment h, long at, Placement placement) {
        int type = Frame.type(h, at);
        int length = Frame.length(h, at);
        if (length < 0 || (length > lane.lane.maxPayload() && placement.lent() == null)) {
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
        staging.close();
        tails.giveCredit();
    }

    @Override
    public void end(MemorySegment h, long at, MemorySegment p, long pAt, Placement placement) {
        int type = Frame.type(h, at);
        int length = Frame.length(h, at);
        lane.framesReceived++;
        lane.bytesReceived += length + Frame.inlined(h, at);
        boolean sequenced = type < Frame.FIRST_UNSEQUENCED;
        if (sequenced) {
            lane.sequence = ++arrived;
        }
        apply(h, at, p, pAt, placement, type, length);
        if (sequenced) {
            // Only now: another thread may confirm it at once, which says that its bytes are there
            // and that a refusal is held.
            lane.received(staging.applied(arrived));
            lane.unreportedBytes += length;
            if ((Frame.flags(h, at) & Frame.URGENT) != 0) {
                lane.urgent = true;
            }
        }
    }

    /// Applies the frames whose copies have ended, as far as none before them is missing.
    void settle() {
        InboundStaging.Landing landing;
        while ((landing = staging.poll()) != null) {
            lane.sequence = landing.sequence();
            Operation op = landing.op();
            if (op != null) {
                dataLanded(landing, op);
            } else if (landing.failure != null) {
                refusals.refuse(Raw.ALL, landing.header, Connection.FAILED, false, 0, 0);
            }
            staging.recycle(landing);
            lane.received(staging.applied(arrived));
        }
    }

    private void dataLanded(InboundStaging.Landing landing, Operation op) {
        connection.lock.lock();
        try {
            boolean wanted = isWanted(Raw.ALL, landing.header, op);
            dataCame(
                    Raw.ALL,
                    landing.header,
                    landing.length(),
                    op,
                    wanted ? 0 : Connection.CANCELLED);
        } finally {
            connection.lock.unlock();
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
            case Frame.WRITE_PIECES -> endWritePieces(h, at, p, pAt, length, placement);
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
        if (staging.isPlaced()) {
            if (reason != 0 || found == null) {
                staging.abandon();
            } else {
                reason = staging.land(h, at, p, pAt, length, found, Frame.field(h, at, Frame.C));
            }
        }
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

    private void endWritePieces(
            MemorySegment h, long at, MemorySegment p, long pAt, int length, Placement placement) {
        RegionImpl found = placing.writable(h, at);
        int flags = Frame.flags(h, at);
        boolean placed = staging.isPlaced();
        int reason = placing.reason;
        if (placement.discarded()) {
            reason = Connection.STALE; // and what is there of the table makes no sense
        } else if (found != null) {
            scatter.start(
                    placed ? staging.payload() : p,
                    placed ? 0 : pAt,
                    length,
                    Frame.count(h, at),
                    (flags & Frame.STRIDED) != 0,
                    found.size());
            reason =
                    placed
                            ? staging.land(h, at, length, found, scatter)
                            : scatter.copyTo(found.memory());
        }
        if (reason != 0) {
            staging.abandon();
            refusals.refuse(h, at, reason, (flags & Frame.COUNTED) != 0, 0, 0);
        }
    }

    private void endRead(
            MemorySegment h, long at, MemorySegment p, long pAt, int length, int type) {
        RegionImpl found = placing.named(h, at);
        boolean high = (Frame.flags(h, at) & Frame.HIGH) != 0;
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
                                    Frame.field(h, at, Frame.E),
                                    high)
                            : connection.serving.servePieces(
                                    found,
                                    p,
                                    pAt,
                                    length,
                                    Frame.count(h, at),
                                    Frame.field(h, at, Frame.TRANSFER),
                                    Frame.field(h, at, Frame.E),
                                    high);
        }
        if (reason != 0) {
            refusals.refuse(h, at, reason, false, 0, 1);
        }
    }

    private void endData(
            MemorySegment h, long at, MemorySegment p, long pAt, int length, Placement placement) {
        Operation op = placing.target;
        boolean placed = staging.isPlaced();
        boolean buffered = length > 0 && placement.mode() == Placement.Mode.BUFFER;
        boolean lands = false;
        placing.arrived();
        connection.lock.lock();
        try {
            int reason = placing.reason;
            if (reason == 0 && (placement.discarded() || !isWanted(h, at, op))) {
                reason = Connection.CANCELLED;
            }
            lands = placed && reason == 0 && op != null;
            if (lands && op != null) {
                staging.land(h, at, p, pAt, length, op);
            } else {
                if (buffered && reason == 0 && op != null) {
                    reason = scatter(op, Frame.field(h, at, Frame.A), p, pAt, length);
                }
                dataCame(h, at, length, op, reason);
            }
        } finally {
            connection.lock.unlock();
        }
        if (lands) {
            staging.start(Frame.field(h, at, Frame.A));
        } else if (placed) {
            staging.abandon();
        }
    }

    private static boolean isWanted(MemorySegment h, long at, @Nullable Operation op) {
        return op != null && op.isPending() && op.token() == Frame.field(h, at, Frame.TRANSFER);
    }

    private int scatter(Operation op, long position, MemorySegment p, long pAt, int length) {
        try {
            op.scatter(position, p, pAt, length);
            return 0;
        } catch (IllegalStateException | TelpherException e) {
            connection.endings.revokeLater(op, Failures.ofMemory(e), Failures.memoryDetail(e));
            return Connection.CANCELLED;
        }
    }

    /// Data is in its place, or will not be taken. Under the lock.
    private void dataCame(
            MemorySegment h, long at, int length, @Nullable Operation op, int reason) {
        if ((Frame.flags(h, at) & Frame.COUNTED) != 0) {
            connection.outbound.credits.readAnswered();
        }
        if (reason != 0 || op == null) {
            refusals.refuseLocked(h, at, reason, 0, 0);
            return;
        }
        op.received += length;
        op.expected = op.kind == Operation.Kind.RECEIVE ? Frame.field(h, at, Frame.B) : op.length;
        if (op.received == op.expected && op.claimed > op.received) {
            connection.violated("more data than it said");
        } else if (op.received == op.expected && !connection.endings.finish(op, Connection.DONE)) {
            refusals.refuseLocked(h, at, Connection.CANCELLED, 0, 0);
        }
    }
}

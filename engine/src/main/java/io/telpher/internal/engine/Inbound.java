package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// Applies the frames of one lane. Used under the lane's poll token; takes the connection's lock
/// for what the lanes share.
///
/// Nothing in a frame is believed: every type, length, range, region and token is checked before it
/// is used. A frame that makes no sense ends the lane; one that may not be applied is refused, and
/// the lane lives on.
final class Inbound implements Receiver {
    private static final VarHandle WORD =
            ValueLayout.JAVA_LONG.withOrder(java.nio.ByteOrder.nativeOrder()).varHandle();

    private final ConnectionCore connection;
    private final LaneState lane;
    private long lastConfirm;

    // The frame that is being received.
    private int reason;
    private @Nullable Operation target;
    private @Nullable RegionImpl region;

    /// Transfers whose data was refused on this lane and whose tail follows: it must not fire.
    private final Set<Long> refused = new LinkedHashSet<>();

    Inbound(ConnectionCore connection, LaneState lane) {
        this.connection = connection;
        this.lane = lane;
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
            if (!connection.reports.applied(lane, confirm)) {
                return false;
            }
        }
        reason = 0;
        target = null;
        region = null;
        switch (type) {
            case Frame.WRITE -> {
                int bytes = (Frame.flags(h, at) & Frame.INLINE) != 0 ? Frame.count(h, at) : length;
                if ((Frame.flags(h, at) & Frame.INLINE) != 0
                        && (bytes > Frame.INLINE_MAX || length != 0)) {
                    return false;
                }
                RegionImpl found = writable(h, at);
                if (found != null) {
                    long offset = Frame.field(h, at, Frame.C);
                    if (!fits(offset, bytes, found.size())) {
                        reason = Connection.DENIED;
                    } else if (length > 0) {
                        placement.into(found.segment(), offset, found);
                    }
                }
                region = found;
            }
            case Frame.DATA -> placeData(h, at, length, placement);
            case Frame.WRITE_PIECES, Frame.READ_PIECES, Frame.NOTE_PART -> placement.buffer();
            case Frame.TAIL -> {
                placement.buffer();
                return length <= Outbound.SHORT_NOTE;
            }
            case Frame.SEND -> {
                placement.buffer();
                return length <= Outbound.EAGER;
            }
            case Frame.ADVERT, Frame.LOOKUP, Frame.FOUND -> {
                placement.buffer();
                return length <= ControlFrame.MAX_PAYLOAD;
            }
            case Frame.NOP,
                    Frame.READ,
                    Frame.SEND_REQUEST,
                    Frame.SEND_STORED,
                    Frame.TRUNCATED,
                    Frame.ABORT,
                    Frame.WITHDRAW,
                    Frame.WITHDRAWN,
                    Frame.CREDIT,
                    Frame.REFUSED,
                    Frame.KNOWN,
                    Frame.GOODBYE,
                    Frame.APPLIED,
                    Frame.FENCE,
                    Frame.FENCED,
                    Frame.PING,
                    Frame.PONG -> {
                return length == 0;
            }
            default -> {
                return false;
            }
        }
        return true;
    }

    private static boolean fits(long offset, long length, long size) {
        return offset >= 0 && length >= 0 && offset <= size && length <= size - offset;
    }

    /// The region that a frame names, if it may be written.
    private @Nullable RegionImpl writable(MemorySegment h, long at) {
        RegionImpl found = named(h, at);
        if (found != null && !found.access().canWrite()) {
            reason = Connection.DENIED;
            return null;
        }
        return found;
    }

    private @Nullable RegionImpl named(MemorySegment h, long at) {
        long name = Frame.field(h, at, Frame.A);
        RegionImpl found = connection.endpoint().regions().find((int) name, (int) (name >>> 32));
        if (found == null) {
            reason = Connection.STALE;
            return null;
        }
        if (found.key() != Frame.field(h, at, Frame.B)) {
            reason = Connection.DENIED;
            return null;
        }
        return found;
    }

    private void placeData(MemorySegment h, long at, int length, Placement placement) {
        long position = Frame.field(h, at, Frame.A);
        SpinLock lock = connection.lock;
        lock.lock();
        try {
            Operation op = connection.table.find(Frame.field(h, at, Frame.TRANSFER));
            if (op == null
                    || !op.isPending()
                    || (op.kind != Operation.Kind.READ && op.kind != Operation.Kind.RECEIVE)) {
                reason = Connection.CANCELLED;
            } else if (!fits(position, length, op.length)) {
                reason = Connection.DENIED;
            } else {
                target = op;
                if (length == 0) {
                    return;
                }
                if (op.contiguous(position) >= length) {
                    placement.into(op.regionAt(position).segment(), op.offsetAt(position), op);
                } else {
                    placement.buffer();
                }
            }
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void end(MemorySegment h, long at, MemorySegment p, long pAt, Placement placement) {
        int type = Frame.type(h, at);
        int length = Frame.length(h, at);
        lane.framesReceived++;
        lane.bytesReceived += length;
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
            case Frame.WRITE -> endWrite(h, at, placement);
            case Frame.WRITE_PIECES -> endWritePieces(h, at, p, pAt, length);
            case Frame.TAIL -> endTail(h, at, p, pAt, length);
            case Frame.NOTE_PART -> endNotePart(h, at, p, pAt, length);
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
                            (int) Frame.field(h, at, Frame.A), Frame.field(h, at, Frame.B));
            case Frame.PING -> connection.reports.answer(Frame.PONG, lane);
            case Frame.PONG -> {}
            default -> endLocked(h, at, p, pAt, length, type);
        }
    }

    private void endWrite(MemorySegment h, long at, Placement placement) {
        int flags = Frame.flags(h, at);
        RegionImpl found = region;
        if (reason == 0 && placement.discarded()) {
            reason = Connection.STALE;
        }
        if (reason == 0 && found != null && (flags & Frame.INLINE) != 0) {
            // The region's close takes this lane's poll token after marking it: it is either closed
            // already, or waits.
            if (!found.isOpen()) {
                reason = Connection.STALE;
            } else {
                reason =
                        copy(
                                h,
                                at + Frame.D,
                                found.segment(),
                                Frame.field(h, at, Frame.C),
                                Frame.count(h, at));
            }
        }
        if (reason != 0) {
            refuse(h, at, (flags & Frame.COUNTED) != 0, 0, 0);
        }
    }

    private static int copy(
            MemorySegment from, long at, MemorySegment to, long offset, long length) {
        try {
            MemorySegment.copy(from, at, to, offset, length);
            return 0;
        } catch (IllegalStateException e) {
            return Connection.STALE; // the owner closed the arena under its region
        }
    }

    private void endWritePieces(MemorySegment h, long at, MemorySegment p, long pAt, int length) {
        RegionImpl found = writable(h, at);
        int flags = Frame.flags(h, at);
        if (found != null) {
            int count = Frame.count(h, at);
            reason =
                    (flags & Frame.STRIDED) != 0
                            ? scatterStrided(found, p, pAt, length)
                            : scatter(found, p, pAt, length, count);
        }
        if (reason != 0) {
            refuse(h, at, (flags & Frame.COUNTED) != 0, 0, 0);
        }
    }

    private static int scatterStrided(RegionImpl found, MemorySegment p, long pAt, int length) {
        if (length < Frame.STRIDED_TABLE) {
            return Connection.DENIED;
        }
        long offset = p.get(Frame.LONG, pAt);
        long stride = p.get(Frame.LONG, pAt + 8);
        long piece = p.get(Frame.INT, pAt + 16);
        int count = p.get(Frame.INT, pAt + 20);
        // Without empty pieces there are no more pieces than bytes; and the extent cannot overflow.
        if (piece <= 0
                || count < 0
                || stride < piece
                || piece * count != length - Frame.STRIDED_TABLE
                || (count > 1 && stride > found.size() / (count - 1))
                || (count > 0 && !fits(offset, stride * (count - 1L) + piece, found.size()))) {
            return Connection.DENIED;
        }
        long from = pAt + Frame.STRIDED_TABLE;
        MemorySegment to = found.segment();
        for (int i = 0; i < count; i++) {
            int result = copy(p, from, to, offset, piece);
            if (result != 0) {
                return result;
            }
            from += piece;
            offset += stride;
        }
        return 0;
    }

    private static int scatter(RegionImpl found, MemorySegment p, long pAt, int length, int count) {
        long table = (long) count * Frame.PIECE;
        if (table > length) {
            return Connection.DENIED;
        }
        long left = length - table;
        long from = pAt + table;
        MemorySegment to = found.segment();
        for (int i = 0; i < count; i++) {
            long offset = p.get(Frame.LONG, pAt + (long) i * Frame.PIECE);
            long n = p.get(Frame.LONG, pAt + (long) i * Frame.PIECE + 8);
            if (n < 0 || n > left || !fits(offset, n, found.size())) {
                return Connection.DENIED;
            }
            int result = copy(p, from, to, offset, n);
            if (result != 0) {
                return result;
            }
            from += n;
            left -= n;
        }
        return left == 0 ? 0 : Connection.DENIED;
    }

    private void endTail(MemorySegment h, long at, MemorySegment p, long pAt, int length) {
        long transfer = Frame.field(h, at, Frame.TRANSFER);
        int flags = Frame.flags(h, at);
        byte[] parts = connection.mailbox.takeParts(transfer);
        if (!refused.isEmpty() && refused.remove(transfer)) {
            creditDropped(h, at, length);
            return;
        }
        if ((flags & (Frame.COUNTER_ADD | Frame.COUNTER_SET)) != 0) {
            RegionImpl found = writable(h, at);
            long offset = Frame.field(h, at, Frame.C);
            if (found != null && (!fits(offset, Long.BYTES, found.size()) || (offset & 7) != 0)) {
                reason = Connection.DENIED;
            } else if (found != null) {
                reason = count(found, offset, flags, Frame.field(h, at, Frame.D));
            }
            if (reason != 0) {
                refuse(h, at, false, 0, 0);
                creditDropped(h, at, length);
                return;
            }
        }
        if ((flags & Frame.NOTIFIES) == 0) {
            return;
        }
        long size = Frame.field(h, at, Frame.E);
        if (size >= 0) {
            if (parts == null || parts.length != size) {
                connection.violated("the end of a notification whose parts are missing");
                return;
            }
            connection.mailbox.notified(parts);
        } else if ((flags & Frame.INLINE) != 0) {
            int n = Frame.count(h, at);
            if (n > Frame.INLINE_NOTE_MAX) {
                connection.violated("an inline notification of " + n + " bytes");
                return;
            }
            connection.mailbox.notified(h, at + Frame.A, n);
        } else {
            connection.mailbox.notified(p, pAt, length);
        }
    }

    /// A notification that nobody will take gives its credit back at once.
    private void creditDropped(MemorySegment h, long at, int length) {
        int flags = Frame.flags(h, at);
        if ((flags & Frame.NOTIFIES) == 0) {
            return;
        }
        int n = (flags & Frame.INLINE) != 0 ? Frame.count(h, at) : length;
        boolean large = Frame.field(h, at, Frame.E) >= 0;
        connection.lock.lock();
        try {
            connection.outbound.enqueue(
                    connection
                            .outbound
                            .control(Frame.CREDIT, 0, 0, 0)
                            .with(Frame.B, large ? 0 : n + Credits.NOTE_OVERHEAD)
                            .with(Frame.C, large ? 1 : 0));
        } finally {
            connection.lock.unlock();
        }
    }

    private static int count(RegionImpl found, long offset, int flags, long value) {
        try {
            MemorySegment segment = found.segment();
            if ((segment.address() + offset & 7) != 0) {
                return Connection.DENIED;
            }
            if ((flags & Frame.COUNTER_ADD) != 0) {
                long unused = (long) WORD.getAndAdd(segment, offset, value);
            } else {
                WORD.setRelease(segment, offset, value);
            }
            return 0;
        } catch (IllegalStateException e) {
            return Connection.STALE;
        }
    }

    private void endNotePart(MemorySegment h, long at, MemorySegment p, long pAt, int length) {
        long transfer = Frame.field(h, at, Frame.TRANSFER);
        long offset = Frame.field(h, at, Frame.A);
        long size = Frame.field(h, at, Frame.B);
        if (size > connection.endpoint().options().maxNotification()
                || !fits(offset, length, size)) {
            reason = Connection.DENIED;
            refuse(h, at, false, 0, 0);
            return;
        }
        byte[] note = connection.mailbox.parts(transfer, (int) size);
        if (note == null) {
            return;
        }
        MemorySegment.copy(p, ValueLayout.JAVA_BYTE, pAt, note, (int) offset, length);
    }

    private void endRead(
            MemorySegment h, long at, MemorySegment p, long pAt, int length, int type) {
        RegionImpl found = named(h, at);
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
            refuse(h, at, false, 0, 1);
        }
    }

    private void endData(
            MemorySegment h, long at, MemorySegment p, long pAt, int length, Placement placement) {
        Operation op = target;
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
                    if (op.received == op.expected) {
                        connection.endings.finish(op, Connection.DONE);
                    }
                }
            }
            if (reason != 0) {
                refuseLocked(h, at, 0, 0);
            }
        } finally {
            lock.unlock();
        }
    }

    private void endLocked(
            MemorySegment h, long at, MemorySegment p, long pAt, int length, int type) {
        long transfer = Frame.field(h, at, Frame.TRANSFER);
        long a = Frame.field(h, at, Frame.A);
        long b = Frame.field(h, at, Frame.B);
        long c = Frame.field(h, at, Frame.C);
        long d = Frame.field(h, at, Frame.D);
        SpinLock lock = connection.lock;
        lock.lock();
        try {
            Matcher matcher = connection.matcher;
            switch (type) {
                case Frame.SEND -> {
                    boolean inline = (Frame.flags(h, at) & Frame.INLINE) != 0;
                    int n = inline ? Math.min(Frame.count(h, at), Frame.INLINE_MAX) : length;
                    reason =
                            matcher.message(
                                    a, b, transfer, inline ? h : p, inline ? at + Frame.D : pAt, n);
                    if (reason != 0) {
                        refuseLocked(h, at, n, matcher.lastCapacity);
                    }
                }
                case Frame.SEND_REQUEST -> matcher.request(a, b, transfer, c);
                case Frame.ADVERT -> {
                    RemoteMemory memory = length == 0 ? null : descriptor(p, pAt, length);
                    matcher.advert(a, b, c, transfer, memory);
                }
                case Frame.SEND_STORED -> connection.reports.receivedByStore(transfer, c);
                case Frame.TRUNCATED ->
                        connection.reports.truncated(
                                transfer, new TelpherException.Truncated(c, d));
                case Frame.ABORT -> {
                    if (transfer == 0) {
                        matcher.aborted(a, b, reasonOf(h, at));
                    } else {
                        connection.reports.aborted(
                                transfer, reasonOf(h, at), Frame.field(h, at, Frame.E) != 0);
                    }
                }
                case Frame.WITHDRAW -> matcher.withdraw(a, b, transfer);
                case Frame.WITHDRAWN -> connection.reports.withdrawn(transfer);
                case Frame.CREDIT -> {
                    connection.outbound.credits.granted(a, b, c != 0);
                    matcher.resume();
                }
                case Frame.REFUSED -> {
                    connection.outbound.enqueue(
                            connection
                                    .outbound
                                    .control(Frame.KNOWN, 0, 0, 0)
                                    .with(Frame.A, a)
                                    .with(Frame.B, b));
                    connection.reports.refused(
                            (int) a, b, reasonOf(h, at), Frame.field(h, at, Frame.E) != 0, c, d);
                }
                case Frame.KNOWN -> {
                    LaneState refused = connection.lane((int) a);
                    if (refused != null) {
                        refused.held.remove(b);
                        refused.heldCount = refused.held.size();
                        connection.keeper.known(refused);
                        connection.outbound.acknowledge(refused);
                    }
                }
                case Frame.LOOKUP ->
                        connection.names.asked(
                                transfer,
                                new String(
                                        p.asSlice(pAt, length).toArray(ValueLayout.JAVA_BYTE),
                                        StandardCharsets.UTF_8));
                case Frame.FOUND -> {
                    RemoteMemory memory = descriptor(p, pAt, length);
                    if (memory != null) {
                        connection.names.found(transfer, memory);
                    }
                }
                case Frame.GOODBYE -> {
                    // What the peer has confirmed before it left is done.
                    if (lane.lane.confirmsNatively()) {
                        boolean good = connection.outbound.applied(lane, lane.lane.confirmed());
                        assert good || lane.sent >= 0;
                    }
                    connection.peerCloses();
                }
                default -> connection.violated("frame type " + type);
            }
        } finally {
            lock.unlock();
        }
    }

    /// The reason in a frame, if it is one.
    private static int reasonOf(MemorySegment h, long at) {
        int said = -Frame.count(h, at);
        return said <= Connection.BACK_PRESSURED && said >= Connection.FAILED
                ? said
                : Connection.FAILED;
    }

    private @Nullable RemoteMemory descriptor(MemorySegment p, long pAt, int length) {
        try {
            return RemoteMemory.ofBytes(p.asSlice(pAt, length).toArray(ValueLayout.JAVA_BYTE));
        } catch (IllegalArgumentException e) {
            connection.violated("a descriptor that is none: " + e.getMessage());
            return null;
        }
    }

    private void refuse(MemorySegment h, long at, boolean tailFollows, long c, long e) {
        if (tailFollows) {
            if (refused.size() > LaneState.WINDOW) {
                // The tail of the oldest is not on its way any more: it would be too far behind.
                refused.remove(refused.iterator().next());
            }
            refused.add(Frame.field(h, at, Frame.TRANSFER));
        }
        connection.lock.lock();
        try {
            ControlFrame frame = refusal(h, at).with(Frame.C, c).with(Frame.E, e);
            connection.outbound.enqueue(frame);
        } finally {
            connection.lock.unlock();
        }
    }

    private void refuseLocked(MemorySegment h, long at, long c, long d) {
        connection.outbound.enqueue(refusal(h, at).with(Frame.C, c).with(Frame.D, d));
    }

    /// The confirmation of this lane stays behind the refused frame until the peer has said
    /// `KNOWN`: a confirmation can never overtake a refusal, whichever lanes they take.
    private ControlFrame refusal(MemorySegment h, long at) {
        long sequence = lane.received() + 1;
        if (lane.held.size() > 4 * LaneState.WINDOW) {
            connection.violated("refusals that it does not take notice of");
        }
        ControlFrame frame =
                connection
                        .outbound
                        .control(
                                Frame.REFUSED,
                                Frame.URGENT,
                                -reason,
                                Frame.field(h, at, Frame.TRANSFER))
                        .with(Frame.A, lane.index)
                        .with(Frame.B, sequence);
        lane.held.addLast(sequence);
        lane.heldCount = lane.held.size();
        return frame;
    }
}

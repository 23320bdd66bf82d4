package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;

/// What follows the bytes of a write: counter updates and notifications, large ones in parts. Used
/// under the poll token of the lane that it belongs to, without the connection's lock.
final class Tails {
    private static final VarHandle WORD =
            ValueLayout.JAVA_LONG.withOrder(java.nio.ByteOrder.nativeOrder()).varHandle();

    private final ConnectionCore connection;
    private final Mailbox mailbox;
    private final Placing placing;
    private final Refusals refusals;

    Tails(ConnectionCore connection, Placing placing, Refusals refusals) {
        this.connection = connection;
        this.mailbox = connection.mailbox;
        this.placing = placing;
        this.refusals = refusals;
    }

    /// Applies a tail: raises the counter, notifies.
    void tail(MemorySegment h, long at, MemorySegment p, long pAt, int length) {
        long transfer = Frame.field(h, at, Frame.TRANSFER);
        int flags = Frame.flags(h, at);
        byte[] parts = mailbox.takeParts(transfer);
        if (refusals.drops(transfer)) {
            creditDropped(h, at, length);
            return;
        }
        if ((flags & (Frame.COUNTER_ADD | Frame.COUNTER_SET)) != 0) {
            RegionImpl found = placing.writable(h, at);
            int reason = placing.reason;
            long offset = Frame.field(h, at, Frame.C);
            if (found != null
                    && (!Placing.fits(offset, Long.BYTES, found.size()) || (offset & 7) != 0)) {
                reason = Connection.DENIED;
            } else if (found != null) {
                reason = count(found, offset, flags, Frame.field(h, at, Frame.D));
            }
            if (reason != 0) {
                refusals.refuse(h, at, reason, false, 0, 0);
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
            mailbox.notified(parts);
        } else if ((flags & Frame.INLINE) != 0) {
            int n = Frame.count(h, at);
            if (n > Frame.INLINE_NOTE_MAX) {
                connection.violated("an inline notification of " + n + " bytes");
                return;
            }
            mailbox.notified(h, at + Frame.A, n);
        } else {
            mailbox.notified(p, pAt, length);
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

    /// Applies a part of a large notification.
    void part(MemorySegment h, long at, MemorySegment p, long pAt, int length) {
        long transfer = Frame.field(h, at, Frame.TRANSFER);
        long offset = Frame.field(h, at, Frame.A);
        long size = Frame.field(h, at, Frame.B);
        if (size > connection.endpoint().options().maxNotification()
                || !Placing.fits(offset, length, size)) {
            refusals.refuse(h, at, Connection.DENIED, false, 0, 0);
            return;
        }
        byte[] note = mailbox.parts(transfer, (int) size);
        if (note == null) {
            return;
        }
        MemorySegment.copy(p, ValueLayout.JAVA_BYTE, pAt, note, (int) offset, length);
    }
}

package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/// What follows the bytes of a write: counter updates and notifications, large ones in parts. Used
/// under the poll token of the lane that it belongs to, without the connection's lock.
final class Tails {

    /// Credits of notifications that went past the queue are given back together.
    private static final int MOST_OWED = Credits.NOTE_BYTES / 8;

    private final ConnectionCore connection;
    private final LaneState lane;
    private final Mailbox mailbox;
    private final Placing placing;
    private final Refusals refusals;

    /// Where the thread that polls wants the next notification.
    private @Nullable MemorySegment into;

    /// 1 and the length of the one that went there, or 0.
    private int taken;

    /// What they cost that went past the queue.
    int bytesOwed;

    Tails(ConnectionCore connection, LaneState lane, Placing placing, Refusals refusals) {
        this.connection = connection;
        this.lane = lane;
        this.mailbox = connection.mailbox;
        this.placing = placing;
        this.refusals = refusals;
    }

    void want(@Nullable MemorySegment place) {
        into = place;
    }

    int wanted() {
        int result = taken;
        taken = 0;
        into = null;
        return result;
    }

    /// The lane ends, or enough has piled up.
    void giveCredit() {
        mailbox.owe(bytesOwed);
        bytesOwed = 0;
    }

    private void notified(MemorySegment from, long at, int length) {
        if (!takeAtOnce(from, at, length)) {
            mailbox.notified(from, at, length);
        }
    }

    /// Spares a notification the way through the queue: the thread that polls waits for it, and
    /// whoever else does will find nothing there.
    private boolean takeAtOnce(MemorySegment from, long at, int length) {
        MemorySegment place = into;
        if (place == null
                || length > place.byteSize()
                || !mailbox.isEmpty()
                || connection.lanes.control() != lane) {
            return false; // what other lanes owe would add up
        }
        into = null;
        try {
            MemorySegment.copy(from, at, place, 0, length);
        } catch (RuntimeException | InternalError e) {
            return false; // not accessible: the thread finds out when it takes it from the queue
        }
        taken = 1 + length;
        lane.notesTaken++;
        bytesOwed += length + Credits.NOTE_OVERHEAD;
        if (bytesOwed >= MOST_OWED) {
            giveCredit();
        }
        return true;
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
            notified(h, at + Frame.A, n);
        } else {
            notified(p, pAt, length);
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
            CounterUpdate.Kind kind =
                    (flags & Frame.COUNTER_ADD) != 0
                            ? CounterUpdate.Kind.ADD
                            : CounterUpdate.Kind.SET;
            return found.memory().update(offset, kind, value) ? 0 : Connection.DENIED;
        } catch (IllegalStateException | TelpherException e) {
            Log.warning("a counter could not be changed for a peer", e);
            return Failures.ofMemory(e);
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

package io.telpher.internal.engine;

import io.telpher.Notification;
import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// The notifications of one connection: takes in those that arrive, large ones part by part, hands
/// them out in order, and gives the peer's credits back as they are taken.
///
/// Everything is guarded by the connection's lock, which the methods take themselves. Lanes bring
/// notifications under their poll token; callers take them with neither lock nor tokens.
final class Mailbox {
    private final ConnectionCore connection;
    private final SpinLock lock;
    private final Outbound outbound;
    final NotificationQueue notes = new NotificationQueue();

    /// Large notifications that are arriving in parts, by the transfer that they belong to.
    final LongMap<byte[]> parts = new LongMap<>();

    /// A hint: there are some of them.
    private volatile boolean partsComing;

    /// Bytes that were taken and not given back as credits.
    int bytesOwed;

    Mailbox(ConnectionCore connection) {
        this.connection = connection;
        this.lock = connection.lock;
        this.outbound = connection.outbound;
    }

    /// A hint, without the lock.
    boolean isEmpty() {
        return notes.size() == 0;
    }

    void notified(MemorySegment from, long at, int length) {
        lock.lock();
        try {
            if (notes.bytes() > Credits.NOTE_BYTES) {
                connection.violated("more notifications than there are credits");
                return;
            }
            notes.add(from, at, length);
            connection.tally.notificationsReceived++;
        } finally {
            lock.unlock();
        }
        connection.waiters.wake();
    }

    void notified(byte[] large) {
        lock.lock();
        try {
            notes.addLarge(large);
            connection.tally.notificationsReceived++;
        } finally {
            lock.unlock();
        }
        connection.waiters.wake();
    }

    /// The large notification of which a part has come. Its parts may come over more than one lane,
    /// when one dies; one thread at a time fills it in, since the sender fences lanes before.
    ///
    /// @return its bytes, or null when the peer broke the protocol
    byte @Nullable [] parts(long transfer, int size) {
        lock.lock();
        try {
            byte[] note = parts.get(transfer);
            if (note == null) {
                if (parts.size() >= 4) {
                    connection.violated("more than 4 large notifications at a time");
                    return null;
                }
                note = new byte[size];
                parts.put(transfer, note);
                partsComing = true;
            }
            if (note.length != size) {
                connection.violated("a notification that changes its size");
                return null;
            }
            return note;
        } finally {
            lock.unlock();
        }
    }

    /// Takes the parts of a notification whose end has come.
    byte @Nullable [] takeParts(long transfer) {
        if (!partsComing) {
            return null;
        }
        lock.lock();
        try {
            byte[] note = parts.remove(transfer);
            partsComing = parts.size() > 0;
            return note;
        } finally {
            lock.unlock();
        }
    }

    @Nullable Notification take() {
        if (notes.size() == 0) {
            return null;
        }
        byte[] payload;
        boolean credits;
        lock.lock();
        try {
            if (notes.size() == 0) {
                return null;
            }
            payload = new byte[notes.peekLength()];
            credits = takeNote(MemorySegment.ofArray(payload), payload.length);
        } finally {
            lock.unlock();
        }
        if (credits) {
            connection.afterwards();
        }
        return new Notification(payload);
    }

    int take(MemorySegment into) {
        int length;
        boolean credits;
        lock.lock();
        try {
            if (notes.size() == 0) {
                return -1;
            }
            length = notes.peekLength();
            if (length > into.byteSize()) {
                throw new IndexOutOfBoundsException(
                        "the notification has %d bytes, the buffer %d"
                                .formatted(length, into.byteSize()));
            }
            credits = takeNote(into, length);
        } finally {
            lock.unlock();
        }
        if (credits) {
            connection.afterwards();
        }
        return length;
    }

    /// @return whether credits have to go out
    private boolean takeNote(MemorySegment into, int length) {
        if (notes.take(into)) {
            outbound.enqueue(outbound.control(Frame.CREDIT, 0, 0, 0).with(Frame.C, 1));
            return true;
        }
        return owes(length + Credits.NOTE_OVERHEAD);
    }

    /// Notifications were taken before they came here.
    ///
    /// @param bytes what they cost
    void owe(int bytes) {
        lock.lock();
        try {
            owes(bytes);
        } finally {
            lock.unlock();
        }
    }

    private boolean owes(int bytes) {
        bytesOwed += bytes;
        if (bytesOwed >= Credits.NOTE_BYTES / 4) {
            outbound.enqueue(outbound.control(Frame.CREDIT, 0, 0, 0).with(Frame.B, bytesOwed));
            bytesOwed = 0;
            return true;
        }
        return false;
    }
}

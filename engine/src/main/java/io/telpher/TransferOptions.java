package io.telpher;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/// What may be asked of a transfer. Immutable; start from [#DEFAULTS].
///
/// @param deadline time from posting until the transfer is revoked; null for the endpoint's default
/// @param priority who goes first
/// @param notification bytes that the target gets as a [Notification] after all bytes of a write;
///     read when the transfer is posted; null for none. Writes only
/// @param counter word in the target's memory that is changed after all bytes of a write; null for
///     none. Writes only
/// @param stream the transfer begins when this stream has done what was put into it before the
///     posting, and what is put into it afterwards waits until the transfer has ended, in whatever
///     state; null for a transfer that begins at once. The deadline counts from the posting.
///     Transfers of one stream never overlap: two of which one needs the other, such as a send and
///     a receive that the peer posts in the same order, belong on two streams
public record TransferOptions(
        @Nullable Duration deadline,
        Priority priority,
        @Nullable MemorySegment notification,
        @Nullable CounterUpdate counter,
        @Nullable DeviceStream stream) {
    /// The endpoint's deadline, normal priority, no notification, no counter, no stream.
    public static final TransferOptions DEFAULTS =
            new TransferOptions(null, Priority.NORMAL, null, null, null);

    /// @return the same with this deadline
    public TransferOptions withDeadline(Duration value) {
        return new TransferOptions(value, priority, notification, counter, stream);
    }

    /// @return the same with this priority
    public TransferOptions withPriority(Priority value) {
        return new TransferOptions(deadline, value, notification, counter, stream);
    }

    /// @return the same with this notification
    public TransferOptions withNotification(MemorySegment value) {
        return new TransferOptions(deadline, priority, value, counter, stream);
    }

    /// @return the same with this counter update
    public TransferOptions withCounter(CounterUpdate value) {
        return new TransferOptions(deadline, priority, notification, value, stream);
    }

    /// @return the same in the order of this stream
    public TransferOptions withStream(DeviceStream value) {
        return new TransferOptions(deadline, priority, notification, counter, value);
    }
}

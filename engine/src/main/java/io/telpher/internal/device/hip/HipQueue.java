package io.telpher.internal.device.hip;

import io.telpher.TelpherException;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.ffi.hip.HipError;
import io.telpher.internal.ffi.hip.HipStreams;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// The copies of one device in the background: a stream to and from the host, and one for the rest.
/// Each job is launched when it ends, by one call for each piece, with an event behind it.
///
/// A job that was launched in part ends when that part has. What a device that failed says of an
/// event ends the event's job, and so every job behind it.
final class HipQueue implements CopyQueue {
    private final HipDevice device;
    private final ReentrantLock lock = new ReentrantLock();
    private final AtomicBoolean polling = new AtomicBoolean();
    private final Line host = new Line();
    private final Line inside = new Line();

    /// Events that nobody waits for; under the lock.
    private final ArrayDeque<Long> events = new ArrayDeque<>();

    /// What kept the device from saying whether copies have ended, or null: nothing is begun then.
    private volatile @Nullable String lost;

    /// Jobs whose owners were not told yet.
    private final AtomicInteger underWay = new AtomicInteger();

    /// Of the job that is being added; under the lock. Three numbers for each piece.
    private long[] pieces = new long[3 * 64];

    private int used;
    private @Nullable Line line;
    private @Nullable String failure;

    /// A stream and its jobs, in its order; under the lock.
    private static final class Line {
        final long stream = HipStreams.create(HipStreams.hipStreamNonBlocking);
        final ArrayDeque<Flying> flying = new ArrayDeque<>();
    }

    /// A job that the device has.
    ///
    /// @param event behind its copies, or 0 where nothing is under way
    /// @param failure why the rest was not launched, or null
    private record Flying(Job owner, long event, @Nullable String failure) {}

    /// With the device current.
    HipQueue(HipDevice device) {
        this.device = device;
    }

    @Override
    public void begin(Way way, int count, long bytes, boolean together) {
        if (lock.isHeldByCurrentThread()) {
            throw new IllegalStateException("begin() again before end()");
        }
        lock.lock();
        line = way == Way.HOST ? host : inside;
        used = 0;
        failure = lost;
    }

    @Override
    public void copy(long to, long from, long bytes) {
        Line unused = adding();
        if (bytes < 0) {
            throw new IllegalArgumentException("a copy of " + bytes + " bytes");
        }
        if (bytes == 0) {
            return;
        }
        if (used == pieces.length) {
            pieces = Arrays.copyOf(pieces, 2 * used);
        }
        pieces[used++] = to;
        pieces[used++] = from;
        pieces[used++] = bytes;
    }

    @Override
    public void update(long address, boolean add, long value) {
        Line unused = adding();
        failure = "0x%x: %s".formatted(address, HipGpu.NO_UPDATES);
    }

    @Override
    public void end(Job done) {
        Line to = adding();
        try {
            underWay.incrementAndGet();
            to.flying.add(failure == null ? launch(to, done) : new Flying(done, 0, failure));
        } finally {
            line = null;
            lock.unlock();
        }
    }

    @Override
    public void abandon() {
        Line unused = adding();
        line = null;
        lock.unlock();
    }

    private Line adding() {
        Line current = lock.isHeldByCurrentThread() ? line : null;
        if (current == null) {
            throw new IllegalStateException("begin() comes first");
        }
        return current;
    }

    private Flying launch(Line to, Job done) {
        String reason = null;
        int started = 0;
        try {
            int before = device.enter();
            try {
                for (; started < used; started += 3) {
                    HipStreams.copy(
                            pieces[started], pieces[started + 1], pieces[started + 2], to.stream);
                }
            } catch (TelpherException.NativeFailure e) {
                reason = message(e);
            } finally {
                device.exit(before);
            }
        } catch (TelpherException.NativeFailure e) {
            reason = message(e);
        }
        return started == 0 ? new Flying(done, 0, reason) : mark(to, done, reason);
    }

    /// Puts an event behind what was launched; where that fails nothing but waiting tells when the
    /// copies have ended.
    private Flying mark(Line to, Job done, @Nullable String reason) {
        try {
            long event = event();
            HipStreams.record(event, to.stream);
            return new Flying(done, event, reason);
        } catch (TelpherException.NativeFailure e) {
            try {
                HipStreams.synchronize(to.stream);
            } catch (TelpherException.NativeFailure silent) {
                e.addSuppressed(silent);
                lost = message(silent);
            }
            return new Flying(done, 0, reason == null ? message(e) : reason);
        }
    }

    private long event() {
        Long free = events.poll();
        if (free != null) {
            return free;
        }
        int before = device.enter();
        try {
            return HipStreams.createEvent(HipStreams.hipEventDisableTiming);
        } finally {
            device.exit(before);
        }
    }

    private static String message(TelpherException.NativeFailure e) {
        String message = e.getMessage();
        return message == null ? e.toString() : message;
    }

    @Override
    public int poll() {
        if (isIdle() || lock.isHeldByCurrentThread() || !polling.compareAndSet(false, true)) {
            return 0;
        }
        try {
            return tell(host) + tell(inside);
        } finally {
            polling.set(false);
        }
    }

    private int tell(Line of) {
        int told = 0;
        Flying over;
        while ((over = takeOver(of)) != null) {
            try {
                over.owner.ended(over.failure);
            } finally {
                underWay.decrementAndGet();
            }
            told++;
        }
        return told;
    }

    /// Takes the first job of a line, if it has ended.
    private @Nullable Flying takeOver(Line from) {
        if (!lock.tryLock()) {
            return null;
        }
        try {
            Flying first = from.flying.peek();
            int result = first == null || first.event == 0 ? 0 : HipStreams.query(first.event);
            if (first == null || result == -HipError.hipErrorNotReady) {
                return null;
            }
            from.flying.remove();
            if (result != 0) {
                // The event stays with the device that failed.
                String why = "hipEventQuery: " + HipError.describe(result);
                lost = why;
                return new Flying(first.owner, 0, why);
            }
            if (first.event != 0) {
                events.push(first.event);
            }
            return first;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public @Nullable String lost() {
        return lost;
    }

    @Override
    public boolean isIdle() {
        return underWay.get() == 0;
    }
}

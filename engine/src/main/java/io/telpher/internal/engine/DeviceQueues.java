package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.observe.Log;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/// What is copied in the background for one connection, by GPUs' queues and by NICs, and the GPUs'
/// queues. Thread-safe.
///
/// A GPU has one queue for all connections, so whoever polls one may find a job of another
/// connection ended: that is only noted, and the job's own connection takes it up in its next
/// turn. While jobs of GPUs are under way somebody must take turns, for no event tells of their
/// end; a NIC's wake whoever waits for its lane, and need no count: most of them end where their
/// completion is found ([QueuedEndings#done]).
final class DeviceQueues {
    /// How long whoever closes a connection waits for what GPUs copy for it: far more than a part
    /// of a transfer takes.
    static final Duration LIMIT = Duration.ofSeconds(10);

    private final ConnectionCore connection;

    /// Jobs of GPUs that were begun and not yet taken up.
    private final AtomicInteger underWay = new AtomicInteger();

    /// Those that have ended, linked through `next`.
    private final AtomicReference<@Nullable Job> over = new AtomicReference<>();

    /// The queues, and whose they are; replaced, never changed.
    private volatile CopyQueue[] queues = {};

    private volatile Device[] devices = {};

    DeviceQueues(ConnectionCore connection) {
        this.connection = connection;
    }

    /// What is copied in the background. Belongs to the thread that begins it, then to the queue,
    /// then to the thread that takes it up; may be used again from there on.
    abstract static class Job implements CopyQueue.Job {
        private final DeviceQueues queues;

        /// The driver's or the device's error, or null; once it has ended.
        @Nullable String failure;

        /// The next of those that have ended.
        private @Nullable Job next;

        Job(DeviceQueues queues) {
            this.queues = queues;
        }

        @Override
        public final void ended(@Nullable String why) {
            failure = why;
            try {
                leave();
            } finally {
                queues.ended(this);
            }
        }

        /// Lets go of what others wait for, at once. On any thread, which may hold anything.
        abstract void leave();

        /// @return whether only polling brings it to an end
        boolean isPolled() {
            return true;
        }

        /// Goes on with what the job was for. Without lock and tokens, in a turn of the connection.
        abstract void takeUp();
    }

    /// @return the queue of a GPU, which was opened before
    CopyQueue of(Device by) {
        Device[] known = devices;
        for (int i = 0; i < known.length; i++) {
            if (known[i].equals(by)) {
                return queues[i]; // written before
            }
        }
        return add(by);
    }

    private synchronized CopyQueue add(Device by) {
        CopyQueue queue = Runtimes.open(by).queue();
        CopyQueue[] more = Arrays.copyOf(queues, queues.length + 1);
        more[queues.length] = queue;
        queues = more;
        Device[] named = Arrays.copyOf(devices, queues.length);
        named[queues.length - 1] = by;
        devices = named;
        return queue;
    }

    /// A job is about to be given to a GPU's queue: from here on turns are taken until it is taken
    /// up.
    void begun() {
        underWay.incrementAndGet();
    }

    /// A list has been posted: what was held back of it begins.
    void letGo() {
        for (CopyQueue queue : queues) {
            queue.letGo();
        }
    }

    /// Jobs were given to queues, or have ended without a poll: the progress thread takes turns
    /// when nobody else does.
    void attend() {
        connection.endpoint().progress().attend(connection);
    }

    private void ended(Job job) {
        Job before;
        do {
            before = over.get();
            job.next = before;
        } while (!over.compareAndSet(before, job));
    }

    /// @return whether something is copied for this connection, or was and is not taken up. Without
    ///     the lock
    boolean isBusy() {
        return isPolled() || connection.oneSided.queued.isBusy();
    }

    /// @return whether somebody must poll
    boolean isPolled() {
        return underWay.get() > 0 || hasEnded();
    }

    /// @return whether [#takeUp] finds something
    boolean hasEnded() {
        return over.get() != null;
    }

    /// Lets the queues move on.
    ///
    /// @return whether jobs of this connection wait to be taken up, as 1 or 0
    int poll() {
        if (underWay.get() > 0) {
            for (CopyQueue queue : queues) {
                int unused = queue.poll();
            }
        }
        return hasEnded() ? 1 : 0;
    }

    /// Goes on with what has ended. Without lock and tokens. A job that cannot be taken up ends the
    /// connection, and none of the others.
    void takeUp() {
        Job job = hasEnded() ? over.getAndSet(null) : null;
        while (job != null) {
            Job after = job.next; // the job may be begun again at once
            job.next = null;
            boolean wasPolled = job.isPolled();
            try {
                job.takeUp();
            } catch (Throwable e) {
                failed(e);
            } finally {
                if (wasPolled) {
                    underWay.decrementAndGet();
                }
            }
            job = after;
        }
    }

    /// What was copied cannot be taken up.
    void failed(Throwable e) {
        Failures.letThrough(e);
        connection.fail(Failures.internal(connection, e));
        Log.error("what was copied in the background cannot be taken up", e);
    }

    @Override
    public String toString() {
        return underWay.get() > 0
                ? underWay + " copies by GPUs are under way"
                : "copies by NICs are under way";
    }
}

package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Runtimes;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/// The GPUs' queues that copy for one connection, and the jobs that it has there. Thread-safe.
///
/// A GPU has one queue for all connections, so whoever polls one may find a job of another
/// connection ended: that is only noted, and the job's own connection takes it up in its next
/// turn. While jobs are under way somebody must take turns, for no event tells of their end.
final class DeviceQueues {
    /// How long whoever closes a connection waits for what GPUs copy for it: far more than a part
    /// of a transfer takes.
    static final Duration LIMIT = Duration.ofSeconds(10);

    private final ConnectionCore connection;

    /// Jobs that were begun and not yet taken up.
    private final AtomicInteger underWay = new AtomicInteger();

    /// Those that have ended, linked through `next`.
    private final AtomicReference<@Nullable Job> over = new AtomicReference<>();

    /// The queues, and whose they are; replaced, never changed.
    private volatile CopyQueue[] queues = {};

    private volatile Device[] devices = {};

    DeviceQueues(ConnectionCore connection) {
        this.connection = connection;
    }

    /// What a GPU copies for this connection. Belongs to the thread that begins it, then to the
    /// queue, then to the thread that takes it up; may be used again from there on.
    abstract static class Job implements CopyQueue.Job {
        private final DeviceQueues queues;

        /// The driver's error, or null; once it has ended.
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

    /// A job is about to be given to a queue: from here on turns are taken until it is taken up.
    void begun() {
        underWay.incrementAndGet();
    }

    /// It was not given to the queue after all.
    void withdrawn() {
        underWay.decrementAndGet();
    }

    /// Jobs were given to queues: the progress thread polls when nobody else does.
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

    /// @return whether GPUs are copying for this connection
    boolean isBusy() {
        return underWay.get() > 0;
    }

    /// @return whether [#takeUp] finds something
    boolean hasEnded() {
        return over.get() != null;
    }

    /// Lets the queues move on.
    ///
    /// @return whether jobs of this connection wait to be taken up, as 1 or 0
    int poll() {
        if (underWay.get() == 0) {
            return 0;
        }
        for (CopyQueue queue : queues) {
            int unused = queue.poll();
        }
        return over.get() == null ? 0 : 1;
    }

    /// Goes on with what has ended. Without lock and tokens.
    void takeUp() {
        Job job = over.getAndSet(null);
        while (job != null) {
            Job after = job.next; // the job may be begun again at once
            job.next = null;
            try {
                job.takeUp();
            } finally {
                underWay.decrementAndGet();
            }
            job = after;
        }
    }

    @Override
    public String toString() {
        return underWay + " copies by devices under way";
    }
}

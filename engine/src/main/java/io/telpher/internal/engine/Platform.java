package io.telpher.internal.engine;

import io.telpher.Access;
import io.telpher.internal.memory.Release;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.internal.observe.MetricsPage;
import io.telpher.spi.Clock;
import io.telpher.spi.Deadline;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Transport;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.function.BooleanSupplier;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/// What the engine takes from the machine: time, waiting, threads, readiness, chance, memory. One
/// per process; held in a final field by whoever needs it. There are two: [NativePlatform], and
/// the processes of a simulation. In production only the first is ever loaded, so that its methods
/// are called directly.
///
/// Thread-safe.
public abstract class Platform implements Clock {
    /// The process was ended by its simulation: unwinds its threads. Nobody may swallow it.
    public static final class Ended extends Release.Ended {
        private static final long serialVersionUID = 1L;

        /// @param process which one
        public Ended(String process) {
            super(process + " was ended");
        }
    }

    /// The process's progress thread while it has endpoints; guarded by `this`.
    @Nullable Progress progress;

    /// For subclasses.
    protected Platform() {}

    /// Waits until [#unpark], or so long, or for no reason, as `LockSupport` does.
    public abstract void park(Object blocker, long nanos);

    /// Ends a thread's present or next [#park].
    public abstract void unpark(Thread thread);

    /// Passes the time while something short is waited for that nobody announces.
    ///
    /// @param round how often the caller has waited already
    public abstract void pause(int round);

    /// A caller has polled and nothing was there.
    public void polledInVain() {}

    /// Makes a daemon thread, not started.
    public abstract Thread thread(String name, Runnable body);

    /// Starts a thread that [#thread] made.
    public abstract void start(Thread thread);

    /// @return an executor for what may block: never runs a task on the thread that brought it
    public abstract ExecutorService executor();

    /// @return where the progress thread waits
    public abstract Readiness readiness();

    /// @return for keys, ids and secrets
    public abstract RandomGenerator random();

    /// @return who this process is
    public abstract HostIdentity identity();

    /// @return the transports of this platform, in no order
    public abstract List<Transport> transports();

    /// Allocates memory that other processes of the host can map.
    ///
    /// @return null where there is no such thing: ordinary memory has to do
    public abstract @Nullable SharedMemory share(
            long bytes, Access access, SharedMemory.Pages pages);

    /// Makes the file in which other processes see the counters.
    ///
    /// @return null where nobody could look, or the system does not give a file
    public @Nullable MetricsPage metricsPage() {
        return null;
    }

    /// Waits for something short by [#pause].
    ///
    /// @return whether it is so; false at the deadline
    final boolean await(BooleanSupplier done, Deadline deadline) {
        int round = 0;
        while (!done.getAsBoolean()) {
            if (deadline.passed()) {
                return done.getAsBoolean();
            }
            pause(round++);
        }
        return true;
    }
}

package io.telpher.internal.engine;

import io.telpher.Access;
import io.telpher.TelpherException;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.internal.observe.Log;
import io.telpher.internal.observe.MetricsPage;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Transport;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.ServiceLoader;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.locks.LockSupport;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/// The machine that this process runs on. Tests plant in subclasses what it does not do by itself.
class NativePlatform extends Platform {
    static final NativePlatform HERE = new NativePlatform();

    private final SecureRandom random = new SecureRandom();

    NativePlatform() {}

    @Override
    public long nanoTime() {
        return System.nanoTime();
    }

    @Override
    public void park(Object blocker, long nanos) {
        LockSupport.parkNanos(blocker, nanos);
    }

    @Override
    public void unpark(Thread thread) {
        LockSupport.unpark(thread);
    }

    /// Spins at first, then yields, then sleeps 50 microseconds at a time.
    @Override
    public void pause(int round) {
        Runtimes.poll(); // what is waited for may be a device's copy
        if (round < 64) {
            Thread.onSpinWait();
        } else if (round < 256) {
            Thread.yield();
        } else {
            LockSupport.parkNanos(50_000);
        }
    }

    @Override
    public Thread thread(String name, Runnable body) {
        Thread thread = new Thread(body, name);
        thread.setDaemon(true);
        thread.setUncaughtExceptionHandler(NativePlatform::uncaught);
        return thread;
    }

    /// The JVM itself would print it.
    static void uncaught(Thread thread, Throwable thrown) {
        Log.error(thread.getName() + " ended", thrown);
    }

    @Override
    public void start(Thread thread) {
        thread.start();
    }

    @Override
    public ExecutorService executor() {
        return Control.create();
    }

    @Override
    public Readiness readiness() {
        return new EpollReadiness();
    }

    @Override
    public RandomGenerator random() {
        return random;
    }

    @Override
    public HostIdentity identity() {
        return HostIdentity.here();
    }

    @Override
    public List<Transport> transports() {
        List<Transport> found = new ArrayList<>();
        for (Transport transport :
                ServiceLoader.load(Transport.class, NativePlatform.class.getClassLoader())) {
            found.add(transport);
        }
        return found;
    }

    @Override
    public @Nullable MetricsPage metricsPage() {
        try {
            return MetricsPage.create();
        } catch (TelpherException.NativeFailure e) {
            Log.debug("no counters for other processes", e);
            return null;
        }
    }

    @Override
    public @Nullable SharedMemory share(long bytes, Access access, SharedMemory.Pages pages) {
        return SharedMemory.allocate(bytes, access, pages);
    }
}

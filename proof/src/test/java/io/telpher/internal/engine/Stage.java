package io.telpher.internal.engine;

import io.telpher.Access;
import io.telpher.EndpointOptions;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Transport;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.locks.LockSupport;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;

/// The machine as it is, but for a [#park] that only [#unpark] ends: a wake-up that is lost shows,
/// where the engine itself would look again after a moment.
final class Stage extends Platform {
    static final EndpointImpl ENDPOINT =
            new EndpointImpl(
                    EndpointOptions.DEFAULTS
                            .withSpin(Duration.ZERO)
                            .withTransports(List.of("tcp"))
                            .withInterfaces(List.of("lo")),
                    new Stage());

    /// Far longer than any scheduler's whim.
    private static final long LOST = 10_000_000_000L;

    /// Whether the last park of this thread ended by nobody's doing.
    static final ThreadLocal<Boolean> OVERSLEPT = ThreadLocal.withInitial(() -> false);

    static ConnectionCore connection() {
        return new ConnectionCore(ENDPOINT, 1, ENDPOINT.address());
    }

    @Override
    public long nanoTime() {
        return System.nanoTime();
    }

    @Override
    public void park(Object blocker, long nanos) {
        long start = System.nanoTime();
        LockSupport.parkNanos(blocker, LOST);
        OVERSLEPT.set(System.nanoTime() - start >= LOST);
    }

    @Override
    public void unpark(Thread thread) {
        LockSupport.unpark(thread);
    }

    @Override
    public void pause(int round) {
        NativePlatform.HERE.pause(round);
    }

    @Override
    public Thread thread(String name, Runnable body) {
        return NativePlatform.HERE.thread(name, body);
    }

    @Override
    public void start(Thread thread) {
        thread.start();
    }

    @Override
    public ExecutorService executor() {
        return NativePlatform.HERE.executor();
    }

    @Override
    public Readiness readiness() {
        return NativePlatform.HERE.readiness();
    }

    @Override
    public RandomGenerator random() {
        return NativePlatform.HERE.random();
    }

    @Override
    public HostIdentity identity() {
        return NativePlatform.HERE.identity();
    }

    @Override
    public List<Transport> transports() {
        return NativePlatform.HERE.transports();
    }

    @Override
    public @Nullable SharedMemory share(long bytes, Access access, SharedMemory.Pages pages) {
        return NativePlatform.HERE.share(bytes, access, pages);
    }
}

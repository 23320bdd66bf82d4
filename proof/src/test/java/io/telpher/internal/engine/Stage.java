package io.telpher.internal.engine;

import io.telpher.EndpointOptions;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/// The machine as it is, but for a [#park] that only [#unpark] ends: a wake-up that is lost shows,
/// where the engine itself would look again after a moment.
final class Stage extends NativePlatform {
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
    public void park(Object blocker, long nanos) {
        long start = System.nanoTime();
        LockSupport.parkNanos(blocker, LOST);
        OVERSLEPT.set(System.nanoTime() - start >= LOST);
    }
}

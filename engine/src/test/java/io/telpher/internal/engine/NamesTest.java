package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.spi.Lane;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicReference;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.Test;

/// What lookups leave in the connection; what they find is LifecycleContract's.
class NamesTest {
    private static final Duration FOR_EVER = Duration.ofNanos(Long.MAX_VALUE);

    /// Nobody answers, and its own deadline is centuries away.
    @Test
    void anInterruptedLookupLeavesNothing() throws InterruptedException {
        try (EndpointImpl endpoint = Loopback.open()) {
            ConnectionCore core = Loopback.connection(endpoint, 1);
            LaneState unused = new StubLane(Lane.LEAST_PAYLOAD).addTo(core, 0);
            AtomicReference<Throwable> thrown = new AtomicReference<>();
            Thread asking =
                    Thread.ofPlatform()
                            .start(
                                    () ->
                                            thrown.set(
                                                    catchThrowable(
                                                            () ->
                                                                    new ConnectionImpl(core)
                                                                            .lookup(
                                                                                    "nobody's",
                                                                                    FOR_EVER))));
            Awaitility.await().until(() -> inUse(core) == 1);
            asking.interrupt();
            asking.join();
            assertThat(thrown.get()).isInstanceOf(TelpherException.Cancelled.class);
            // The progress thread may be the one that ends it.
            Awaitility.await().until(() -> inUse(core) == 0);
            core.close();
        }
    }

    @Test
    void aNameOfAnotherLengthIsRefusedWithIt() {
        try (EndpointImpl endpoint = Loopback.open()) {
            MemoryRegion region = endpoint.allocate(8);
            endpoint.publish("n".repeat(256), region);
            for (int length : new int[] {0, 257}) {
                assertThatThrownBy(() -> endpoint.publish("n".repeat(length), region))
                        .isInstanceOf(IllegalArgumentException.class)
                        .hasMessage("a name has 1 to 256 characters, this one has " + length);
            }
        }
    }

    private static int inUse(ConnectionCore core) {
        core.lock.lock();
        try {
            return core.table.size() - core.table.freeCount;
        } finally {
            core.lock.unlock();
        }
    }
}

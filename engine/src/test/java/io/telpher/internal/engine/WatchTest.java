package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.spi.Link;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// How often the progress thread looks at a connection.
@Timeout(60)
class WatchTest {
    private static final long QUICK = Progress.TICK_MILLIS * 1_000_000L;
    private static final long SLOW = Progress.SLOW_TICK_MILLIS * 1_000_000L;

    private static final EndpointOptions LOOPBACK =
            EndpointOptions.DEFAULTS.withTransports(List.of("tcp")).withInterfaces(List.of("lo"));

    private static ConnectionCore connection(EndpointImpl endpoint, long id) {
        ConnectionCore core = new ConnectionCore(endpoint, id, endpoint.address());
        endpoint.remember(core);
        Link link = new Link(new StubLane(StubLane.LEAST_PAYLOAD), null);
        assertThat(core.add(link, 0, "stub", "")).isTrue();
        return core;
    }

    @Test
    void onlyTheIdleConnectionIsLeftAloneAndPostingEndsThat() throws Exception {
        try (EndpointImpl endpoint = new EndpointImpl(LOOPBACK)) {
            ConnectionCore busy = connection(endpoint, 1);
            ConnectionCore idle = connection(endpoint, 2);
            MemoryRegion region = endpoint.allocate(8);
            Transfer pending = new ConnectionImpl(busy).receive(1, region.all());
            while (!idle.watch.slow) {
                Thread.sleep(10);
            }
            assertThat(busy.watch.slow).isFalse();
            Connection used = new ConnectionImpl(idle);
            Duration soon = Duration.ofMillis(200);
            Transfer late =
                    used.receive(
                            1,
                            MemorySlices.of(region.all()),
                            TransferOptions.DEFAULTS.withDeadline(soon));
            assertThat(idle.watch.slow).isFalse();
            while (late.state() == TransferState.PENDING) {
                Thread.sleep(10); // nobody but the progress thread can end it
            }
            assertThat(late.error()).isInstanceOf(TelpherException.TimedOut.class);
            assertThat(pending.state()).isEqualTo(TransferState.PENDING);
        }
    }

    @Test
    void looksBecomeRareOnceNothingHasBeenThereTwentyTimes() {
        try (EndpointImpl endpoint = new EndpointImpl(LOOPBACK)) {
            Watch watch = new Watch(new ConnectionCore(endpoint, 1, endpoint.address()));
            long now = 0;
            for (int i = 0; i < 20; i++) {
                assertThat(watch.slow).isFalse();
                assertThat(watch.isDue(now)).isTrue();
                watch.ticked(now, false);
                assertThat(watch.nextLook - now).as("after look %d", i).isEqualTo(QUICK);
                now = watch.nextLook;
            }
            // Whoever posts from here on says so; one more look finds what came in between.
            assertThat(watch.slow).isTrue();
            assertThat(watch.isDue(now)).isTrue();
            watch.ticked(now, false);
            assertThat(watch.nextLook - now).isEqualTo(SLOW);
            assertThat(watch.isDue(now + QUICK)).isFalse();
            assertThat(watch.isDue(now + SLOW / 2)).as("looks that come together").isTrue();

            watch.slow = false; // somebody has posted
            assertThat(watch.isDue(now + QUICK)).isTrue();
            watch.ticked(now + QUICK, false);
            assertThat(watch.slow).isFalse();
            assertThat(watch.nextLook - now).isEqualTo(2 * QUICK);
        }
    }

    @Test
    void whatIsFoundInTheLastQuickLookKeepsThemQuick() {
        try (EndpointImpl endpoint = new EndpointImpl(LOOPBACK)) {
            Watch watch = new Watch(new ConnectionCore(endpoint, 1, endpoint.address()));
            for (int i = 0; i < 20; i++) {
                watch.ticked(0, false);
            }
            assertThat(watch.slow).isTrue();
            watch.ticked(0, true);
            assertThat(watch.slow).isFalse();
            assertThat(watch.nextLook).isEqualTo(QUICK);
        }
    }
}

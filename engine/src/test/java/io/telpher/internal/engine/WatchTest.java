package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.sim.LinkOptions;
import io.telpher.sim.SimHost;
import io.telpher.sim.SimLink;
import io.telpher.sim.Simulation;
import io.telpher.spi.Link;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// How often the progress thread looks at a connection.
@Timeout(60)
class WatchTest {
    private static final long QUICK = Progress.TICK_MILLIS * 1_000_000L;
    private static final long SLOW = Progress.SLOW_TICK_MILLIS * 1_000_000L;

    private static final Duration MINUTE = Duration.ofMinutes(1);

    private static ConnectionCore connection(EndpointImpl endpoint, long id) {
        ConnectionCore core = Loopback.connection(endpoint, id);
        endpoint.remember(core);
        Link link = new Link(new StubLane(StubLane.LEAST_PAYLOAD), null);
        assertThat(core.add(link, 0, "stub", "")).isTrue();
        return core;
    }

    @Test
    void onlyTheIdleConnectionIsLeftAlone() throws Exception {
        try (EndpointImpl endpoint = Loopback.open()) {
            ConnectionCore busy = connection(endpoint, 1);
            ConnectionCore idle = connection(endpoint, 2);
            MemoryRegion region = endpoint.allocate(8);
            Transfer pending = new ConnectionImpl(busy).receive(1, region.all());
            while (!idle.watch.slow) {
                Thread.sleep(10); // until the limit of this class
            }
            assertThat(busy.watch.slow).isFalse();
            assertThat(pending.state()).isEqualTo(TransferState.PENDING);
        }
    }

    @Test
    void idleConnectionsAreSeldomTurned() {
        try (EndpointImpl endpoint = Loopback.open()) {
            Watch watch = new Watch(Loopback.connection(endpoint, 1));
            for (int i = 0; i < 9; i++) {
                assertThat(watch.isToBeTurned()).as("quick").isTrue();
            }
            watch.slow = true;
            List<Boolean> turned = new ArrayList<>();
            for (int i = 0; i < 9; i++) {
                turned.add(watch.isToBeTurned());
            }
            assertThat(turned)
                    .containsExactly(true, false, false, false, true, false, false, false, true);
        }
    }

    /// In virtual time, and in the whole of the second between two looks: the only thing that could
    /// bring one forward is the post.
    @Test
    void aDeadlineThatEndsBetweenTwoRareLooksIsKept() {
        AtomicReference<EndpointAddress> address = new AtomicReference<>();
        AtomicBoolean over = new AtomicBoolean();
        List<Duration> ends = new ArrayList<>();
        try (Simulation simulation = new Simulation(1)) {
            SimHost left = simulation.host("left");
            SimHost right = simulation.host("right");
            SimLink unused = simulation.link(left, right, LinkOptions.DEFAULTS);
            right.start(
                    "idle",
                    () -> {
                        try (Endpoint endpoint = right.open(EndpointOptions.DEFAULTS)) {
                            address.set(endpoint.address());
                            Connection peer = endpoint.accept(MINUTE);
                            simulation.await(over::get, Duration.ofHours(1));
                            peer.close();
                        }
                    });
            left.start(
                    "poster",
                    () -> {
                        try (Endpoint endpoint = left.open(EndpointOptions.DEFAULTS)) {
                            simulation.await(() -> address.get() != null, MINUTE);
                            Connection peer = endpoint.connect(address.get());
                            MemoryRegion region = endpoint.allocate(8);
                            for (long offset = 0; offset < SLOW; offset += QUICK) {
                                ends.add(endOfOne(simulation, peer, region, offset));
                            }
                            over.set(true);
                        }
                    });
            simulation.run();
        }
        // What an end may take is docs/simulation.md's: without the ring it may be a second.
        assertThat(ends).hasSize(20).allMatch(end -> end.compareTo(Duration.ofMillis(120)) < 0);
    }

    /// @return how long after its deadline it ended
    private static Duration endOfOne(
            Simulation simulation, Connection peer, MemoryRegion region, long offset) {
        simulation.sleep(Duration.ofSeconds(5));
        Watch watch = ((ConnectionImpl) peer).core.watch;
        simulation.sleep(Duration.ofNanos(watch.nextLook - nanoTime(peer) + offset));
        assertThat(watch.slow).isTrue();
        Duration soon = Duration.ofMillis(10);
        Transfer late =
                peer.receive(
                        1,
                        MemorySlices.of(region.all()),
                        TransferOptions.DEFAULTS.withDeadline(soon));
        assertThat(watch.slow).isFalse();
        long posted = nanoTime(peer);
        while (late.state() == TransferState.PENDING) {
            simulation.sleep(Duration.ofMillis(1)); // nobody but the progress thread can end it
        }
        assertThat(late.error()).isInstanceOf(TelpherException.TimedOut.class);
        return Duration.ofNanos(nanoTime(peer) - posted).minus(soon);
    }

    private static long nanoTime(Connection connection) {
        return ((ConnectionImpl) connection).core.platform.nanoTime();
    }

    /// A watch of a connection that is looked at once a second, after a look at 0.
    private static Watch slow(EndpointImpl endpoint) {
        Watch watch = new Watch(Loopback.connection(endpoint, 1));
        for (int i = 0; i <= Watch.QUIET_TICKS; i++) {
            watch.ticked(0, false);
        }
        assertThat(watch.slow).isTrue();
        assertThat(watch.nextLook).isEqualTo(SLOW);
        return watch;
    }

    @Test
    void whoPostsAtTheEndOfARareLookIsLookedAtByTheNextTick() {
        try (EndpointImpl endpoint = Loopback.open()) {
            Watch watch = slow(endpoint);
            boolean before = watch.slow;
            watch.slow = false; // somebody posts and rings: there is a tick soon
            watch.ticked(SLOW, false, before);
            assertThat(watch.slow).isFalse();
            assertThat(watch.isDue(SLOW + QUICK)).isTrue();
            watch.ticked(SLOW + QUICK, true);
            assertThat(watch.nextLook).isEqualTo(SLOW + 2 * QUICK);
        }
    }

    @Test
    void looksBecomeRareOnceNothingHasBeenThereForSomeLooks() {
        try (EndpointImpl endpoint = Loopback.open()) {
            Watch watch = new Watch(Loopback.connection(endpoint, 1));
            long now = 0;
            for (int i = 0; i < Watch.QUIET_TICKS; i++) {
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
        try (EndpointImpl endpoint = Loopback.open()) {
            Watch watch = new Watch(Loopback.connection(endpoint, 1));
            for (int i = 0; i < Watch.QUIET_TICKS; i++) {
                watch.ticked(0, false);
            }
            assertThat(watch.slow).isTrue();
            watch.ticked(0, true);
            assertThat(watch.slow).isFalse();
            assertThat(watch.nextLook).isEqualTo(QUICK);
        }
    }
}

package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import java.util.random.RandomGenerator;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/// Connects while ways between two hosts pass the handshake and come to nothing.
class ConnectingTest {
    private static final int SEEDS = 1000;
    private static final int LINKS = 3;

    private static final int MANY = 12;

    /// As long as a queue pair is tried.
    private static final Duration TRIED = Duration.ofSeconds(2);

    /// Longer than either side may still be occupied with what it has begun.
    private static final Duration LONG = Duration.ofMinutes(1);

    /// One host's side of it.
    private static final class Side {
        final SimHost host;
        final byte mark;
        final Duration begins;
        @Nullable EndpointAddress address;
        boolean over;

        Side(SimHost host, int mark, Duration begins) {
            this.host = host;
            this.mark = (byte) mark;
            this.begins = begins;
        }
    }

    @Test
    void bothSidesGetTheOneConnectionWhenWaysFail() {
        List<String> wrong = new ArrayList<>();
        for (long seed = 1; seed <= SEEDS; seed++) {
            try {
                run(seed);
            } catch (IllegalStateException | AssertionError e) {
                wrong.add("seed %d: %s, %s".formatted(seed, e.getMessage(), e.getCause()));
            }
        }
        assertThat(wrong).isEmpty();
    }

    /// So many that the peer gives up the last channel long before its turn comes.
    @Test
    void theLastWayWorksAfterManyThatFail() {
        try (Simulation simulation = new Simulation(1)) {
            SimHost left = simulation.host("left");
            SimHost right = simulation.host("right");
            for (int i = 0; i < MANY; i++) {
                simulation.link(left, right, LinkOptions.DEFAULTS).refuseLanes(TRIED);
            }
            // Its channel comes last.
            LinkOptions far = LinkOptions.DEFAULTS.withLatency(Duration.ofMillis(50));
            SimLink good = simulation.link(left, right, far);
            AtomicReference<@Nullable EndpointAddress> address = new AtomicReference<>();
            right.start(
                    "acceptor",
                    () -> {
                        try (Endpoint endpoint = right.open(EndpointOptions.DEFAULTS)) {
                            address.set(endpoint.address());
                            Connection peer = endpoint.accept(LONG);
                            simulation.await(() -> !peer.isOpen(), LONG);
                        }
                    });
            left.start(
                    "initiator",
                    () -> {
                        try (Endpoint endpoint = left.open(EndpointOptions.DEFAULTS)) {
                            simulation.await(() -> address.get() != null, LONG);
                            Connection peer = endpoint.connect(address.get(), LONG);
                            assertThat(peer.isOpen()).isTrue();
                            assertThat(good.lanes()).isEqualTo(1);
                        }
                    });
            simulation.run();
        }
    }

    /// The first ones are dead, and more than begin at once.
    @Test
    void ofVeryManyWaysNoMoreAreDialledThanAPeerMayHaveSockets() {
        int sockets = EndpointOptions.DEFAULTS.maxSockets();
        try (Simulation simulation = new Simulation(1)) {
            SimHost left = simulation.host("left");
            SimHost right = simulation.host("right");
            for (int i = 0; i < 4 * sockets; i++) {
                SimLink link = simulation.link(left, right, LinkOptions.DEFAULTS);
                if (i < sockets + MANY) {
                    link.cut();
                }
            }
            AtomicReference<@Nullable EndpointAddress> address = new AtomicReference<>();
            right.start(
                    "acceptor",
                    () -> {
                        try (Endpoint endpoint = right.open(EndpointOptions.DEFAULTS)) {
                            address.set(endpoint.address());
                            Connection peer = endpoint.accept(LONG);
                            simulation.await(() -> !peer.isOpen(), LONG);
                        }
                    });
            left.start(
                    "initiator",
                    () -> {
                        try (Endpoint endpoint = left.open(EndpointOptions.DEFAULTS)) {
                            simulation.await(() -> address.get() != null, LONG);
                            Connection peer = endpoint.connect(address.get(), LONG);
                            assertThat(dials(simulation)).isBetween(1L, (long) sockets - MANY);
                            assertThat(peer.explain())
                                    .contains("chosen, since nobody has answered in 2000 ms by")
                                    .contains("and %d more: not tried".formatted(2 * sockets - 4));
                        }
                    });
            simulation.run();
        }
    }

    /// @return how many channels have come of dials
    static long dials(Simulation simulation) {
        return simulation.log().stream().filter(e -> e.what().startsWith("dials ")).count();
    }

    private static void run(long seed) {
        try (Simulation simulation = new Simulation(seed)) {
            RandomGenerator random = simulation.random();
            SimHost left = simulation.host("left");
            SimHost right = simulation.host("right");
            int good = random.nextInt(LINKS);
            for (int i = 0; i < LINKS; i++) {
                SimLink link = simulation.link(left, right, LinkOptions.DEFAULTS);
                if (i != good) {
                    link.refuseLanes(TRIED);
                }
            }
            // From attempts that begin in the same handshake to those that meet a later way.
            long apart = random.nextBoolean() ? 500_000 : TRIED.toNanos() * (LINKS - 1);
            Side one = new Side(left, 1, Duration.ofNanos(random.nextLong(apart)));
            Side other = new Side(right, 2, Duration.ofNanos(random.nextLong(apart)));
            left.start("left", () -> connect(simulation, one, other));
            right.start("right", () -> connect(simulation, other, one));
            simulation.run();
        }
    }

    private static void connect(Simulation simulation, Side mine, Side other) {
        try (Endpoint endpoint = mine.host.open(EndpointOptions.DEFAULTS)) {
            mine.address = endpoint.address();
            simulation.await(() -> other.address != null, LONG);
            simulation.sleep(mine.begins);
            EndpointAddress there = other.address;
            assertThat(there).isNotNull();
            Connection connection = endpoint.connect(there, LONG);
            connection.notifyPeer(MemorySegment.ofArray(new byte[] {mine.mark})).await();
            assertThat(connection.awaitNotification(LONG).payload()).containsExactly(other.mark);
            simulation.sleep(LONG);
            assertThat(connection.isOpen()).isTrue();
            assertThatThrownBy(() -> endpoint.accept(Duration.ofMillis(1)))
                    .as("a second connection")
                    .isInstanceOf(TelpherException.TimedOut.class);
            mine.over = true;
            simulation.await(() -> other.over, LONG);
        }
    }
}

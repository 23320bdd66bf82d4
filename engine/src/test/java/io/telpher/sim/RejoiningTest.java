package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/// A lane that comes back, on a link that does not carry for long.
class RejoiningTest {
    private static final Duration SHORT = Duration.ofSeconds(10);
    private static final Duration LATENCY = Duration.ofMillis(5);

    /// A dial and a handshake take six times the latency, and a lane is known at one end before the
    /// other hears of it.
    private static final int STEPS = 16;

    private static final LinkOptions ONE_LANE = LinkOptions.DEFAULTS.withLanes(1);

    /// At whatever moment of the handshake the link turns black: when it carries again, a lane
    /// joins.
    @Test
    void aLaneThatHasJoinedAtOneEndAloneKeepsNoneFromJoining() {
        for (int step = 0; step < STEPS; step++) {
            Duration after = LATENCY.multipliedBy(step).dividedBy(2);
            run(
                    ONE_LANE.withLatency(LATENCY).withJitter(Duration.ZERO),
                    (simulation, peer, good, bad) -> {
                        simulation.await(() -> live(peer) == 2, SHORT);
                        bad.reset();
                        simulation.await(() -> live(peer) == 1 && bad.lanes() == 0, SHORT);
                        while (bad.lanes() == 0) { // until it is dialled again
                            simulation.sleep(LATENCY.dividedBy(50));
                        }
                        simulation.sleep(after);
                        bad.cut();
                        simulation.sleep(Duration.ofSeconds(30));
                        bad.mend();
                        simulation.await(() -> live(peer) == 2, Duration.ofMinutes(5));
                        assertThat(good.lanes()).isEqualTo(1);
                        assertThat(bad.lanes()).isEqualTo(1);
                    });
        }
    }

    /// Before anything but itself has seen that it was there.
    @Test
    void aLaneThatDiesAtOnceComesBack() {
        run(
                ONE_LANE,
                (simulation, peer, good, bad) -> {
                    while (live(peer) < 2) {
                        simulation.sleep(Duration.ofNanos(10_000));
                    }
                    bad.reset();
                    simulation.await(() -> live(peer) == 1, SHORT);
                    simulation.await(() -> live(peer) == 2, Duration.ofMinutes(5));
                });
    }

    /// Neither at once nor later does the side that connects try for more.
    @Test
    void theSideThatIsConnectedToHasNoMoreLanesThanItWants() {
        int most = 3;
        run(
                LinkOptions.DEFAULTS.withLanes(8),
                EndpointOptions.DEFAULTS.withMaxSockets(most),
                (simulation, peer, good, bad) -> {
                    simulation.await(() -> live(peer) == most, SHORT);
                    simulation.sleep(SHORT);
                    assertThat(good.lanes() + bad.lanes()).isEqualTo(most);
                    assertThat(peer.explain()).contains("the peer has as many lanes as it wants");
                    long dials = ConnectingTest.dials(simulation);
                    simulation.sleep(Duration.ofMinutes(5));
                    assertThat(ConnectingTest.dials(simulation)).isEqualTo(dials);
                    // One that dies is dialled again all the same.
                    bad.reset(1);
                    simulation.await(() -> live(peer) == most - 1, SHORT);
                    simulation.await(() -> live(peer) == most, Duration.ofMinutes(5));
                    assertThat(good.lanes() + bad.lanes()).isEqualTo(most);
                });
    }

    /// What the side that connects does with a connection over two links.
    private interface Initiator {
        void run(Simulation simulation, Connection peer, SimLink good, SimLink bad);
    }

    private static void run(LinkOptions second, Initiator initiator) {
        run(second, EndpointOptions.DEFAULTS, initiator);
    }

    private static void run(LinkOptions second, EndpointOptions acceptor, Initiator initiator) {
        try (Simulation simulation = new Simulation(1)) {
            SimHost left = simulation.host("left");
            SimHost right = simulation.host("right");
            SimLink good = simulation.link(left, right, LinkOptions.DEFAULTS);
            SimLink bad = simulation.link(left, right, second);
            AtomicReference<EndpointAddress> address = new AtomicReference<>();
            left.start(
                    "acceptor",
                    () -> {
                        try (Endpoint endpoint = left.open(acceptor)) {
                            address.set(endpoint.address());
                            Connection peer = endpoint.accept(SHORT);
                            simulation.await(() -> !peer.isOpen(), Duration.ofMinutes(10));
                        }
                    });
            right.start(
                    "initiator",
                    () -> {
                        simulation.await(() -> address.get() != null, SHORT);
                        try (Endpoint endpoint = right.open(EndpointOptions.DEFAULTS)) {
                            Connection peer = endpoint.connect(address.get(), SHORT);
                            initiator.run(simulation, peer, good, bad);
                        }
                    });
            simulation.run();
        }
    }

    private static long live(Connection connection) {
        return connection.metrics().lanes().stream().filter(ConnectionMetrics.Lane::alive).count();
    }
}

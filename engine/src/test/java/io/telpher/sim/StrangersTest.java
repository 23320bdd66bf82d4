package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.spi.Channel;
import io.telpher.spi.Route;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/// Strangers that knock and say nothing: who is looked at, who waits, and who is turned away.
class StrangersTest {
    private static final int LOOKED_AT = 64;
    private static final int WAITING = 512;

    /// After which who is looked at is thrown out, and who has waited for as long.
    private static final Duration HANDSHAKE = Duration.ofSeconds(5);

    private static final Duration MOMENT = Duration.ofMillis(100);

    private final Simulation simulation = new Simulation(1);
    private final SimHost left = simulation.host("left");
    private final SimHost right = simulation.host("right");
    private final AtomicReference<EndpointAddress> address = new AtomicReference<>();
    private boolean over;

    private void run(SimHost.Program strangers) {
        simulation.link(left, right, LinkOptions.DEFAULTS);
        right.start(
                "acceptor",
                () -> {
                    try (Endpoint endpoint = right.open(EndpointOptions.DEFAULTS)) {
                        address.set(endpoint.address());
                        simulation.await(() -> over, Duration.ofHours(1));
                    }
                });
        left.start(
                "strangers",
                () -> {
                    simulation.await(() -> address.get() != null, MOMENT);
                    strangers.run();
                    over = true;
                });
        try (simulation) {
            simulation.run();
        }
    }

    private List<Channel> knock(int count) {
        SimTransportEndpoint by = new SimTransportEndpoint(left.process(), null);
        Route door = by.routes(AddressCodec.decode(address.get().toBytes()).peer()).getFirst();
        List<Channel> channels = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            channels.add(by.dial(door, left.process().in(MOMENT)));
        }
        by.close();
        return channels;
    }

    /// @return how many of them have not been closed by the other side
    private long open(List<Channel> channels) {
        return channels.stream()
                .filter(
                        channel -> {
                            try {
                                byte[] unused =
                                        channel.receive(1, left.process().in(Duration.ZERO));
                                throw new AssertionError("a stranger is answered");
                            } catch (TelpherException.TimedOut e) {
                                return true;
                            } catch (TelpherException.PeerLost e) {
                                return false;
                            }
                        })
                .count();
    }

    @Test
    void whoIsHonestWaitsForItsTurn() {
        run(
                () -> {
                    List<Channel> strangers = knock(100);
                    Duration end = simulation.now().plus(HANDSHAKE);
                    simulation.sleep(Duration.ofSeconds(2));
                    try (Endpoint honest = left.open(EndpointOptions.DEFAULTS)) {
                        Connection unused = honest.connect(address.get(), HANDSHAKE);
                        assertThat(simulation.now()).isBetween(end.minus(MOMENT), end.plus(MOMENT));
                        simulation.sleep(MOMENT);
                        assertThat(open(strangers)).isEqualTo(100 - LOOKED_AT);
                    }
                });
    }

    @Test
    void whoIsTooManyIsTurnedAwayAndWhoWaitsTooLong() {
        run(
                () -> {
                    List<Channel> strangers = knock(LOOKED_AT + WAITING);
                    List<Channel> more = knock(10);
                    simulation.sleep(MOMENT);
                    assertThat(open(more)).as("of those that were too many").isZero();
                    simulation.sleep(HANDSHAKE.minus(MOMENT.multipliedBy(2)));
                    assertThat(open(strangers)).isEqualTo(LOOKED_AT + WAITING);
                    // Some came so late that they are looked at when the first are thrown out.
                    simulation.sleep(HANDSHAKE.plus(MOMENT.multipliedBy(2)));
                    assertThat(open(strangers)).as("of those that have waited too long").isZero();
                });
    }
}

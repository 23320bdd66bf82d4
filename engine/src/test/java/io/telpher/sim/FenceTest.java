package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.RemoteMemory;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.internal.engine.Leftovers;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// A lane dies while both sides have refused something that went over it: in whatever message that
/// cuts, neither may wait for the other for ever.
class FenceTest {
    private static final Duration SHORT = Duration.ofSeconds(10);
    private static final Duration LATENCY = Duration.ofMillis(1);

    /// What both programs need of each other.
    private static final class End {
        final AtomicReference<EndpointAddress> address = new AtomicReference<>();
        final AtomicReference<Connection> connection = new AtomicReference<>();
        final AtomicReference<RemoteMemory> open = new AtomicReference<>();
        final AtomicReference<RemoteMemory> closed = new AtomicReference<>();
        boolean over;
    }

    private final End left = new End();
    private final End right = new End();

    /// So long after the posts the lane dies. It takes 1 ms for the writes to arrive, 2 for the
    /// refusals, 3 for the word that these are known.
    @ParameterizedTest
    @ValueSource(longs = {0, 500, 900, 1_100, 1_500, 1_900, 2_100, 2_500, 2_900, 3_100, 3_500})
    void neitherSideWaitsForTheOther(long micros) {
        try (Simulation simulation = new Simulation(1)) {
            SimHost a = simulation.host("left");
            SimHost b = simulation.host("right");
            SimLink link =
                    simulation.link(
                            a,
                            b,
                            LinkOptions.DEFAULTS
                                    .withLatency(LATENCY)
                                    .withJitter(Duration.ZERO)
                                    .withLanes(2));
            a.start("left", () -> play(simulation, a, left, right, null));
            b.start(
                    "right",
                    () ->
                            play(
                                    simulation,
                                    b,
                                    right,
                                    left,
                                    () -> resetIn(simulation, link, micros)));
            simulation.run();
        }
    }

    private static void resetIn(Simulation simulation, SimLink link, long micros) {
        simulation.after(Duration.ofNanos(micros * 1_000), () -> link.reset(0));
    }

    private static void play(
            Simulation simulation, SimHost host, End own, End other, @Nullable Runnable atPost) {
        try (Endpoint endpoint = host.open(EndpointOptions.DEFAULTS)) {
            MemoryRegion open = endpoint.allocate(4096);
            MemoryRegion closed = endpoint.allocate(4096);
            own.open.set(open.remote());
            own.closed.set(closed.remote());
            closed.close();
            own.address.set(endpoint.address());
            simulation.await(() -> other.address.get() != null, SHORT);
            Connection peer =
                    atPost == null
                            ? endpoint.accept(SHORT)
                            : endpoint.connect(other.address.get(), SHORT);
            own.connection.set(peer);
            simulation.await(() -> other.connection.get() != null, SHORT);
            simulation.sleep(Duration.ofMillis(20)); // until the other lanes have joined
            if (atPost != null) {
                atPost.run();
            }
            MemorySlice bytes = new MemorySlice(open, 0, 2048);
            Transfer refused = peer.write(bytes, other.closed.get());
            Transfer good = peer.write(bytes, other.open.get());
            assertThat(refused.await(Duration.ofSeconds(1))).isTrue();
            assertThat(good.await(Duration.ofSeconds(1))).isTrue();
            assertThat(refused.state()).isEqualTo(TransferState.FAILED);
            assertThat(good.state()).isEqualTo(TransferState.DONE);
            simulation.sleep(Duration.ofSeconds(1));
            List<String> rest = Leftovers.between(peer, other.connection.get());
            assertThat(rest).isEmpty();
            own.over = true;
            simulation.await(() -> other.over, SHORT);
        }
    }
}

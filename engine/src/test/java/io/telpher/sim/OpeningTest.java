package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/// Windows that are opened at the same time.
class OpeningTest {
    private static final Duration SHORT = Duration.ofSeconds(10);
    private static final int ROUNDS = 20;

    /// Whoever looks at the window of another region may be descheduled inside: those who open
    /// theirs do not wait for that.
    @Test
    void nobodyIsKeptFromOpeningByWhoeverHasAWrongKey() {
        try (Simulation simulation = new Simulation(1)) {
            SimHost left = simulation.host("left");
            SimHost right = simulation.host("right");
            simulation.link(
                    left,
                    right,
                    LinkOptions.DEFAULTS.withStyle(LinkOptions.Style.RING).withWindows(true));
            simulation.load(1);
            AtomicReference<EndpointAddress> address = new AtomicReference<>();
            List<RemoteMemory> targets = new ArrayList<>();
            right.start(
                    "owner",
                    () -> {
                        try (Endpoint endpoint = right.open(EndpointOptions.DEFAULTS)) {
                            for (int i = 0; i <= ROUNDS; i++) {
                                targets.add(endpoint.allocate(4096).remote());
                            }
                            address.set(endpoint.address());
                            Connection peer = endpoint.accept(SHORT);
                            simulation.await(() -> !peer.isOpen(), SHORT);
                        }
                    });
            left.start(
                    "writer",
                    () -> {
                        simulation.await(() -> address.get() != null, SHORT);
                        try (Endpoint endpoint = left.open(EndpointOptions.DEFAULTS)) {
                            Connection peer = endpoint.connect(address.get());
                            MemoryRegion own = endpoint.allocate(4096);
                            RemoteMemory first = targets.getFirst();
                            peer.write(own.all(), first).await();
                            for (int i = 1; i <= ROUNDS; i++) {
                                Transfer wrong = peer.write(own.all(), withWrongKey(first));
                                Transfer good = peer.write(own.all(), targets.get(i));
                                good.await();
                                assertThat(wrong.await(SHORT)).isTrue();
                                assertThat(wrong.error())
                                        .isInstanceOf(TelpherException.AccessDenied.class);
                            }
                        }
                    });
            simulation.run();
        }
    }

    /// What random runs rely on: a window to a closed region is held until it is given back, and
    /// that is seen.
    @Test
    void aWindowToAClosedRegionIsSeenUntilItIsGivenBack() {
        try (Simulation simulation = new Simulation(1)) {
            SimHost left = simulation.host("left");
            SimHost right = simulation.host("right");
            simulation.link(
                    left,
                    right,
                    LinkOptions.DEFAULTS.withStyle(LinkOptions.Style.RING).withWindows(true));
            AtomicReference<EndpointAddress> address = new AtomicReference<>();
            AtomicReference<MemoryRegion> target = new AtomicReference<>();
            right.start(
                    "owner",
                    () -> {
                        try (Endpoint endpoint = right.open(EndpointOptions.DEFAULTS)) {
                            target.set(endpoint.allocate(4096));
                            address.set(endpoint.address());
                            Connection peer = endpoint.accept(SHORT);
                            simulation.await(() -> !peer.isOpen(), SHORT);
                        }
                    });
            left.start(
                    "writer",
                    () -> {
                        simulation.await(() -> address.get() != null, SHORT);
                        try (Endpoint endpoint = left.open(EndpointOptions.DEFAULTS)) {
                            Connection peer = endpoint.connect(address.get());
                            MemoryRegion own = endpoint.allocate(4096);
                            peer.write(own.all(), target.get().remote()).await();
                            assertThat(left.process().windowLeftovers()).isEmpty();
                            target.get().close();
                            assertThat(left.process().windowLeftovers())
                                    .singleElement()
                                    .asString()
                                    .contains("which is closed");
                            simulation.sleep(Duration.ofSeconds(2));
                            assertThat(left.process().windowLeftovers()).isEmpty();
                        }
                        assertThat(left.process().leftovers()).noneMatch("windows"::equals);
                    });
            simulation.run();
        }
    }

    private static RemoteMemory withWrongKey(RemoteMemory memory) {
        return new RemoteMemory(
                memory.incarnation(),
                memory.region(),
                memory.generation(),
                memory.key() ^ 1,
                memory.offset(),
                memory.length(),
                memory.access());
    }
}

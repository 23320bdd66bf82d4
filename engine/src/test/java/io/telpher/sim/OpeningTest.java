package io.telpher.sim;

import static org.assertj.core.api.Assertions.assertThat;

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
        try (Neighbours hosts = new Neighbours(1)) {
            hosts.simulation.load(1);
            List<RemoteMemory> targets = new ArrayList<>();
            hosts.accept(
                    hosts.right,
                    endpoint -> {
                        for (int i = 0; i <= ROUNDS; i++) {
                            targets.add(endpoint.allocate(4096).remote());
                        }
                    });
            hosts.connect(
                    hosts.left,
                    (endpoint, peer) -> {
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
                    });
            hosts.run();
        }
    }

    /// What random runs rely on: a window to a closed region is held until it is given back, and
    /// that is seen.
    @Test
    void aWindowToAClosedRegionIsSeenUntilItIsGivenBack() {
        try (Neighbours hosts = new Neighbours(1)) {
            AtomicReference<MemoryRegion> target = new AtomicReference<>();
            hosts.accept(hosts.right, endpoint -> target.set(endpoint.allocate(4096)));
            hosts.connect(
                    hosts.left,
                    (endpoint, peer) -> {
                        SimProcess process = hosts.left.process();
                        MemoryRegion own = endpoint.allocate(4096);
                        peer.write(own.all(), target.get().remote()).await();
                        assertThat(process.windowLeftovers()).isEmpty();
                        target.get().close();
                        assertThat(process.windowLeftovers())
                                .singleElement()
                                .asString()
                                .contains("which is closed");
                        hosts.simulation.sleep(Duration.ofSeconds(2));
                        assertThat(process.windowLeftovers()).isEmpty();
                        endpoint.close();
                        assertThat(process.leftovers()).noneMatch("windows"::equals);
                    });
            hosts.run();
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

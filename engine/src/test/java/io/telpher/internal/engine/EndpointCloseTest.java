package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.telpher.Connection;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.spi.Link;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Ends of regions and endpoints that are in use.
class EndpointCloseTest {
    private static final Duration LONG = Duration.ofMinutes(2);

    @Test
    void aReceiveThatNothingHasComeForKeepsNoRegion() {
        try (EndpointImpl endpoint = new EndpointImpl(Loopback.OPTIONS.withDrainLimit(LONG))) {
            ConnectionCore core = new ConnectionCore(endpoint, 1, endpoint.address());
            endpoint.remember(core);
            Link link = new Link(new StubLane(StubLane.LEAST_PAYLOAD), null);
            assertThat(core.add(link, 0, "stub", "")).isTrue();
            MemoryRegion region = endpoint.allocate(8);
            Transfer receive = new ConnectionImpl(core).receive(1, region.all());
            long start = System.nanoTime();
            region.close();
            assertThat(receive.error()).isInstanceOf(TelpherException.StaleRegion.class);
            assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(LONG.dividedBy(4));
        }
    }

    /// It gets a part of the drain limit to end by itself.
    @Test
    void aReceiveThatPeersMayFillIsNotEndedAtOnce() {
        try (EndpointImpl endpoint = Loopback.open()) {
            ConnectionCore core = new ConnectionCore(endpoint, 1, endpoint.address());
            endpoint.remember(core);
            RegionImpl region = (RegionImpl) endpoint.allocate(8);
            Transfer receive = new ConnectionImpl(core).receive(1, region.all());
            core.table.at(0).exposed = true;
            core.endUsers(region, Operation::isUntouched);
            assertThat(receive.state()).isEqualTo(TransferState.PENDING);
            region.close();
            assertThat(receive.error()).isInstanceOf(TelpherException.StaleRegion.class);
        }
    }

    /// As of a thread that a debugger has stopped.
    @Test
    @Timeout(30)
    void aLaneThatIsHeldKeepsNobodyForEver() {
        try (EndpointImpl endpoint =
                new EndpointImpl(Loopback.OPTIONS.withDrainLimit(Duration.ofMillis(200)))) {
            ConnectionCore core = new ConnectionCore(endpoint, 1, endpoint.address());
            endpoint.remember(core);
            LaneState lane = new StubLane(StubLane.LEAST_PAYLOAD).addTo(core, 0);
            MemoryRegion region = endpoint.allocate(8);
            lane.pollToken.take();
            assertThatThrownBy(region::close)
                    .isInstanceOf(TelpherException.RegionBusy.class)
                    .hasMessageContaining(lane.name())
                    .hasMessageContaining("close it again later");
            assertThat(region.segment().byteSize()).as("the memory is there").isEqualTo(8);
            region.segment().fill((byte) 1);
            lane.pollToken.giveBack();
            region.close();
        }
    }

    @Test
    @Timeout(30)
    void aLaneThatIsHeldLeavesThePeersNoWindow() {
        EndpointOptions options =
                Loopback.OPTIONS
                        .withTransports(List.of("shm", "tcp"))
                        .withDrainLimit(Duration.ofMillis(200));
        try (EndpointImpl owner = new EndpointImpl(options);
                EndpointImpl peer = new EndpointImpl(options)) {
            Connection connection = peer.connect(owner.address(), Duration.ofSeconds(10));
            MemoryRegion source = peer.allocate(8);
            MemoryRegion target = owner.allocate(8);
            connection.write(source.all(), target.remote()).await();
            ConnectionCore core = new ConnectionCore(owner, 99, owner.address());
            owner.remember(core);
            LaneState lane = new StubLane(StubLane.LEAST_PAYLOAD).addTo(core, 0);
            lane.pollToken.take();
            assertThatThrownBy(target::close).isInstanceOf(TelpherException.RegionBusy.class);
            Transfer late = connection.write(source.all(), target.remote());
            late.await(Duration.ofSeconds(10));
            assertThat(late.error()).isInstanceOf(TelpherException.StaleRegion.class);
            lane.pollToken.giveBack();
            target.close();
        }
    }

    @Test
    void allWhoCloseAtTheSameTimeHearOfABusyRegion() throws Exception {
        EndpointImpl endpoint =
                new EndpointImpl(Loopback.OPTIONS.withDrainLimit(Duration.ofSeconds(1)));
        RegionImpl region = (RegionImpl) endpoint.allocate(8);
        assertThat(region.enter()).isTrue();
        CompletableFuture<Throwable> first =
                CompletableFuture.supplyAsync(() -> catchThrowable(endpoint::close));
        while (!endpoint.isClosed()) {
            Thread.sleep(1);
        }
        assertThatThrownBy(endpoint::close)
                .isInstanceOf(TelpherException.RegionBusy.class)
                .hasMessageContaining("1 operations of this process");
        assertThat(first.get()).isInstanceOf(TelpherException.RegionBusy.class);
        endpoint.close(); // later: nothing
        region.exit();
        region.close();
    }
}

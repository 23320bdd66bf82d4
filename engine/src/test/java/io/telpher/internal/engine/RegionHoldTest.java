package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import java.time.Duration;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Slots of operations that stay counted into the region of their last one.
@Timeout(60)
class RegionHoldTest {
    private static ConnectionCore connection(EndpointImpl endpoint) {
        ConnectionCore core = Loopback.connection(endpoint, 1);
        endpoint.remember(core);
        LaneState unused = new StubLane(StubLane.LEAST_PAYLOAD).addTo(core, 0);
        return core;
    }

    private static RegionHold slot(ConnectionCore core) {
        return Objects.requireNonNull(core.table.take()).hold;
    }

    @Test
    void aSlotStaysCountedUntilAnotherRegionIsUsed() {
        try (EndpointImpl endpoint = Loopback.open()) {
            RegionHold slot = slot(connection(endpoint));
            RegionImpl one = (RegionImpl) endpoint.allocate(8);
            RegionImpl other = (RegionImpl) endpoint.allocate(8);
            for (int i = 0; i < 3; i++) {
                assertThat(slot.enter(one)).isTrue();
                assertThat(one.users).hasValue(1);
                slot.leave(true);
                assertThat(one.users).hasValue(1);
            }
            assertThat(slot.enter(other)).isTrue();
            assertThat(one.users).hasValue(0);
            assertThat(other.users).hasValue(1);
            slot.leave(false);
            assertThat(other.users).hasValue(0);
        }
    }

    @Test
    void whoeverClosesARegionHasIdleSlotsLetGoOfIt() {
        try (EndpointImpl endpoint = Loopback.open()) {
            ConnectionCore core = connection(endpoint);
            RegionHold slot = slot(core);
            RegionHold idle = slot(core);
            RegionImpl region = (RegionImpl) endpoint.allocate(8);
            assertThat(slot.enter(region)).isTrue();
            assertThat(idle.enter(region)).isTrue();
            idle.leave(true);
            slot.leave(true);
            region.close();
            assertThat(region.isUnused()).isTrue();
            assertThat(slot.enter(region)).isFalse();
            assertThat(region.isUnused()).isTrue();
        }
    }

    @Test
    void aSlotInUseKeepsItsRegionUntilItsOperationHasEnded() {
        try (EndpointImpl endpoint =
                new EndpointImpl(Loopback.OPTIONS.withDrainLimit(Duration.ofMillis(50)))) {
            RegionHold slot = slot(connection(endpoint));
            RegionImpl region = (RegionImpl) endpoint.allocate(8);
            assertThat(slot.enter(region)).isTrue();
            assertThatThrownBy(region::close)
                    .isInstanceOf(TelpherException.RegionBusy.class)
                    .hasMessageContaining("1 operations");
            slot.leave(true);
            region.close();
            assertThat(region.isUnused()).isTrue();
        }
    }

    @Test
    void nothingStaysWhenTheConnectionIsOver() {
        try (EndpointImpl endpoint = Loopback.open()) {
            ConnectionCore core = connection(endpoint);
            RegionHold slot = slot(core);
            RegionImpl region = (RegionImpl) endpoint.allocate(8);
            assertThat(slot.enter(region)).isTrue();
            slot.leave(true);
            core.close();
            assertThat(region.users).hasValue(0);
        }
    }
}

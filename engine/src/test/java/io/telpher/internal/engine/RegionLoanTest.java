package io.telpher.internal.engine;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.internal.memory.Lendable;
import io.telpher.spi.LocalRegion;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Memory that is used by its address when its region is closed.
@Timeout(60)
class RegionLoanTest {
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void itGoesWithTheLastLoan(boolean withEndpoint) {
        EndpointImpl endpoint = Loopback.open();
        try {
            MemoryRegion region = endpoint.allocate(64);
            MemorySegment bytes = region.segment();
            Lendable lendable = (Lendable) region;
            lendable.lend();
            assertThat(((LocalRegion) region).mayLinger()).isFalse();
            lendable.lend();
            if (withEndpoint) {
                endpoint.close();
            } else {
                region.close();
            }
            assertThat(region.isOpen()).isFalse();
            assertThatThrownBy(lendable::lend).isInstanceOf(TelpherException.Closed.class);
            lendable.giveBack();
            bytes.set(JAVA_BYTE, 63, (byte) 7);
            assertThat(bytes.get(JAVA_BYTE, 63)).isEqualTo((byte) 7);
            lendable.giveBack();
            assertThat(bytes.scope().isAlive()).isFalse();
        } finally {
            endpoint.close();
        }
    }

    @Test
    void itGoesWithTheRegionWhenItWasGivenBackBefore() {
        try (EndpointImpl endpoint = Loopback.open()) {
            MemoryRegion region = endpoint.allocate(64);
            MemorySegment bytes = region.segment();
            ((Lendable) region).lend();
            ((Lendable) region).giveBack();
            assertThat(((LocalRegion) region).mayLinger()).isTrue();
            assertThat(bytes.scope().isAlive()).isTrue();
            region.close();
            assertThat(bytes.scope().isAlive()).isFalse();
        }
    }
}

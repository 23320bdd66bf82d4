package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/// Several threads close an endpoint.
class EndpointCloseTest {
    @Test
    void allWhoCloseAtTheSameTimeHearOfABusyRegion() throws Exception {
        EndpointImpl endpoint =
                new EndpointImpl(
                        EndpointOptions.DEFAULTS
                                .withTransports(List.of("tcp"))
                                .withInterfaces(List.of("lo"))
                                .withDrainLimit(Duration.ofSeconds(1)));
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

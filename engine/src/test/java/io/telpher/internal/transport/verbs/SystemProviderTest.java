package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.verbs.VerbsDevices;
import io.telpher.internal.ffi.verbs.VerbsDevices.Device;
import io.telpher.spi.Availability;
import java.util.List;
import org.junit.jupiter.api.Test;

/// What is said of a machine's devices. Needs none.
class SystemProviderTest {
    private static final Device EFA =
            new Device(
                    "efa_0",
                    VerbsDevices.IBV_NODE_UNSPECIFIED,
                    VerbsDevices.IBV_TRANSPORT_UNSPECIFIED);
    private static final Device SIW =
            new Device("siw0", VerbsDevices.IBV_NODE_RNIC, VerbsDevices.IBV_TRANSPORT_IWARP);
    private static final Device MLX =
            new Device("mlx5_0", VerbsDevices.IBV_NODE_CA, VerbsDevices.IBV_TRANSPORT_IB);

    @Test
    void devicesOfOtherTransportsAreNamed() {
        assertThat(SystemProvider.availability(List.of(EFA, MLX)))
                .isEqualTo(new Availability.Available("mlx5_0"));
        assertThat(SystemProvider.availability(List.of(EFA, SIW)))
                .isInstanceOfSatisfying(
                        Availability.Missing.class,
                        missing ->
                                assertThat(missing.toString())
                                        .contains("efa_0 (a transport of its own, such as EFA's)")
                                        .contains("siw0 (iWARP)"));
        assertThat(SystemProvider.availability(List.of()).toString())
                .contains("libibverbs sees no RDMA device");
    }
}

package io.telpher.internal.ffi.hip;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.spi.Availability;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// As far as it goes without hardware.
class HipTest {
    @BeforeEach
    void needsTheRuntime() {
        assumeThat(Hip.has("hipInit"))
                .as("no HIP runtime: install the package libamdhip64-5")
                .isTrue();
    }

    @Test
    void withoutAGpuItSaysSo() {
        assumeThat(Hip.tryDeviceCount()).as("there is an AMD GPU").isNotPositive();
        assertThat(Hip.availability())
                .isInstanceOfSatisfying(
                        Availability.Missing.class,
                        missing -> {
                            assertThat(missing.reason()).contains("libamdhip64", "sees no device");
                            assertThat(missing.remedy()).contains("rocminfo");
                        });
        assertThat(Hip.tryDeviceCount()).isEqualTo(-Hip.hipErrorNoDevice);
    }

    @Test
    void everyFunctionIsThere() {
        assertThat(Hip.has("hipGetDeviceCount")).isTrue();
        assertThat(Hip.has("hipRuntimeGetVersion")).isTrue();
        assertThat(Hip.has("hipDeviceGetUuid")).isTrue();
        assertThat(Hip.has("hipDeviceGetPCIBusId")).isTrue();
    }

    @Test
    void errorsHaveNames() {
        assertThat(Hip.describe(Hip.hipErrorNoDevice)).startsWith("hipErrorNoDevice (100, ");
        assertThat(Hip.describe(-Hip.hipErrorInvalidDevice))
                .startsWith("hipErrorInvalidDevice (101, ");
    }
}

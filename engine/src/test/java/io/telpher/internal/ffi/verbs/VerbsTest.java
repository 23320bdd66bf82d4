package io.telpher.internal.ffi.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.Availability;
import org.junit.jupiter.api.Test;

/// What holds on every machine, with the library and devices or without.
class VerbsTest {
    @Test
    void aDeviceThatIsNotThereIsRefused() {
        switch (Verbs.availability()) {
            case Availability.Available(String detail) -> {
                assertThat(detail).contains("libibverbs.so.1");
                assertThatExceptionOfType(TelpherException.NativeFailure.class)
                        .isThrownBy(() -> VerbsDevices.open("nowhere0"))
                        .withMessageContaining("ibv_open_device(nowhere0)")
                        .satisfies(e -> assertThat(e.errno()).isEqualTo(Errno.ENODEV));
            }
            case Availability.Missing(String reason, String remedy) -> {
                assertThat(reason).containsAnyOf("libibverbs", "no RDMA in this kernel");
                assertThat(remedy).containsAnyOf("rdma-core", "ib_uverbs", "/dev/infiniband");
                assertThatThrownBy(() -> VerbsDevices.open("nowhere0"))
                        .isInstanceOfAny(
                                TelpherException.NativeFailure.class,
                                TelpherException.Unsupported.class);
            }
        }
    }
}

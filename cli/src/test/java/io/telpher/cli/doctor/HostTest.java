package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.Tool;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Files of the kernel are read as other programs read them.
class HostTest {
    @ParameterizedTest
    @ValueSource(
            strings = {
                "/proc/sys/net/ipv4/tcp_rmem",
                "/proc/sys/net/ipv4/tcp_available_congestion_control",
                "/proc/sys/kernel/osrelease",
                "/proc/self/cgroup",
                "/sys/devices/system/cpu/online",
            })
    void theKernelsFilesAreReadInWhole(String file) {
        String cat = Tool.run(List.of("cat", file), Map.of(), 20).text();
        assertThat(Host.here().read(file)).hasValue(cat.strip());
    }
}

package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.doctor.Finding.Severity;
import io.telpher.spi.Availability;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// What drivers do not say is no fault, and no fact either.
class GpuUnknownsTest {
    @TempDir Path folder;

    private final FakeProbes probes = new FakeProbes();

    private static GpuState gpu(int generation, int most, int width, int lanes, int dmaBuf) {
        return new GpuState(
                "GPU0",
                "H100",
                "GPU-1",
                "0000:18:00.0",
                generation,
                most,
                width,
                lanes,
                0,
                List.of(),
                Map.of(),
                true,
                128L << 30,
                80L << 30,
                false,
                null,
                dmaBuf,
                1);
    }

    private Finding first(Check check, GpuState gpu, Nic... nics) {
        probes.gpus =
                new Probes.Gpus(
                        Map.of(GpuState.NVML, new Availability.Available("NVML")),
                        List.of(gpu),
                        List.of());
        return check.examine(new Host(folder, Map.of(), List.of(nics), probes)).getFirst();
    }

    @ParameterizedTest
    @CsvSource({
        "0, 5, 0, 16, INFO, its PCIe link is not known in full",
        "5, 5, 0, 16, INFO, its PCIe link is not known in full",
        "0, 5, 16, 16, INFO, its PCIe link is not known in full",
        "5, 0, 16, 16, INFO, its PCIe link is not known in full",
        "1, 5, 0, 16, INFO, 'PCIe Gen1 x? now, Gen5 at most'",
        "0, 5, 4, 16, WARNING, uses 4 of the 16 lanes that it could",
    })
    void aLinkThatNvmlDoesNotTellInFullIsNotLoaded(
            int generation, int most, int width, int lanes, Severity severity, String summary) {
        probes.loaded = new Probes.Loaded(null, 1, 1);
        Finding link = first(new GpusCheck(), gpu(generation, most, width, lanes, 0));
        assertThat(link.severity()).isEqualTo(severity);
        assertThat(link.summary()).contains(summary).doesNotContain("under load too");
        assertThat(probes.putUnderLoad).isEmpty();
    }

    @Test
    void afterTheLimitNoOtherLinkIsLoaded() {
        GpuState gpu = gpu(1, 5, 16, 16, 0);
        assertThat(LinksUnderLoad.watch(List.of(gpu), Duration.ZERO))
                .containsOnlyKeys(gpu.address())
                .containsValue(new Probes.Loaded("not tried, the GPUs before it took 0 s", 0, 0));
    }

    @ParameterizedTest
    @ValueSource(strings = {"unknown", "EOPNOTSUPP"})
    void headerSplitThatNobodyTellsIsNotMissing(String split) throws IOException {
        Files.createDirectories(folder.resolve("sys/class/net/eth0/device/net"));
        probes.bindsQueues = true;
        probes.headerSplit.put("eth0", split);
        Nic nic = new Nic("eth0", false, List.of());
        String unknown =
                "; whether a NIC splits headers is not known: eth0: driver unknown,"
                        + " tcp-data-split "
                        + split;
        assertThat(first(new DeviceTcpCheck(), gpu(5, 5, 16, 16, 1), nic).summary())
                .startsWith("TCP into memory of GPUs may be possible")
                .contains(unknown)
                .doesNotContain("no NIC");
        probes.bindsQueues = false;
        assertThat(first(new DeviceTcpCheck(), gpu(5, 5, 16, 16, 1), nic).summary())
                .startsWith("no TCP into memory of GPUs here, there is no kernel")
                .contains(unknown)
                .doesNotContain("no NIC");
    }

    @Test
    void aDmaBufThatNobodyTellsOfIsNotMissing() throws IOException {
        Files.createDirectories(folder.resolve("sys/class/net/eth0/device/net"));
        probes.bindsQueues = true;
        probes.headerSplit.put("eth0", "on");
        Nic nic = new Nic("eth0", false, List.of());
        assertThat(first(new DeviceTcpCheck(), gpu(5, 5, 16, 16, -1), nic).summary())
                .startsWith("TCP into memory of GPUs may be possible")
                .contains("; whether a GPU's memory can be a dma-buf is not known;");
    }
}

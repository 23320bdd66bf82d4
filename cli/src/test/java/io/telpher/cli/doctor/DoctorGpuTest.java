package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.FakeGpus;
import io.telpher.cli.JavaCommand;
import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Runs `telpher doctor` on the fake drivers of the engine's tests.
class DoctorGpuTest {
    @TempDir static Path built;

    @BeforeAll
    static void build() throws IOException {
        FakeGpus.build(built);
    }

    /// What it says of the GPUs, as far as `checks` look at them.
    private static String doctor(String checks, Map<String, String> environment) {
        Tool.Output output =
                Tool.run(
                        JavaCommand.of(
                                FakeGpus.jvmArguments(built),
                                "doctor",
                                "--verbose",
                                "--only=" + checks),
                        environment,
                        100);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        return output.text();
    }

    @Test
    void theDriversAreAsked() {
        assertThat(
                        doctor(
                                "gpu-driver,gpus,nvlink,gpudirect",
                                Map.of("FAKE_NVML_SWITCH", "1", "FAKE_CUDA_DMABUF", "1")))
                .contains("NVML: works", "NVML 13.580.0.fake", "CUDA driver: works")
                .contains("GPU0 (Fake GPU, 0000:", "PCIe Gen1 under load, though GPU and slot")
                .contains("width 16 of 16; under load: generation 1, width 16")
                .contains(
                        "GPU1: all of its memory can be reached over PCIe",
                        "128 GiB; memory: 1 GiB")
                .contains("GPU0: all 2 NVLinks are up", "link 1 recovery: 8589934592")
                .contains("GPU1 is registered with the NVSwitches' fabric", "it stages such bytes")
                .contains("GPU0 yes, GPU1 yes")
                .doesNotContain("check itself failed", "CRC of data");
    }

    @Test
    void linksAreLookedAtWhileASecondProcessCopies() {
        assertThat(doctor("gpus", Map.of("FAKE_NVML_AWAKE", built.resolve("awake-").toString())))
                .contains(
                        "PCIe Gen5 x16 under load, which is its maximum",
                        "generation 1 of 5, width 16 of 16; under load: generation 5, width 16",
                        "0 warnings");
    }

    @Test
    void whatCannotBePutUnderLoadIsToldWithTheReason() {
        assertThat(doctor("gpus", Map.of("FAKE_CUDA_MEMORY_MIB", "8")))
                .contains("PCIe Gen1 x16 now, Gen5 at most: idle links slow down by themselves")
                .containsPattern("under load: not known, .*CUDA_ERROR_OUT_OF_MEMORY");
    }

    @Test
    void copiesThatEndEarlySayNothingOfTheLink() {
        assertThat(doctor("gpus", Map.of("FAKE_CUDA_FAULT", "cuMemcpyAsync:3:999")))
                .containsPattern("GPU0 .*idle links slow down by themselves")
                .containsPattern("under load: not known, .*cuMemcpyAsync.* failed: CUDA error 999")
                .as("the same process copies to the next one")
                .containsPattern("GPU1 .*PCIe Gen1 under load, though GPU and slot");
    }

    @Test
    void linksThatNvmlStopsTellingOfAreNotKnown() {
        assertThat(doctor("gpus", Map.of("FAKE_NVML_WIDTHS", "2")))
                .contains("under load: not known, NVML did not tell the link's generation")
                .contains("0 warnings");
    }
}

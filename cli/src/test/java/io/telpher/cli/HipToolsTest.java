package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What tools say of AMD GPUs, by the fake HIP runtime of the engine's tests.
class HipToolsTest {
    @TempDir private static Path built;

    @BeforeAll
    static void build() {
        assumeThat(Tool.find("gcc")).as("gcc is missing (packages gcc, libc6-dev)").isNotNull();
        Tool.Output output =
                Tool.run(
                        List.of(
                                "gcc",
                                "-shared",
                                "-fPIC",
                                "-pthread",
                                "-o",
                                library(),
                                Script.engineResource("fake-hip/fake_hip.c").toString()),
                        Map.of(),
                        100);
        assertThat(output.exitCode()).as(output.error()).isZero();
    }

    private static String library() {
        return built.resolve("libamdhip64.so.6").toString();
    }

    private static String said(int devices, String... arguments) {
        Tool.Output output =
                Tool.run(
                        JavaCommand.of(List.of("-Dtelpher.hip.library=" + library()), arguments),
                        Map.of("FAKE_HIP_DEVICES", Integer.toString(devices)),
                        100);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        return output.text();
    }

    @Test
    void doctorAndTopoSeeThem() {
        assertThat(said(2, "doctor", "--verbose", "--only=gpu-driver"))
                .contains("HIP: works; that Telpher works with it is unproven")
                .contains("HIP 6.2 (" + library() + "), 2 devices");
        assertThat(said(2, "topo"))
                .contains("note: HIP 6.2 (" + library() + "), 2 devices; unproven with Telpher");
    }

    @Test
    void doctorSaysThatThereIsNone() {
        assertThat(said(0, "doctor", "--verbose", "--only=gpu-driver"))
                .contains("HIP: not here", "the HIP runtime (" + library() + ") sees no device");
    }
}

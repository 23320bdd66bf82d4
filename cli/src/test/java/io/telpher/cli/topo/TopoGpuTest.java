package io.telpher.cli.topo;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.FakeGpus;
import io.telpher.cli.JavaCommand;
import io.telpher.cli.Json;
import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Runs `telpher topo` on the fake drivers of the engine's tests.
class TopoGpuTest {
    @TempDir static Path built;

    @BeforeAll
    static void build() throws IOException {
        FakeGpus.build(built);
    }

    private static Tool.Output topo(Map<String, String> environment, String... arguments) {
        List<String> all = new ArrayList<>(List.of("topo"));
        all.addAll(List.of(arguments));
        return Tool.run(
                JavaCommand.of(FakeGpus.jvmArguments(built), all.toArray(String[]::new)),
                environment,
                100);
    }

    @Test
    void pairsAreMeasuredUnlessTheDriverRefuses() {
        Tool.Output output =
                topo(
                        Map.of("FAKE_CUDA_DEVICES", "3", "FAKE_CUDA_REFUSE_PEERS", "0-2"),
                        "--measure");
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text())
                .containsPattern("GPU0 +X +rwa +---\n")
                .contains("GPU0 to GPU2: no read, write, atomics: the driver has no peer access")
                .containsPattern("GB/s: 64 MiB.*\n +GPU0 +GPU1 +GPU2\nGPU0 +X +[0-9.]+ +-\n")
                .containsPattern("us: 8 bytes.*\n.*\nGPU0 +X +[0-9.]+ +-\n")
                .contains("GPU2 to GPU0: the driver has no peer access between device");
    }

    @Test
    void bytesThatArriveWrongAreAFault() {
        Tool.Output output = topo(Map.of("FAKE_CUDA_CORRUPT_PEERS", "0-1"), "--measure", "--json");
        assertThat(output.exitCode()).as(output.error() + output.text()).isOne();
        List<Map<String, Object>> lines = output.text().lines().map(Json::parse).toList();
        assertThat(lines)
                .filteredOn(line -> "peer".equals(line.get("kind")))
                .hasSize(2)
                .allMatch(line -> Boolean.TRUE.equals(line.get("write")));
        assertThat(lines)
                .filteredOn(line -> "measured".equals(line.get("kind")))
                .hasSize(2)
                .allMatch(line -> !line.containsKey("GBps"))
                .allMatch(line -> Boolean.TRUE.equals(line.get("fault")))
                .allMatch(line -> line.get("reason").toString().contains("are wrong"));
    }

    @Test
    void afterAFailedCopyNoGpuIsTrusted() {
        Tool.Output output =
                topo(Map.of("FAKE_CUDA_FAULT", "cuMemcpyAsync:5:700:sticky"), "--measure");
        assertThat(output.exitCode()).as(output.error() + output.text()).isOne();
        assertThat(output.text())
                .contains("GPU0 to GPU1: cuMemcpyAsync", "CUDA_ERROR_ILLEGAL_ADDRESS")
                .contains("GPU1 to GPU0: not measured after");
    }

    @Test
    void aFileOfAnotherMachineIsNotMeasured() {
        Tool.Output output = topo(Map.of(), "--measure", "--from", "machine.xml");
        assertThat(output.exitCode()).isEqualTo(2);
        assertThat(output.error()).contains("leave out --from");
    }
}

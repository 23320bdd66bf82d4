package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.FakeGpus;
import io.telpher.cli.JavaCommand;
import io.telpher.cli.Json;
import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Runs `telpher bench` on the fake GPU driver of the engine's tests, two GPUs, one for each of two
/// processes.
class GpuBenchTest {
    @TempDir static Path built;
    @TempDir Path temp;

    @BeforeAll
    static void build() throws IOException {
        FakeGpus.build(built);
    }

    @Test
    void measuresMemoryOfGpusAndTheDriverAlone() throws IOException {
        Path json = temp.resolve("out.json");
        String text =
                succeed(
                        "--memory=cuda",
                        "--op=write,send",
                        "--sizes=64000",
                        "--pieces=10",
                        "--depth=1,4",
                        "--compare=cuda",
                        "--json=" + json);
        assertThat(text)
                .contains("rank 1: Fake GPU", "path cuda-cumem (shm), cuda:cuda memory")
                .contains("path tcp (tcp), cuda:cuda memory", "cuda peer copy", "all data right");
        List<Map<String, Object>> rows = rows(json);
        assertThat(rows)
                .allSatisfy(
                        row ->
                                assertThat(row)
                                        .containsEntry("device", "Fake GPU")
                                        .containsEntry("memory", "cuda:cuda")
                                        .containsEntry("wrong", 0L)
                                        .containsEntry("pieces", 10L));
        assertThat(rows).extracting(row -> row.get("system")).contains("telpher", "cuda");
        assertThat(rows)
                .extracting(row -> row.get("tool"))
                .contains("bench", "peer copy, one by one", "peer copy, batch, streams 4");
    }

    @Test
    void writesInFlightArePostedAsOneList() throws IOException {
        Path json = temp.resolve("out.json");
        String text =
                succeed(
                        "--memory=cuda",
                        "--path=cuda-cumem",
                        "--op=write",
                        "--sizes=8,64K",
                        "--depth=1,16",
                        "--list",
                        "--json=" + json);
        assertThat(text).contains("all data right");
        List<Map<String, Object>> rows = rows(json);
        assertThat(rows)
                .hasSize(4)
                .allSatisfy(
                        row -> {
                            boolean list = row.get("depth").equals(16L);
                            assertThat(row).containsEntry("wrong", 0L);
                            assertThat(String.valueOf(row.get("settings")))
                                    .matches(settings -> settings.contains("one list") == list);
                        });
    }

    @Test
    void foreignMemoryIsLentByCudaIpcAndWrongBytesAreFound() {
        Tool.Output output =
                fail(
                        Map.of(),
                        "--memory=cuda-foreign",
                        "--path=cuda-ipc",
                        "--op=write",
                        "--sizes=4K,64K",
                        "--depth=1",
                        "--plant=65536");
        assertThat(output.text()).contains("path cuda-ipc (shm)");
        assertThat(output.error()).contains("wrong data", "byte 32768 of what rank 1 got");
    }

    @Test
    void hostMemoryBesideItIsPageLocked() {
        String text =
                succeed(
                        "--memory=cuda:pinned",
                        "--op=write,counter",
                        "--sizes=64K",
                        "--compare=cuda");
        assertThat(text).contains("cuda:pinned memory", "D2H pinned", "all data right");
    }

    @Test
    void aWayThatTheDriverRefusesIsNotMeasuredUnderItsName() {
        Tool.Output output =
                fail(
                        Map.of("FAKE_CUDA_REFUSE_PEERS", "0-1"),
                        "--memory=cuda",
                        "--path=cuda-cumem",
                        "--op=write",
                        "--sizes=8");
        assertThat(output.error())
                .contains("path cuda-cumem: no write of cuda:cuda memory", "no peer access");
    }

    @Test
    void aThirdGpuCopiesWhereItIsAskedFor() {
        String text =
                succeed(
                        Map.of("FAKE_CUDA_DEVICES", "3", "FAKE_CUDA_REFUSE_PEERS", "0-1"),
                        "--path=cuda-via-gpu",
                        "--op=write,read",
                        "--sizes=64K,9M",
                        "--depth=1");
        assertThat(text).contains("path cuda-via-gpu (shm), cuda:cuda memory", "all data right");
    }

    @Test
    void everyGpuOfAHostReachesEveryGpuOfTheOther() throws Exception {
        List<String> flags = List.of("-Dtelpher.cuda.library=" + built.resolve("libcuda.so.1"));
        try (MeshPair pair = new MeshPair(temp, Map.of(), flags, List.of(), "--listen")) {
            MeshPair.Outputs outputs =
                    pair.succeed("--sizes=64000", "--mode=all", "--seconds=0.05");
            assertThat(outputs.connecting().text()).contains("from GPU 0, GPU 1 to GPU 0, GPU 1");
            assertThat(pair.logs().resolve("fullmesh_1_0.log"))
                    .content()
                    .contains("# GPU 1 = Fake GPU", "path tcp");
            assertThat(pair.json()).content().contains("\"memory\":\"cuda:cuda\"");
        }
    }

    /// The measured rows of what `--json` wrote.
    private static List<Map<String, Object>> rows(Path json) throws IOException {
        return Files.readAllLines(json).stream()
                .map(Json::parse)
                .filter(line -> line.containsKey("system"))
                .toList();
    }

    private static String succeed(String... arguments) {
        return succeed(Map.of(), arguments);
    }

    private static String succeed(Map<String, String> environment, String... arguments) {
        return bench(0, environment, arguments).text();
    }

    private static Tool.Output fail(Map<String, String> environment, String... arguments) {
        return bench(1, environment, arguments);
    }

    private static Tool.Output bench(
            int exitCode, Map<String, String> environment, String... arguments) {
        List<String> all = new ArrayList<>(List.of("bench", "--seconds=0.02", "--warm-up=0.05"));
        all.addAll(List.of("--rounds=1", "--patience=0"));
        all.addAll(List.of(arguments));
        List<String> command =
                JavaCommand.of(FakeGpus.jvmArguments(built), all.toArray(String[]::new));
        Tool.Output output = Tool.run(command, environment, 120);
        assertThat(output.exitCode()).as(output.error() + output.text()).isEqualTo(exitCode);
        return output;
    }
}

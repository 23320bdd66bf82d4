package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.Endpoint;
import io.telpher.cli.JavaCommand;
import io.telpher.cli.Json;
import io.telpher.cli.Tool;
import io.telpher.cli.TwoNamespaces;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/// Runs `telpher fullmesh` as two processes of this host, with host memory for GPUs.
class FullmeshCommandTest {
    private static final String RANKS = "--ranks=2";
    private static final String SIZES = "--sizes=64000";
    private static final Pattern PERF = Pattern.compile("PERF.*Avg.*BW:");

    @TempDir Path temp;

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "--listen --connect=localhost:1",
                "--listen --sizes=1M",
                "--listen --wait=0",
                "--connect=nowhere",
                "--connect=telpher1:AAAA",
                "--connect=localhost:1",
                "--listen --memory=moon",
                "--listen --ranks=0",
                "--listen --ranks=2 --gpus=2",
                "--listen --ranks=2 --gpus=1,1",
                "--listen --ranks=2 --memory=cuda",
                "server",
                "server one",
                "server 0",
                "client 10.0.0.1",
                "client 10.0.0.1 0",
                "server 0 --listen"
            })
    void wrongUsageIsNamedAndEndsWithTwo(String arguments) {
        StringWriter errors = new StringWriter();
        CommandLine line = new CommandLine(new FullmeshCommand()).setErr(new PrintWriter(errors));
        line.setExpandAtFiles(false);
        String[] words = arguments.isEmpty() ? new String[0] : arguments.split(" ");
        assertThat(line.execute(words)).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).isNotBlank().doesNotContain("\tat ").doesNotContain("AAAA");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "--sizes=0",
                "--sizes=8X",
                "--depth=0",
                "--seconds=0",
                "--seconds=NaN",
                "--lanes=0",
                "--lanes=65",
                "--mode=some",
                "--processes=many",
                "--transport=pigeon",
                "--address-file=there"
            })
    void whatTheConnectingHostDecidesIsChecked(String option) throws Exception {
        Path address = temp.resolve("address");
        try (Endpoint endpoint = Endpoint.open()) {
            Files.writeString(address, endpoint.address().text());
        }
        StringWriter errors = new StringWriter();
        CommandLine line = new CommandLine(new FullmeshCommand()).setErr(new PrintWriter(errors));
        line.setExpandAtFiles(false);
        assertThat(line.execute("--connect=@" + address, "--ranks=1", option))
                .isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).contains(option.startsWith("--sizes=8X") ? "8X" : "--");
    }

    @Test
    void lanesAreWhatTheOptionSaysOrElseTheVariableOfTheFormerLauncher() {
        Map<String, String> channels = Map.of(FullmeshOptions.CHANNELS, "8");
        assertThat(FullmeshOptions.lanes(null, Map.of())).isZero();
        assertThat(FullmeshOptions.lanes(null, channels)).isEqualTo(8);
        assertThat(FullmeshOptions.lanes(3, channels)).isEqualTo(3);
        assertThatIllegalArgumentException()
                .isThrownBy(
                        () -> FullmeshOptions.lanes(null, Map.of(FullmeshOptions.CHANNELS, "many")))
                .withMessageContaining("UCCL_TCPX_NUM_CHANNELS is 'many'");
    }

    @Test
    void noTwoWritesCarryTheSameBytesOrGoToTheSamePlace() {
        MeshLayout layout = new MeshLayout(5000, 3, 4, 2);
        List<Long> origins =
                Stream.of(0, 1)
                        .flatMap(target -> Stream.of(0, 1, 2).map(s -> layout.origin(target, s)))
                        .toList();
        assertThat(origins).doesNotHaveDuplicates().allMatch(o -> o % 8 == 0);
        assertThat(origins).allMatch(o -> o + 5000 <= layout.sourceBytes());
        List<Long> landings =
                Stream.of(0, 1, 2, 3)
                        .flatMap(source -> Stream.of(0, 1, 2).map(s -> layout.landing(source, s)))
                        .sorted()
                        .toList();
        for (int i = 1; i < landings.size(); i++) {
            assertThat(landings.get(i) - landings.get(i - 1)).isGreaterThanOrEqualTo(5000);
        }
        assertThat(landings.getLast() + 5000).isLessThanOrEqualTo(layout.targetBytes());
    }

    @ParameterizedTest
    @ValueSource(strings = {"one", "per-gpu"})
    void everyRankWritesToEveryRankOfTheOtherHost(String processes) throws Exception {
        try (MeshPair pair = new MeshPair(temp, "--listen", RANKS)) {
            MeshPair.Outputs outputs =
                    pair.succeed(
                            RANKS,
                            "--processes=" + processes,
                            "--sizes=8,64000",
                            "--depth=3",
                            "--lanes=2",
                            "--seconds=0.1");
            assertThat(outputs.connecting().text())
                    .contains("all pairs at once, writes of 64000, 3 in flight")
                    .contains("pair by pair, writes of 8, 3 in flight")
                    .containsPattern("  rank 1 +[0-9.]+ +[0-9.]+ +[0-9.]+\n")
                    .containsPattern("all together: [0-9.]+ GB/s, \\d+ writes");
            assertThat(outputs.listening().text())
                    .contains("2 ranks of host memory here, 2 there, processes: " + processes);
            assertThat(pair.address()).doesNotExist();
            for (String name : List.of("0_0", "0_1", "1_0", "1_1")) {
                List<String> lines =
                        Files.readAllLines(pair.logs().resolve("fullmesh_" + name + ".log"));
                assertThat(lines).hasSize(5);
                assertThat(lines.getFirst()).startsWith("# rank " + name.charAt(0));
                assertThat(lines.subList(1, 5))
                        .allMatch(line -> PERF.matcher(line).find())
                        .allMatch(line -> line.contains("rank 0") || line.contains("rank 1"))
                        .allMatch(line -> line.contains("path tcp"));
            }
            List<Map<String, Object>> rows =
                    Files.readAllLines(pair.json()).stream().map(Json::parse).toList();
            assertThat(rows).hasSize(2 * (4 + 1 + 4));
            assertThat(rows)
                    .allSatisfy(
                            row ->
                                    assertThat(row)
                                            .containsEntry("system", "telpher")
                                            .containsEntry("tool", "fullmesh")
                                            .containsEntry("path", "tcp")
                                            .containsEntry("wrong", 0L)
                                            .containsKeys("GBps", "from", "to", "iterations"));
        }
    }

    @Test
    void aWrongByteEndsItAndNamesThePair() throws Exception {
        try (MeshPair pair = new MeshPair(temp, "--listen", RANKS)) {
            MeshPair.Outputs outputs = pair.run(RANKS, SIZES, "--plant=1", "--seconds=0.05");
            assertThat(outputs.connecting().exitCode()).isOne();
            assertThat(outputs.connecting().error())
                    .contains("wrong data: rank 1 -> rank 0: byte 0 of write 0 of 64000 is wrong");
            assertThat(outputs.connecting().text()).doesNotContain("all data right");
            assertThat(outputs.listening().exitCode()).isOne();
            assertThat(outputs.listening().error()).contains("rank 1 -> rank 0: byte 0");
            assertThat(pair.logs().resolve("fullmesh_1_0.log")).content().contains("[FAIL]");
        }
    }

    @Test
    void theFormsOfTheFormerLauncherMeetEachOther() throws Exception {
        int gpu = 100 + (int) (ProcessHandle.current().pid() % 800);
        String number = Integer.toString(gpu);
        Map<String, String> secret =
                Map.of("TELPHER_SECRET", "0123456789abcdef", "UCCL_TCPX_NUM_CHANNELS", "3");
        String[] server = {"server", number, "--ranks=1000"};
        try (MeshPair pair = new MeshPair(temp, secret, List.of(), List.of(), server)) {
            Process client =
                    pair.connect(
                            List.of(),
                            "client",
                            "127.0.0.1",
                            number,
                            "--ranks=1000",
                            "--mode=all",
                            SIZES,
                            "--seconds=0.05");
            Tool.Output output = Tool.await(client, 60);
            assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
            assertThat(Tool.await(pair.listener, 20).exitCode()).isZero();
            String log = "fullmesh_%d_%d.log".formatted(gpu, gpu);
            assertThat(pair.logs().resolve(log)).content().containsPattern(PERF);
            assertThat(pair.json()).content().contains("\"lanes\":");
        }
    }

    @Test
    void whereNobodyIsThatIsTheEnd() throws Exception {
        Tool.Output alone =
                Tool.run(
                        MeshPair.command(
                                List.of(),
                                "--listen",
                                "--wait=1",
                                "--address-file=" + temp.resolve("address")),
                        Map.of(),
                        60);
        assertThat(alone.exitCode()).isOne();
        assertThat(alone.error()).contains("nobody has connected within 1 s");
        int port = Ports.free();
        Tool.Output refused =
                Tool.run(
                        MeshPair.command(List.of(), "--connect=127.0.0.1:" + port, "--wait=2"),
                        Map.of("TELPHER_SECRET", "0123456789abcdef"),
                        60);
        assertThat(refused.exitCode()).isOne();
        assertThat(refused.error()).contains("cannot connect to 127.0.0.1:" + port);
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aHostThatDiesEndsTheOther(boolean listening) throws Exception {
        try (MeshPair pair = new MeshPair(temp, "--listen", RANKS)) {
            Process connecting =
                    pair.connect(
                            List.of(),
                            "--connect=@" + pair.address(),
                            RANKS,
                            SIZES,
                            "--seconds=40",
                            "--mode=all");
            try {
                for (int i = 0; i < 600 && !Files.exists(pair.logs()); i++) {
                    Thread.sleep(50);
                }
                Thread.sleep(600); // in or after the round that warms up
                (listening ? pair.listener : connecting).destroyForcibly();
                Tool.Output other = Tool.await(listening ? connecting : pair.listener, 60);
                assertThat(other.exitCode()).as(other.error() + other.text()).isOne();
                assertThat(other.error()).contains("telpher fullmesh: ");
                assertThat(other.text()).doesNotContain("all data right");
            } finally {
                Tool.end(connecting);
            }
        }
    }

    @Test
    void anotherCommandThatListensSaysSo() throws Exception {
        Path address = temp.resolve("bench");
        List<String> bench = JavaCommand.of(List.of(), "bench", "--listen=" + address);
        Process listener = Tool.start(bench, Map.of());
        try {
            for (int i = 0; i < 600 && !Files.exists(address); i++) {
                Thread.sleep(50);
            }
            Tool.Output output =
                    Tool.run(
                            MeshPair.command(List.of(), "--connect=@" + address, RANKS),
                            Map.of(),
                            60);
            assertThat(output.exitCode()).isOne();
            assertThat(output.error()).contains("the other host: 'mesh' is no message");
        } finally {
            Tool.end(listener);
        }
    }

    @Test
    void twoNetworkNamespacesAreTwoHosts() throws Exception {
        String missing = TwoNamespaces.missing();
        assumeTrue(missing == null, missing);
        try (TwoNamespaces hosts = TwoNamespaces.create("tlpm");
                MeshPair pair =
                        new MeshPair(
                                temp,
                                Map.of(),
                                List.of(),
                                TwoNamespaces.in(hosts.there()),
                                "--listen",
                                RANKS)) {
            pair.succeed(
                    TwoNamespaces.in(hosts.here()), RANKS, SIZES, "--mode=all", "--seconds=0.2");
            assertThat(pair.logs().resolve("fullmesh_1_0.log")).content().containsPattern(PERF);
        }
    }
}

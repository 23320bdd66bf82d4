package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.Device;
import io.telpher.cli.Json;
import io.telpher.cli.Main;
import io.telpher.cli.Tool;
import io.telpher.cli.TwoNamespaces;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.IoVec;
import io.telpher.internal.ffi.linux.Processes;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/// Runs `telpher bench` as a process of its own.
class BenchCommandTest {
    @TempDir Path temp;

    @ParameterizedTest
    @ValueSource(
            strings = {
                "--sizes=8X",
                "--sizes=0",
                "--sizes=100 --pieces=64",
                "--op=notify --pieces=8",
                "--op=counter --pieces=8",
                "--lanes=-1",
                "--lanes=65",
                "--idle=0",
                "--seconds=-1",
                "--warm-up=NaN",
                "--background=write:0",
                "--op=frobnicate",
                "--depth=0",
                "--memory=moon",
                "--memory=pinned",
                "--memory=telpher:pinned",
                "--path=mapped --memory=foreign",
                "--pattern=star",
                "--ranks=3",
                "--background=send:8",
                "--compare=nobody",
                "--install-peers=ucx",
                "--figures=nothing",
                "--connect=telpher1:AAAA",
                "--connect=nowhere",
                "--target=sleep"
            })
    void wrongOptionsAreNamedAndEndWithTwo(String option) {
        StringWriter errors = new StringWriter();
        CommandLine line = new CommandLine(new BenchCommand()).setErr(new PrintWriter(errors));
        assertThat(line.execute(option.split(" "))).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).isNotBlank().doesNotContain("\tat ").doesNotContain("AAAA");
    }

    @Test
    void withoutAGpuThatIsTheOneThingThatIsSaid() {
        assumeTrue(Device.list().isEmpty(), "this machine has a GPU");
        StringWriter errors = new StringWriter();
        StringWriter text = new StringWriter();
        CommandLine line =
                new CommandLine(new BenchCommand())
                        .setErr(new PrintWriter(errors))
                        .setOut(new PrintWriter(text));
        assertThat(line.execute("--memory=cuda:pinned", "--compare=cuda")).isOne();
        assertThat(errors.toString().lines()).hasSize(1);
        assertThat(errors.toString()).contains("no device", "cuda");
    }

    @Test
    void helpExplainsTheColumns() {
        StringWriter text = new StringWriter();
        CommandLine line = new CommandLine(new BenchCommand()).setOut(new PrintWriter(text));
        assertThat(line.execute("--help")).isZero();
        assertThat(text.toString())
                .contains("--both-directions", "half of a ping-pong", "GB = 1e9 bytes");
    }

    @Test
    void measuresAndChecksBetweenTwoProcesses() throws IOException {
        assumeTrue(
                Files.exists(Path.of("/proc/self/status")),
                "needs Linux: there is no /proc/self/status");
        Path json = temp.resolve("out.json");
        Tool.Output output =
                bench(
                        Map.of(),
                        "--transport=shm,tcp",
                        "--op=write,read,send,notify,counter",
                        "--sizes=8,64K",
                        "--depth=1,4",
                        "--seconds=0.02",
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text())
                .contains("path mapped (shm)", "path shm-ring (shm)", "path tcp (tcp)")
                .contains("all data right");
        assertThat(output.text().contains("path cma (shm)")).isEqualTo(mayLookIntoOthers());
        List<String> lines = Files.readAllLines(json);
        assertThat(lines)
                .anyMatch(l -> l.contains("\"path\":\"mapped\"") && l.contains("\"op\":\"write\""));
        assertThat(lines)
                .anyMatch(l -> l.contains("\"path\":\"tcp\"") && l.contains("\"op\":\"counter\""));
        assertThat(lines)
                .filteredOn(l -> l.startsWith("{\"system\""))
                .allMatch(l -> l.endsWith("\"wrong\":0}"));
    }

    /// Whether this system lets a process read the memory of its children: the address is none, so
    /// that who may hears of that.
    private static boolean mayLookIntoOthers() throws IOException {
        Process other = new ProcessBuilder("sleep", "60").start();
        try (Arena arena = Arena.ofConfined()) {
            IoVec here = new IoVec(arena, 1);
            IoVec there = new IoVec(arena, 1);
            MemorySegment bytes = arena.allocate(8);
            here.add(bytes);
            there.add(8, 8);
            long result =
                    Processes.processVmReadv(
                            (int) other.pid(), here.segment(), 1, there.segment(), 1, bytes);
            assertThat(result).isNegative();
            return result == -Errno.EFAULT;
        } finally {
            other.destroyForcibly();
        }
    }

    @Test
    void writesTheLinesAsAReportToo() throws IOException {
        Path json = temp.resolve("out.json");
        Path html = temp.resolve("out.html");
        Tool.Output output =
                bench(
                        Map.of(),
                        "--path=mapped",
                        "--op=write",
                        "--sizes=8",
                        "--seconds=0.02",
                        "--html=" + html,
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text()).contains("report: " + html);
        assertThat(html).content().contains(Files.readAllLines(json)).contains("--sizes=8");
    }

    @Test
    void aReportThatCannotBeWrittenIsToldBeforeMeasuring() {
        Tool.Output output = bench(Map.of(), "--html=" + temp.resolve("no/such/folder.html"));
        assertThat(output.exitCode()).isEqualTo(1);
        assertThat(output.error()).contains("cannot write").contains("folder.html");
        assertThat(output.text()).doesNotContain("path mapped");
    }

    @Test
    void piecesAreScatteredAndChecked() {
        Tool.Output output =
                bench(
                        Map.of(),
                        "--path=mapped,tcp",
                        "--sizes=64K",
                        "--pieces=64",
                        "--depth=1,2",
                        "--seconds=0.02");
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text().lines().filter(l -> !l.startsWith("#")))
                .extracting(l -> l.strip().split(" +")[0])
                .containsExactly("write", "read", "send", "write", "read", "send");
        assertThat(output.text()).contains("all data right");
    }

    @Test
    void flowsRunAsTheOptionsSay() throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                bench(
                        Map.of(),
                        "--path=tcp",
                        "--op=write,read",
                        "--sizes=64K",
                        "--depth=2",
                        "--both-directions",
                        "--rails=lo",
                        "--lanes=2",
                        "--memory=foreign:telpher",
                        "--background=write:256K",
                        "--seconds=0.05",
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        List<String> lines = Files.readAllLines(json);
        assertThat(lines)
                .filteredOn(l -> l.startsWith("{\"system\""))
                .hasSize(2)
                .allMatch(l -> l.contains("both directions"))
                .allMatch(l -> l.contains("\"memory\":\"foreign:telpher\""))
                .allMatch(l -> l.contains("\"lanes\":2"));
        Map<String, Map<String, Object>> metrics = metrics(json);
        for (String op : List.of("write", "read")) {
            String load = "background load, write over tcp beside %s of 64K at depth 2";
            assertThat(value(metrics.get(load.formatted(op)), "value")).isPositive();
        }
    }

    @Test
    void aRailThatIsNotThereIsNamed() {
        Tool.Output output = bench(Map.of(), "--path=tcp", "--sizes=8", "--rails=moon0");
        assertThat(output.exitCode()).isEqualTo(1);
        assertThat(output.error()).contains("moon0");
    }

    @Test
    void idleConnectionsAreMetered() throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output = bench(Map.of(), "--idle=3", "--path=mapped,tcp", "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        Map<String, Map<String, Object>> metrics = metrics(json);
        for (String path : List.of("mapped", "tcp")) {
            String over = "3 idle connections over " + path;
            assertThat(value(metrics.get("processor share, " + over), "value")).isNotNegative();
            // Of two more connections that may be less than what the JVM gives back meanwhile.
            for (String memory :
                    List.of("heap per connection, ", "native memory per connection, ")) {
                assertThat(value(metrics.get(memory + over), "value")).isFinite();
            }
            assertThat(value(metrics.get("threads, " + over), "value")).isPositive();
        }
        assertThat(output.text())
                .contains("3 idle connections over mapped: ", "3 idle connections over tcp: ");
    }

    @ParameterizedTest
    @ValueSource(strings = {"ring", "all-to-all", "incast"})
    void aPatternRunsManyProcesses(String pattern) throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                bench(
                        Map.of(),
                        "--path=mapped",
                        "--op=write,notify",
                        "--sizes=4K",
                        "--depth=2",
                        "--pattern=" + pattern,
                        "--ranks=3",
                        "--seconds=0.05",
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text()).contains("3 ranks", "all data right");
        assertThat(json).content().contains(pattern + " of 3");
        assertThat(output.text().contains("fairness")).isEqualTo(pattern.equals("incast"));
    }

    @Test
    void theFirstWrongByteEndsItAndIsNamed() throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                bench(
                        Map.of(),
                        "--path=mapped,tcp",
                        "--op=write,send",
                        "--sizes=8,4K",
                        "--depth=4",
                        "--seconds=0.02",
                        "--plant=4096",
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isEqualTo(1);
        assertThat(output.error())
                .startsWith("telpher bench: wrong data: ")
                .contains("write of 4K", " over mapped", "byte 2048 of what rank 1 got from rank 0")
                .doesNotContain("\tat ");
        assertThat(output.text()).doesNotContain("path tcp", "all data right");
        List<String> rows =
                output.text().lines().filter(l -> !l.isBlank() && !l.startsWith("#")).toList();
        assertThat(rows).hasSize(2);
        assertThat(rows.getFirst()).matches(" +write +8 .* 0");
        assertThat(rows.getLast()).matches(" +write +4096 .* [1-9]\\d*");
        assertThat(Files.readAllLines(json)).hasSize(2).last().asString().contains("\"wrong\":");
    }

    @ParameterizedTest
    @ValueSource(strings = {"write", "send", "notify", "counter"})
    void aWrongByteOfAnyOperationEndsIt(String op) {
        StringWriter errors = new StringWriter();
        StringWriter text = new StringWriter();
        int code =
                new CommandLine(new BenchCommand())
                        .setErr(new PrintWriter(errors))
                        .setOut(new PrintWriter(text))
                        .execute(
                                "--path=self",
                                "--op=" + op,
                                "--sizes=8,4K",
                                "--depth=1",
                                "--seconds=0.02",
                                "--warm-up=0.05",
                                "--plant=4096");
        assertThat(code).as(text + "" + errors).isOne();
        assertThat(errors.toString())
                .startsWith("telpher bench: wrong data: ")
                .contains(op + " of 4K at depth 1 over self", "byte 2048 of what rank 1 got");
        assertThat(text.toString()).doesNotContain("all data right");
    }

    @Test
    void comparesWithAPeerInEveryRound() throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                bench(
                        Map.of(),
                        "--compare=memcpy",
                        "--rounds=2",
                        "--path=mapped",
                        "--op=write",
                        "--sizes=64K",
                        "--depth=1,4",
                        "--seconds=0.02",
                        "--patience=0",
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text())
                .contains("round 2 of 2", "all data right")
                .containsPattern("mapped +write of 64K.* GBps +/ memcpy MemorySegment.copy: ");
        List<String> lines = Files.readAllLines(json);
        for (String system : List.of("telpher", "memcpy")) {
            for (int depth : new int[] {1, 4}) {
                for (int round : new int[] {1, 2}) {
                    String tail = "\"depth\":%d,\"lanes\":0,\"round\":%d,".formatted(depth, round);
                    assertThat(lines)
                            .filteredOn(l -> l.startsWith("{\"system\":\"" + system + "\","))
                            .filteredOn(l -> l.contains("\"bytes\":65536,\"pieces\":1," + tail))
                            .singleElement()
                            .asString()
                            .contains("\"transport\":\"shm\"", "\"op\":\"write\"")
                            .containsPattern("\"GBps\":[0-9.]*[1-9]")
                            .endsWith("\"wrong\":0}");
                }
            }
        }
        String ratio =
                "\\{\"ratio\":\"telpher/memcpy\",\"tool\":\"MemorySegment.copy\",\"peer_op\":\"write\","
                        + "\"transport\":\"shm\",\"path\":\"mapped\",\"memory\":\"telpher\","
                        + "\"op\":\"write\",\"bytes\":65536,\"pieces\":1,\"depth\":%s,\"client\":\"java\","
                        + "\"of\":\"%s\",\"median\":[0-9.]+,\"min\":[0-9.]+,\"max\":[0-9.]+}";
        for (String of : List.of("1 us_p50", "1 cpu_s_per_GB", "4 GBps", "4 cpu_s_per_GB")) {
            String[] parts = of.split(" ");
            assertThat(lines)
                    .as(of)
                    .filteredOn(l -> l.matches(ratio.formatted((Object[]) parts)))
                    .hasSize(1);
        }
    }

    @Test
    void peersThatAreMissingAreNamedWithTheirPackages() throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                bench(
                        Map.of("PATH", temp.toString()),
                        "--compare=ucx,iperf3",
                        "--rounds=1",
                        "--path=tcp",
                        "--op=write",
                        "--sizes=64K",
                        "--depth=4",
                        "--seconds=0.02",
                        "--patience=0",
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text())
                .contains(
                        "not compared with ucx: ucx_perftest is missing (package ucx-utils)",
                        "not compared with iperf3: iperf3 is missing (package iperf3)",
                        "all data right");
        assertThat(Files.readAllLines(json)).noneMatch(l -> l.contains("\"ratio\""));
    }

    @Test
    void listensAndConnects() throws Exception {
        meet(Map.of(), "@" + temp.resolve("bench.address"));
    }

    @Test
    void aHostAndPortAreEnoughForWhoKnowsTheSecret() throws Exception {
        String port = Integer.toString(Ports.free());
        meet(
                Map.of("TELPHER_SECRET", "0123456789abcdef", "TELPHER_PORT", port),
                "127.0.0.1:" + port);
    }

    /// Rank 1 may not look into rank 0, which is not dumpable.
    @Test
    void aPathThatIsNotThereIsNotMeasuredUnderItsName() {
        assumeTrue(
                "root".equals(System.getProperty("user.name"))
                        && Files.isExecutable(Path.of("/usr/bin/setpriv")),
                "needs root and setpriv of the package util-linux");
        List<String> command =
                command("--transport=shm", "--memory=foreign", "--op=write", "--sizes=8");
        command.set(command.indexOf(Main.class.getName()), NotDumpable.class.getName());
        command.addAll(
                0,
                List.of(
                        "/usr/bin/setpriv",
                        "--bounding-set=-sys_ptrace",
                        "--inh-caps=-sys_ptrace"));
        command.add("--seconds=0.02");
        Tool.Output output = Tool.run(command, Map.of(), 100);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text())
                .contains("path cma is not available here: ", "EPERM", "(it is not dumpable)")
                .contains("path shm-ring (shm), foreign memory")
                .doesNotContain("path cma (shm)", "path mapped");
        assertThat(output.text().lines()).allMatch(l -> l.startsWith("#") || l.startsWith("  "));
    }

    /// `telpher` in a process that others may not look into.
    static final class NotDumpable {
        private NotDumpable() {}

        public static void main(String[] arguments) {
            assertThat(Processes.prctl(Processes.PR_SET_DUMPABLE, 0)).isZero();
            Main.main(arguments);
        }
    }

    private void meet(Map<String, String> environment, String where) throws Exception {
        Path address = temp.resolve("bench.address");
        Process listener = Tool.start(command("--listen=" + address), environment);
        try {
            awaitAddress(address);
            assertThat(Files.getPosixFilePermissions(address)).hasSize(2);
            Tool.Output output =
                    bench(
                            environment,
                            "--connect=" + where,
                            "--op=write,send",
                            "--sizes=8",
                            "--seconds=0.02");
            assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
            assertThat(output.text()).contains("path tcp (tcp)", "all data right");
            awaitEnd(listener);
            assertThat(address).doesNotExist();
        } finally {
            Tool.end(listener);
        }
    }

    private static void awaitAddress(Path address) {
        await().atMost(Duration.ofSeconds(60)).until(() -> Files.exists(address));
    }

    private static void awaitEnd(Process listener) {
        Tool.Output output = Tool.await(listener, 20);
        assertThat(output.exitCode()).as(output.error()).isZero();
    }

    @Test
    void twoRailsAreComparedWithTheirSum() throws Exception {
        assumeTrue(TwoNamespaces.missing() == null, TwoNamespaces.missing());
        Path address = temp.resolve("bench.address");
        Path json = temp.resolve("out.json");
        String rails = "--rails=10.77.1.0/24,10.77.2.0/24";
        try (TwoNamespaces hosts = TwoNamespaces.create("tlpb", 2)) {
            Process listener =
                    Tool.start(in(hosts.there(), command("--listen=" + address, rails)), Map.of());
            try {
                awaitAddress(address);
                List<String> connect =
                        command(
                                "--connect=@" + address,
                                rails,
                                "--path=tcp",
                                "--op=write,read",
                                "--sizes=1M,64K",
                                "--depth=1",
                                "--seconds=0.02",
                                "--json=" + json);
                Tool.Output output = Tool.run(in(hosts.here(), connect), Map.of(), 100);
                assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
                assertThat(output.text()).contains("all rails together: ", "all data right");
                awaitEnd(listener);
            } finally {
                Tool.end(listener);
            }
        }
        Map<String, Map<String, Object>> metrics = metrics(json);
        Map<String, Object> sum = metrics.get("sum of rails, write of 1M at depth 1 over tcp");
        double alone = 0;
        for (String rail : List.of("10.77.1.0/24", "10.77.2.0/24")) {
            alone += value(metrics.get("write of 1M at depth 1 over tcp, rail " + rail), "value");
        }
        assertThat(value(sum, "value")).isPositive();
        assertThat(value(sum, "reference")).isCloseTo(alone, withinPercentage(1));
    }

    /// @return the lines that are metrics, by name
    private static Map<String, Map<String, Object>> metrics(Path json) throws IOException {
        Map<String, Map<String, Object>> metrics = new HashMap<>();
        for (String line : Files.readAllLines(json)) {
            if (line.startsWith("{\"metric\"")) {
                Map<String, Object> fields = Json.parse(line);
                metrics.put((String) fields.get("metric"), fields);
            }
        }
        return metrics;
    }

    private static double value(Map<String, Object> fields, String name) {
        return ((Number) fields.get(name)).doubleValue();
    }

    private static List<String> in(String namespace, List<String> command) {
        List<String> all = new ArrayList<>(TwoNamespaces.in(namespace));
        all.addAll(command);
        return all;
    }

    @Test
    void aRankThatIsKilledEndsItWithAMessage() throws Exception {
        Path text = temp.resolve("text");
        Path errors = temp.resolve("errors");
        Process bench =
                new ProcessBuilder(
                                command(
                                        "--path=mapped",
                                        "--op=write",
                                        "--sizes=4K",
                                        "--depth=2",
                                        "--pattern=all-to-all",
                                        "--ranks=3",
                                        "--seconds=60"))
                        .redirectOutput(text.toFile())
                        .redirectError(errors.toFile())
                        .start();
        try {
            // The ranks are connected when the head of the table is printed.
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> Files.readString(text).contains("path mapped"));
            List<ProcessHandle> ranks = bench.children().toList();
            assertThat(ranks).hasSize(2);
            ranks.getLast().destroyForcibly();
            assertThat(bench.waitFor(50, TimeUnit.SECONDS)).as("it ends").isTrue();
            assertThat(bench.exitValue()).as(Files.readString(errors)).isEqualTo(1);
            assertThat(errors).content().startsWith("telpher bench: ").doesNotContain("\tat ");
            assertThat(text).content().doesNotContain("all data right");
            await().atMost(Duration.ofSeconds(20)).until(() -> !ranks.getFirst().isAlive());
        } finally {
            Tool.end(bench);
        }
    }

    static Tool.Output bench(Map<String, String> environment, String... arguments) {
        try {
            return Tool.await(Tool.start(command(arguments), environment), 100);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static List<String> command(String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(
                List.of(
                        "-cp",
                        System.getProperty("java.class.path"),
                        Main.class.getName(),
                        "bench",
                        "--warm-up=0.05"));
        command.addAll(List.of(arguments));
        return command;
    }
}

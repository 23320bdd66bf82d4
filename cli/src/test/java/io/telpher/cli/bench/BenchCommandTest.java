package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.Device;
import io.telpher.cli.Tool;
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
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/// Runs `telpher bench` as a process of its own, and what it starts.
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
    @Timeout(300) // five operations over four paths: a busy host takes long to warm them up
    void measuresAndChecksBetweenTwoProcesses() throws IOException {
        assumeTrue(
                Files.exists(Path.of("/proc/self/status")),
                "needs Linux: there is no /proc/self/status");
        Path json = temp.resolve("out.json");
        Tool.Output output =
                BenchProcess.run(
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
        checkAllocated(BenchProcess.metrics(json));
    }

    /// @param metrics of a run of all operations
    private static void checkAllocated(Map<String, Map<String, Object>> metrics) {
        for (String how :
                List.of(
                        "write, token",
                        "write, prepared",
                        "read, token",
                        "read, prepared",
                        "send, token",
                        "send, prepared",
                        "notify, token",
                        "counter, prepared")) {
            for (String path : List.of("mapped", "shm-ring", "tcp")) {
                String name = "allocated, %s style, %s".formatted(how, path);
                assertThat(metrics).containsKey(name);
                Map<String, Object> metric = metrics.get(name);
                assertThat(metric)
                        .containsEntry("unit", "bytes per operation")
                        .containsEntry("reference", 0L);
                assertThat(BenchProcess.value(metric, "value")).as(name).isNotNegative();
            }
        }
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
                BenchProcess.run(
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
        Tool.Output output =
                BenchProcess.run(Map.of(), "--html=" + temp.resolve("no/such/folder.html"));
        assertThat(output.exitCode()).isEqualTo(1);
        assertThat(output.error()).contains("cannot write").contains("folder.html");
        assertThat(output.text()).doesNotContain("path mapped");
    }

    @Test
    void piecesAreScatteredAndChecked() {
        Tool.Output output =
                BenchProcess.run(
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
                BenchProcess.run(
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
                // And one for small messages. They join while the first row is measured.
                .last()
                .asString()
                .contains("\"lanes\":3,");
        Map<String, Map<String, Object>> metrics = BenchProcess.metrics(json);
        for (String op : List.of("write", "read")) {
            String load = "background load, write over tcp beside %s of 64K at depth 2";
            assertThat(BenchProcess.value(metrics.get(load.formatted(op)), "value")).isPositive();
        }
    }

    @Test
    void idleConnectionsAreMetered() throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                BenchProcess.run(Map.of(), "--idle=3", "--path=mapped,tcp", "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        Map<String, Map<String, Object>> metrics = BenchProcess.metrics(json);
        for (String path : List.of("mapped", "tcp")) {
            String over = "3 idle connections over " + path;
            assertThat(BenchProcess.value(metrics.get("processor share, " + over), "value"))
                    .isNotNegative();
            // Of two more connections that may be less than what the JVM gives back meanwhile.
            for (String memory :
                    List.of("heap per connection, ", "native memory per connection, ")) {
                assertThat(BenchProcess.value(metrics.get(memory + over), "value")).isFinite();
            }
            assertThat(BenchProcess.value(metrics.get("threads, " + over), "value")).isPositive();
        }
        assertThat(output.text())
                .contains("3 idle connections over mapped: ", "3 idle connections over tcp: ");
    }

    @Test
    void theFirstWrongByteEndsItAndIsNamed() throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                BenchProcess.run(
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
}

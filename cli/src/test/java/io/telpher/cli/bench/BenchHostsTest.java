package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.cli.Main;
import io.telpher.cli.Tool;
import io.telpher.cli.TwoNamespaces;
import io.telpher.internal.ffi.linux.Processes;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Runs `telpher bench` as the two processes of two hosts, or of one.
class BenchHostsTest {
    @TempDir Path temp;

    @Test
    void aRailThatIsNotThereIsNamed() {
        Tool.Output output = BenchProcess.run(Map.of(), "--path=tcp", "--sizes=8", "--rails=moon0");
        assertThat(output.exitCode()).isEqualTo(1);
        assertThat(output.error()).contains("moon0");
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
                BenchProcess.command(
                        "--transport=shm", "--memory=foreign", "--op=write", "--sizes=8");
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
        Process listener = Tool.start(BenchProcess.command("--listen=" + address), environment);
        try {
            awaitAddress(address);
            assertThat(Files.getPosixFilePermissions(address)).hasSize(2);
            Tool.Output output =
                    BenchProcess.run(
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
                    Tool.start(
                            in(hosts.there(), BenchProcess.command("--listen=" + address, rails)),
                            Map.of());
            try {
                awaitAddress(address);
                List<String> connect =
                        BenchProcess.command(
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
        Map<String, Map<String, Object>> metrics = BenchProcess.metrics(json);
        Map<String, Object> sum = metrics.get("sum of rails, write of 1M at depth 1 over tcp");
        double alone = 0;
        for (String rail : List.of("10.77.1.0/24", "10.77.2.0/24")) {
            alone +=
                    BenchProcess.value(
                            metrics.get("write of 1M at depth 1 over tcp, rail " + rail), "value");
        }
        assertThat(BenchProcess.value(sum, "value")).isPositive();
        assertThat(BenchProcess.value(sum, "reference")).isCloseTo(alone, withinPercentage(1));
    }

    private static List<String> in(String namespace, List<String> command) {
        List<String> all = new ArrayList<>(TwoNamespaces.in(namespace));
        all.addAll(command);
        return all;
    }
}

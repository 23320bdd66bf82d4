package io.telpher.internal.ffi.verbs;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.internal.transport.verbs.FakeVerbs;
import io.telpher.internal.transport.verbs.RdmaNode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Runs the tests with tag `rdma` in the machine of `scripts/rdma-vm`, by JUnit's console launcher
/// on this very class path. Where the host has RDMA devices they run on those, with all others.
@Tag("rdma-vm")
class RdmaVmTest {
    private static final Path SCRIPT = Path.of("../scripts/rdma-vm").toAbsolutePath().normalize();
    private static final int UNAVAILABLE = 69;
    private static final int SECONDS = 600;

    @Test
    @Timeout(value = SECONDS + 120, unit = TimeUnit.SECONDS)
    void testsPassOnDevicesInSoftware() throws Exception {
        assumeThat(System.getenv("RDMA_VM")).as("this is the machine itself").isNull();
        // Devices without RC queue pairs (EFA, iWARP) and ports that are down prove nothing.
        assumeThat(FakeVerbs.isReal()).as("the tests run on real devices").isFalse();
        assumeThat(SCRIPT).as("no source tree around these tests").exists();
        List<String> build = List.of(SCRIPT.toString(), "build");
        Ended built = run(build);
        assumeThat(built.status).as(built.said).isNotEqualTo(UNAVAILABLE);
        assertThat(built.status).as(built.said).isZero();

        List<String> command = new ArrayList<>();
        command.addAll(List.of(SCRIPT.toString(), "run", "-t", "" + SECONDS));
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        // Compiling well costs more than it saves under emulation, and is not safe there.
        command.addAll(List.of("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-ea"));
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(List.of("-Dtelpher.test.path=verbs", "-Dtelpher.test.scale=0.2"));
        command.addAll(List.of("-cp", classPath()));
        command.add("org.junit.platform.console.ConsoleLauncher");
        command.addAll(List.of("execute", "--disable-banner", "--disable-ansi-colors"));
        command.addAll(List.of("--details=testfeed", "--fail-if-no-tests"));
        command.addAll(List.of("--include-tag=rdma", "--include-tag=" + RdmaNode.SLICE));
        // By name first: looking at all classes for the tag takes longer than the tests.
        String classes = System.getProperty("telpher.test.rdma", ".*[Vv]erbs.*");
        command.addAll(List.of("--scan-classpath=" + testClasses(), "-n", classes));
        Ended ended = run(command);
        System.out.println(ended.said);
        assertThat(ended.status).as(ended.said).isZero();
    }

    /// What a process left behind.
    private record Ended(int status, String said) {}

    private static Ended run(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        try {
            process.getOutputStream().close();
            String said = new String(process.getInputStream().readAllBytes(), UTF_8);
            return new Ended(process.waitFor(), said);
        } finally {
            process.destroy(); // the script ends its machine
        }
    }

    private static Path testClasses() {
        return Path.of("target/test-classes").toAbsolutePath();
    }

    /// Surefire's JVM may have it in a jar's manifest only, and in this property in full.
    private static String classPath() {
        String all =
                System.getProperty(
                        "surefire.test.class.path", System.getProperty("java.class.path"));
        return Arrays.stream(all.split(":"))
                .filter(entry -> Files.exists(Path.of(entry)))
                .map(entry -> Path.of(entry).toAbsolutePath().toString())
                .collect(Collectors.joining(":"));
    }
}

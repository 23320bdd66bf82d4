package io.telpher.contract;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Compiles and runs the programs of the README, as they stand there.
class ReadmeExampleTest {
    @TempDir Path folder;

    private final List<Process> processes = new ArrayList<>();

    @AfterEach
    void killAll() {
        processes.forEach(Process::destroyForcibly);
    }

    /// The program that follows a file name in the README.
    private static String program(String file) throws IOException {
        Path readme = Path.of("../README.md");
        String text = Files.readString(Files.exists(readme) ? readme : Path.of("README.md"));
        Matcher block =
                Pattern.compile(
                                "`" + Pattern.quote(file) + "`:\\s+```java\\n(.*?)```",
                                Pattern.DOTALL)
                        .matcher(text);
        assertThat(block.find()).as("the README has a program %s", file).isTrue();
        return block.group(1);
    }

    private void compile(String file, String program) throws IOException {
        Path source = Files.writeString(folder.resolve(file), program);
        int result =
                ToolProvider.getSystemJavaCompiler()
                        .run(
                                null,
                                null,
                                null,
                                "-Xlint:all",
                                "-Werror",
                                "-proc:none",
                                "-cp",
                                System.getProperty("java.class.path"),
                                "-d",
                                folder.toString(),
                                source.toString());
        assertThat(result).as("the program %s compiles", file).isZero();
    }

    private Process run(Map<String, String> environment, String... program) throws IOException {
        List<String> command = PeerProcess.java(List.of());
        command.set(command.size() - 1, folder + ":" + command.getLast());
        command.addAll(List.of(program));
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
        builder.environment().putAll(environment);
        Process process = builder.redirectErrorStream(true).start();
        processes.add(process);
        return process;
    }

    private static String output(Process process) throws Exception {
        String output = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor(30, TimeUnit.SECONDS)).isTrue();
        assertThat(process.exitValue()).as(output).isZero();
        return output;
    }

    @Test
    void twoProcesses() throws Exception {
        String program = program("Hello.java");
        assertThat(program.lines().filter(line -> line.matches(" {8,}\\w.*")).count())
                .as("it is a short one")
                .isLessThanOrEqualTo(15);
        compile("Hello.java", program);
        Process server = run(Map.of(), "Hello", "serve");
        Path address = folder.resolve("hello.address");
        await().atMost(Duration.ofSeconds(20))
                .until(() -> Files.exists(address) && Files.size(address) > 0);
        Process client = run(Map.of(), "Hello", "write");
        assertThat(output(client)).isEmpty();
        assertThat(output(server)).isEqualTo("got: hello from another process\n");
    }

    @Test
    void twoMachines() throws Exception {
        int port = Ports.free();
        compile("Remote.java", program("Remote.java").replace("7070", Integer.toString(port)));
        Map<String, String> secret = Map.of("TELPHER_SECRET", "correct horse battery staple");
        Map<String, String> listening =
                Map.of(
                        "TELPHER_SECRET",
                        "correct horse battery staple",
                        "TELPHER_PORT",
                        Integer.toString(port));
        Process server = run(listening, "Remote");
        await().atMost(Duration.ofSeconds(20)).until(() -> isListening(port));
        Process client = run(secret, "Remote", "localhost");
        assertThat(output(client)).isEmpty();
        assertThat(output(server)).isEqualTo("got 100 bytes: hello from another machine\n");
    }

    private static boolean isListening(int port) throws IOException {
        String needle = "(?s).*:%04X [0:]+ 0A .*".formatted(port);
        for (String table : new String[] {"tcp", "tcp6"}) {
            Path file = Path.of("/proc/net", table);
            if (Files.exists(file) && Files.readString(file).matches(needle)) {
                return true;
            }
        }
        return false;
    }
}

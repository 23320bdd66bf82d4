package io.telpher.bootstrap;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/// A process of its own. Lines on its standard input and output are the conversation; what it
/// writes to standard error is part of its output, since nothing should be there.
final class Child implements AutoCloseable {
    private final Process process;
    private final LinkedBlockingQueue<String> said = new LinkedBlockingQueue<>();
    private final PrintStream out;

    private Child(ProcessBuilder builder) {
        try {
            process = builder.redirectErrorStream(true).start();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        out = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
        Thread.ofPlatform().daemon().name("test-child").start(this::listen);
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    }

    /// Starts a JVM with the test's class path.
    static Child java(Class<?> main, Object... arguments) {
        return java(System.getProperty("java.class.path"), main, arguments);
    }

    static Child java(String classPath, Class<?> main, Object... arguments) {
        return java(Map.of(), classPath, main, arguments);
    }

    static Child java(
            Map<String, String> variables, String classPath, Class<?> main, Object... arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(
                List.of(
                        "-ea",
                        "--enable-native-access=ALL-UNNAMED",
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "-cp",
                        classPath,
                        main.getName()));
        for (Object argument : arguments) {
            command.add(argument.toString());
        }
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().put("TELPHER_SECRET", Fixtures.SECRET);
        builder.environment().putAll(variables);
        return new Child(builder);
    }

    static Child program(List<String> command) {
        return new Child(new ProcessBuilder(command));
    }

    private void listen() {
        try (BufferedReader in =
                new BufferedReader(
                        new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            String line;
            while ((line = in.readLine()) != null) {
                said.add(line);
            }
        } catch (IOException e) {
            // It is gone.
        }
    }

    void say(String line) {
        out.println(line);
    }

    /// @return the next line
    String hear() {
        return hear(Duration.ofSeconds(60));
    }

    String hear(Duration atMost) {
        try {
            String line = said.poll(atMost.toMillis(), TimeUnit.MILLISECONDS);
            assertThat(line).as("a line from the child").isNotNull();
            return line;
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    void signal(String name) {
        try {
            // The shell's own: the program is in a package that not everybody has.
            String command = "kill -%s %d".formatted(name, process.pid());
            Process kill = new ProcessBuilder("sh", "-c", command).start();
            assertThat(kill.waitFor()).as("kill -" + name).isZero();
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /// @return what it has used, in the kernel and outside, of all processors
    Duration processorTime() {
        return process.info().totalCpuDuration().orElseThrow();
    }

    /// kill -9
    void kill() {
        process.destroyForcibly();
        awaitEnd();
    }

    int awaitEnd() {
        try {
            assertThat(process.waitFor(20, TimeUnit.SECONDS)).as("the child ended").isTrue();
            return process.exitValue();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public void close() {
        kill();
    }
}

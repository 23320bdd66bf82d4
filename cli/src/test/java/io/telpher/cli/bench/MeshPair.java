package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.JavaCommand;
import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/// A `telpher fullmesh` that listens and one that connects, as processes.
final class MeshPair implements AutoCloseable {
    private final Path folder;
    final Process listener;
    private final Map<String, String> environment;
    private final List<String> flags;

    /// What each of them printed.
    record Outputs(Tool.Output listening, Tool.Output connecting) {}

    /// Starts the one that listens, and waits until it does.
    ///
    /// @param before a command that starts others
    MeshPair(
            Path folder,
            Map<String, String> environment,
            List<String> flags,
            List<String> before,
            String... options)
            throws Exception {
        this.folder = folder;
        this.environment = environment;
        this.flags = flags;
        listener =
                Tool.start(
                        command(before, flags, options, "--address-file=" + address()),
                        environment);
        for (int i = 0; i < 600 && listener.isAlive() && !Files.exists(address()); i++) {
            Thread.sleep(50);
        }
        if (!Files.exists(address())) {
            Tool.Output output = Tool.await(listener, 1);
            throw new AssertionError("does not listen: " + output.error() + output.text());
        }
    }

    MeshPair(Path folder, String... options) throws Exception {
        this(folder, Map.of(), List.of(), List.of(), options);
    }

    Path address() {
        return folder.resolve("address");
    }

    Path json() {
        return folder.resolve("out.json");
    }

    Path logs() {
        return folder.resolve("logs");
    }

    /// Starts the one that connects.
    Process connect(List<String> before, String... options) throws IOException {
        return Tool.start(
                command(before, flags, options, "--logs=" + logs(), "--json=" + json()),
                environment);
    }

    /// Runs both to their end.
    Outputs run(String... options) throws IOException {
        return run(List.of(), options);
    }

    Outputs run(List<String> before, String... options) throws IOException {
        List<String> all = new ArrayList<>(List.of("--connect=@" + address()));
        all.addAll(Arrays.asList(options));
        Process connecting = connect(before, all.toArray(String[]::new));
        Tool.Output output = Tool.await(connecting, 100);
        return new Outputs(Tool.await(listener, 30), output);
    }

    /// Runs both to their end, which is a good one.
    Outputs succeed(String... options) throws IOException {
        return succeed(List.of(), options);
    }

    Outputs succeed(List<String> before, String... options) throws IOException {
        Outputs outputs = run(before, options);
        for (Tool.Output output : List.of(outputs.connecting(), outputs.listening())) {
            assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
            assertThat(output.text()).contains("all data right");
        }
        return outputs;
    }

    static List<String> command(List<String> before, String... arguments) {
        return command(before, List.of(), arguments);
    }

    private static List<String> command(
            List<String> before, List<String> flags, String[] options, String... more) {
        List<String> command = new ArrayList<>(before);
        String[] arguments =
                Stream.of(Stream.of("fullmesh"), Arrays.stream(options), Arrays.stream(more))
                        .flatMap(part -> part)
                        .toArray(String[]::new);
        command.addAll(JavaCommand.of(flags, arguments));
        return command;
    }

    @Override
    public void close() {
        Tool.end(listener);
    }
}

package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/// A running script and what it prints. Its environment is the given one alone.
final class Script {
    private final Path output = Files.createTempFile("script-", ".out");
    private final Path errors = Files.createTempFile("script-", ".err");
    private final Process process;

    Script(List<String> command, Path folder, Map<String, String> environment) throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
        builder.environment().clear();
        builder.environment().putAll(environment);
        process = builder.redirectOutput(output.toFile()).redirectError(errors.toFile()).start();
    }

    record Result(int status, String output, String errors) {}

    /// Waits for its end, at most ten minutes: what this starts is short, but the machine may be
    /// busy.
    Result await() throws Exception {
        boolean ended = process.waitFor(10, TimeUnit.MINUTES);
        process.destroyForcibly().waitFor();
        Result result =
                new Result(process.exitValue(), Files.readString(output), Files.readString(errors));
        Files.delete(output);
        Files.delete(errors);
        assertThat(ended).as("it ends by itself; so far: %s", result).isTrue();
        return result;
    }

    /// Makes an executable script.
    static void write(Path file, String body) throws IOException {
        Files.createDirectories(file.getParent());
        Files.writeString(file, "#!/bin/sh\n" + body);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    /// The folder of the launcher, above the one that tests run in.
    static Path sourceTree() {
        Path folder = Path.of("").toAbsolutePath();
        while (!Files.isRegularFile(folder.resolve("telpher"))) {
            folder = folder.getParent();
            assertThat(folder).as("the source tree that has the launcher, above here").isNotNull();
        }
        return folder;
    }

    /// A folder or file of the resources of the engine's tests: in the source tree, or in the
    /// archive of the tests.
    static Path engineResource(String name) {
        Path tree = sourceTree();
        Path sources = tree.resolve("engine/src/test/resources");
        return (Files.isDirectory(sources) ? sources : tree.resolve("tests/engine")).resolve(name);
    }
}

package io.telpher.cli;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.TelpherException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/// Programs of the machine: where they are, and running them to their end.
public final class Tool {
    private Tool() {}

    /// @return the program's path, or null; the `sbin` folders are looked into too, which not
    ///     everybody's `PATH` has
    public static @Nullable String find(String name) {
        String path = System.getenv().getOrDefault("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin";
        for (String folder : path.split(":")) {
            if (!folder.isEmpty()) {
                Path file = Path.of(folder, name);
                if (Files.isExecutable(file) && Files.isRegularFile(file)) {
                    return file.toString();
                }
            }
        }
        return null;
    }

    /// What a program printed.
    ///
    /// @param exitCode its exit code; 124 when it took too long and was ended
    /// @param text standard output
    /// @param error standard error
    public record Output(int exitCode, String text, String error) {}

    /// Runs a program.
    ///
    /// @param seconds how long it may take
    /// @throws TelpherException.Cancelled when this thread is interrupted
    public static Output run(List<String> command, Map<String, String> environment, int seconds) {
        try {
            return await(start(command, environment), seconds);
        } catch (IOException e) {
            return new Output(127, "", String.valueOf(e.getMessage()));
        }
    }

    /// Starts a program with these variables beside the inherited ones; its input is empty.
    public static Process start(List<String> command, Map<String, String> environment)
            throws IOException {
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().putAll(environment);
        builder.redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()));
        return builder.start();
    }

    /// Waits for a program's end, collecting what it prints.
    public static Output await(Process process, int seconds) {
        CompletableFuture<String> text = collect(process.getInputStream());
        CompletableFuture<String> error = collect(process.getErrorStream());
        try {
            boolean ended = process.waitFor(seconds, TimeUnit.SECONDS);
            if (!ended) {
                end(process);
            }
            return new Output(
                    ended ? process.exitValue() : 124,
                    text.get(2, TimeUnit.SECONDS),
                    error.get(2, TimeUnit.SECONDS));
        } catch (InterruptedException e) {
            end(process);
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while waiting for a program");
        } catch (ExecutionException | TimeoutException e) {
            return new Output(124, "", "its output could not be read: " + e);
        }
    }

    /// Ends a program and those that it started.
    public static void end(Process process) {
        List<ProcessHandle> all = new ArrayList<>(process.descendants().toList());
        all.add(process.toHandle());
        all.forEach(ProcessHandle::destroyForcibly);
    }

    private static CompletableFuture<String> collect(InputStream stream) {
        CompletableFuture<String> text = new CompletableFuture<>();
        Thread.ofPlatform()
                .daemon()
                .name("telpher-tool-output")
                .start(
                        () -> {
                            try (stream) {
                                text.complete(new String(stream.readAllBytes(), UTF_8));
                            } catch (IOException e) {
                                text.completeExceptionally(e);
                            }
                        });
        return text;
    }
}

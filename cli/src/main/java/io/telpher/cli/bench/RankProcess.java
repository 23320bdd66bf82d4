package io.telpher.cli.bench;

import io.telpher.cli.JavaCommand;
import java.io.IOException;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/// Another process of this host that runs a [RankServer], with the same JVM, modules and flags as
/// this one. It gets everything, secrets included, through its standard input, and ends when that
/// ends.
final class RankProcess implements AutoCloseable {
    /// The hidden subcommand that the child runs.
    static final String COMMAND = "bench-rank";

    private final Process process;
    private final int number;
    private final StreamControl control;

    private RankProcess(Process process, int number) {
        this.process = process;
        this.number = number;
        this.control =
                new StreamControl(process.getInputStream(), process.getOutputStream(), this::death);
    }

    /// Starts a process.
    ///
    /// @param number its rank
    /// @param flags JVM flags beside this process's own
    static RankProcess start(int number, List<String> flags) {
        List<String> command = JavaCommand.of(flags, COMMAND);
        try {
            return new RankProcess(
                    new ProcessBuilder(command)
                            .redirectError(ProcessBuilder.Redirect.INHERIT)
                            .start(),
                    number);
        } catch (IOException e) {
            throw new BenchFailure("cannot start " + command.getFirst() + ": " + e.getMessage(), e);
        }
    }

    StreamControl control() {
        return control;
    }

    long pid() {
        return process.pid();
    }

    private @Nullable String death() {
        if (process.isAlive()) {
            return null;
        }
        int code = process.exitValue();
        return "rank %d (process %d) ended by itself, %s; what it printed stands above"
                .formatted(
                        number,
                        process.pid(),
                        code > 128 ? "by signal " + (code - 128) : "with exit code " + code);
    }

    /// Asks the process to end, and ends it after two seconds.
    @Override
    public void close() {
        control.close();
        try {
            if (!process.waitFor(2, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}

package io.telpher.cli.doctor;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.cli.JavaCommand;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/// A second process of this program, for what takes two. It is told what to do by lines on its
/// standard input, secrets included, answers each by a line, and ends when that input ends: also
/// when this process is killed.
final class Helper implements AutoCloseable {
    /// The hidden subcommand that the child runs.
    static final String COMMAND = "doctor-helper";

    /// Begins every answer: a JVM may print warnings of its own on standard output.
    static final String MARK = "telpher-helper ";

    /// A JVM on a busy machine takes seconds to start.
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private static final String END = "\0end";

    private final Process process;
    private final LinkedBlockingQueue<String> answers = new LinkedBlockingQueue<>();

    private Helper(Process process) {
        this.process = process;
        Thread.ofPlatform().daemon().name("telpher-doctor-helper").start(this::collect);
    }

    /// @throws IOException when it cannot be started
    static Helper start() throws IOException {
        return new Helper(
                new ProcessBuilder(JavaCommand.of(List.of(), COMMAND))
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start());
    }

    private void collect() {
        try (BufferedReader lines = process.inputReader(UTF_8)) {
            String line;
            while ((line = lines.readLine()) != null) {
                if (line.startsWith(MARK)) {
                    answers.add(line.substring(MARK.length()));
                }
            }
        } catch (IOException e) {
            // The process is gone: the same as its end.
        }
        answers.add(END);
    }

    /// Says one line and waits for the answer.
    ///
    /// @return the answer's words
    /// @throws IOException when none comes in time or the process has ended
    String[] ask(String line) throws IOException {
        var out = process.outputWriter(UTF_8);
        out.write(line);
        out.write('\n');
        out.flush();
        return answer();
    }

    /// @return the words of the next line
    String[] answer() throws IOException {
        try {
            String line = answers.poll(PATIENCE.toSeconds(), TimeUnit.SECONDS);
            if (line == null) {
                throw new IOException(
                        "the second process has not answered for " + PATIENCE.toSeconds() + " s");
            }
            if (line.equals(END)) {
                boolean ended = process.waitFor(2, TimeUnit.SECONDS);
                throw new IOException(
                        "the second process ended"
                                + (ended ? " with exit code " + process.exitValue() : ""));
            }
            return line.split(" ");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IOException("interrupted", e);
        }
    }

    long pid() {
        return process.pid();
    }

    @Override
    public void close() {
        try {
            process.outputWriter(UTF_8).close();
        } catch (IOException e) {
            process.destroyForcibly(); // it does not read any more
        }
        try {
            if (!process.waitFor(2, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        } catch (UncheckedIOException e) {
            process.destroyForcibly();
        }
    }
}

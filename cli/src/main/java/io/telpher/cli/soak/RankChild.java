package io.telpher.cli.soak;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.cli.JavaCommand;
import io.telpher.internal.ffi.linux.Processes;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import org.jspecify.annotations.Nullable;

/// A rank's process, as the driver sees it. Used by the driver's thread; a thread of its own reads
/// what it says.
final class RankChild {
    /// What a rank has said.
    ///
    /// @param text null: it has ended
    record Line(RankChild from, @Nullable String text) {}

    /// JVM flags of ranks: a heap of one size that is there from the start, so that memory that
    /// grows is not the heap's.
    private static final List<String> FLAGS =
            List.of("-XX:+UseSerialGC", "-Xms96m", "-Xmx96m", "-XX:+AlwaysPreTouch");

    private static final int SIGQUIT = 3;
    private static final long NOT_STOPPED = Long.MAX_VALUE;

    final int number;
    final int life;
    private final Process process;
    private final PrintStream in;

    /// Addresses of its sides, by name.
    final Map<String, String> addresses = new TreeMap<>();

    /// What it said last: operations, done, bytes, checked, unchecked, heap.
    long[] stat = new long[6];

    long heardAt = Clock.OWN.now();

    /// Null once it has said something.
    @Nullable Starting starting = new Starting(heardAt);

    long continueAt = NOT_STOPPED;
    boolean killed;
    boolean finished;

    private RankChild(int number, int life, Process process) {
        this.number = number;
        this.life = life;
        this.process = process;
        in = new PrintStream(process.getOutputStream(), true, UTF_8);
    }

    /// Starts a rank.
    static RankChild start(
            SoakOptions options, int number, int life, Path folder, BlockingQueue<Line> lines) {
        Path errors = folder.resolve("rank-" + number + ".err");
        try {
            Process process =
                    new ProcessBuilder(JavaCommand.of(FLAGS, SoakRankCommand.NAME))
                            .redirectError(ProcessBuilder.Redirect.appendTo(errors.toFile()))
                            .start();
            RankChild child = new RankChild(number, life, process);
            Thread.ofPlatform().daemon().name("soak-rank-" + number).start(() -> child.read(lines));
            Plant plant = number == options.plant().victim() ? options.plant() : Plant.NONE;
            child.tell(
                    "%d %d %d %s %s %s"
                            .formatted(
                                    number,
                                    life,
                                    options.seed(),
                                    options.pathList(),
                                    plant,
                                    folder.toAbsolutePath()));
            return child;
        } catch (IOException e) {
            throw new UncheckedIOException("cannot start rank " + number, e);
        }
    }

    private void read(BlockingQueue<Line> lines) {
        try (BufferedReader out =
                new BufferedReader(new InputStreamReader(process.getInputStream(), UTF_8))) {
            for (String line = out.readLine(); line != null; line = out.readLine()) {
                lines.add(new Line(this, line));
            }
        } catch (IOException e) {
            lines.add(new Line(this, null));
            return;
        }
        lines.add(new Line(this, null));
    }

    void tell(String line) {
        in.println(line);
    }

    /// @return what it has used of a processor, in ns
    long used() {
        return process.info().totalCpuDuration().orElse(Duration.ZERO).toNanos();
    }

    /// @return how many operations it has ended, by what it said last
    long operations() {
        return stat[0];
    }

    long pid() {
        return process.pid();
    }

    boolean isStopped() {
        return continueAt != NOT_STOPPED;
    }

    void stop(long until) {
        continueAt = until;
        signal(Processes.SIGSTOP);
    }

    void go() {
        continueAt = NOT_STOPPED;
        heardAt = Clock.OWN.now();
        signal(Processes.SIGCONT);
    }

    private void signal(int signal) {
        int unused = Processes.kill((int) process.pid(), signal);
    }

    void kill() {
        killed = true;
        process.destroyForcibly();
    }

    /// @return its exit code once it has ended
    int exitCode() throws InterruptedException {
        return process.waitFor();
    }

    /// Lets the JVM print its stacks, which come as lines.
    void dump() {
        signal(SIGQUIT);
    }
}

package io.telpher.contract;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.linux.Processes;
import java.io.BufferedInputStream;
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;

/// A peer in a process of its own, which can be stopped, continued and killed.
final class PeerProcess extends Peer {
    private static final Set<PeerProcess> RUNNING = ConcurrentHashMap.newKeySet();

    static {
        // Also those that are stopped, and would never see the end of their input.
        Runtime.getRuntime()
                .addShutdownHook(
                        new Thread(() -> RUNNING.forEach(p -> p.process.destroyForcibly())));
    }

    private final Process process;
    private final DataOutputStream tasks;
    private final AtomicLong numbers = new AtomicLong();
    private final Map<Long, CompletableFuture<Object>> waiting = new ConcurrentHashMap<>();
    private final CompletableFuture<String> errors = new CompletableFuture<>();
    private volatile boolean ended;

    private PeerProcess(Process process) {
        this.process = process;
        tasks = new DataOutputStream(process.getOutputStream());
        Thread.ofPlatform().daemon().name("test-answers").start(this::readAnswers);
        Thread.ofPlatform().daemon().name("test-errors").start(this::readErrors);
        RUNNING.add(this);
    }

    /// Starts a JVM with the class path of the test.
    ///
    /// @param prefix a command that runs it, such as `ip netns exec NAME`
    static PeerProcess start(String... prefix) {
        return start(List.of(), Map.of(), prefix);
    }

    /// Starts a JVM with the class path of the test.
    ///
    /// @param flags more flags of the JVM
    /// @param environment more variables
    /// @param prefix a command that runs it
    static PeerProcess start(
            List<String> flags, Map<String, String> environment, String... prefix) {
        List<String> command = new ArrayList<>(List.of(prefix));
        command.addAll(java(flags));
        command.add(PeerMain.class.getName());
        try {
            ProcessBuilder builder = new ProcessBuilder(command);
            builder.environment().putAll(environment);
            return new PeerProcess(builder.start());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// @return the command line of a small JVM that starts fast, up to the main class
    static List<String> java(List<String> flags) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(
                List.of(
                        "-ea",
                        "--enable-native-access=ALL-UNNAMED",
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "-Xmx256m"));
        command.addAll(Scale.flags());
        command.addAll(flags);
        command.addAll(List.of("-cp", System.getProperty("java.class.path")));
        return command;
    }

    @Override
    @SuppressWarnings("unchecked")
    <T> CompletableFuture<T> start(Task<T> task) {
        CompletableFuture<Object> answer = new CompletableFuture<>();
        long number = numbers.incrementAndGet();
        waiting.put(number, answer);
        try {
            byte[] bytes = PeerMain.bytes(task);
            synchronized (tasks) {
                tasks.writeLong(number);
                tasks.writeInt(bytes.length);
                tasks.write(bytes);
                tasks.flush();
            }
        } catch (IOException e) {
            answer.completeExceptionally(new AssertionError("cannot hand a task to the peer", e));
        }
        if (ended) {
            answer.completeExceptionally(new AssertionError("the peer's process has ended"));
        }
        return (CompletableFuture<T>) answer;
    }

    private void readAnswers() {
        try (DataInputStream in =
                new DataInputStream(new BufferedInputStream(process.getInputStream()))) {
            while (true) {
                CompletableFuture<Object> future = waiting.remove(in.readLong());
                byte[] bytes = in.readNBytes(in.readInt());
                ObjectInputStream object = new ObjectInputStream(new ByteArrayInputStream(bytes));
                PeerMain.Answer answer = (PeerMain.Answer) object.readObject();
                if (answer.error() != null) {
                    future.completeExceptionally(answer.error());
                } else {
                    future.complete(answer.value());
                }
            }
        } catch (Exception e) {
            ended = true;
            waiting.values()
                    .forEach(
                            future ->
                                    future.completeExceptionally(
                                            new AssertionError("the peer's process has ended", e)));
        }
    }

    private void readErrors() {
        try (InputStream in = process.getErrorStream()) {
            errors.complete(new String(in.readAllBytes(), UTF_8));
        } catch (IOException e) {
            errors.completeExceptionally(e);
        }
    }

    long pid() {
        return process.pid();
    }

    /// Kills it with SIGKILL and waits until it is dead.
    void kill() {
        process.destroyForcibly();
        awaitEnd();
    }

    /// Stops it: it does nothing any more, and its sockets stay open.
    void stop() {
        signal(Processes.SIGSTOP);
        // The signal is delivered when the process stands still, not when kill returns.
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
        while (!isStopped()) {
            assertThat(System.nanoTime()).as("time to stop the peer").isLessThan(end);
            Thread.onSpinWait();
        }
    }

    /// Lets it go on.
    void go() {
        signal(Processes.SIGCONT);
    }

    private void signal(int signal) {
        assertThat(Processes.kill((int) process.pid(), signal)).as("kill").isZero();
    }

    private boolean isStopped() {
        try (Stream<Path> threads = Files.list(Path.of("/proc/" + pid() + "/task"))) {
            return threads.allMatch(
                    thread -> {
                        try {
                            String stat = Files.readString(thread.resolve("stat"));
                            return stat.charAt(stat.lastIndexOf(')') + 2) == 'T';
                        } catch (IOException e) {
                            return true;
                        }
                    });
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// Waits until it is dead.
    ///
    /// @return its exit status
    int awaitEnd() {
        try {
            assertThat(process.waitFor(20, TimeUnit.SECONDS))
                    .as("the peer's process ended")
                    .isTrue();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted", e);
        }
        RUNNING.remove(this);
        return process.exitValue();
    }

    /// @return everything it printed to standard error, once it has ended
    String errors() {
        return result(errors);
    }

    boolean isAlive() {
        return process.isAlive();
    }

    @Override
    void abandon() {
        kill();
    }

    /// Ends it in good order, when it still runs, and checks that the library printed nothing.
    @Override
    public void close() {
        if (!process.isAlive()) {
            RUNNING.remove(this);
            return;
        }
        go();
        try {
            tell(Participant::close);
        } finally {
            try {
                tasks.close();
            } catch (IOException e) {
                process.destroyForcibly();
            }
            awaitEnd();
        }
        assertThat(errors()).as("what the peer's process printed").isEmpty();
    }
}

package io.telpher.cli.bench;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import java.lang.management.CompilationMXBean;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/// Measures what connections cost that do nothing. One process opens endpoints, another connects
/// one endpoint of its own to all of them and watches itself; both have a heap of fixed size that
/// is touched at the start, so that what the proportional size grows by is native memory.
final class IdleMeter implements AutoCloseable {
    /// JVM flags for both processes.
    static final List<String> FLAGS =
            List.of("-Xms96m", "-Xmx96m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC");

    private static final Duration PATIENCE = Duration.ofSeconds(20);

    /// The clock has steps of 10 ms.
    private static final long WATCH_NANOS = 5_000_000_000L;

    private static final int WATCHES = 5;
    private static final CompilationMXBean COMPILATION = ManagementFactory.getCompilationMXBean();

    private final List<Endpoint> endpoints = new ArrayList<>();
    private final List<Connection> connections = new ArrayList<>();

    /// What was found.
    ///
    /// @param connections how many were idle
    /// @param cpuShare of one core
    /// @param heapBytes per connection
    /// @param nativeBytes per connection
    /// @param threads of the process, and with one connection
    /// @param threadsAtOne with one connection
    record Result(
            int connections,
            double cpuShare,
            double heapBytes,
            double nativeBytes,
            int threads,
            int threadsAtOne) {}

    /// Runs two processes of this host.
    static Result measure(int count, String path) {
        try (RankProcess owner = RankProcess.start(1, FLAGS);
                RankProcess dialler = RankProcess.start(2, FLAGS)) {
            Message ask = Message.of("idle").with("path", path).with("count", count);
            Message opened = ask(owner.control(), ask.with("role", "open"));
            Message result = ask;
            for (int i = 0; i < count; i++) {
                result = result.with("address" + i, opened.text("address" + i));
            }
            Message answer = ask(dialler.control(), result.with("role", "connect"));
            return new Result(
                    count,
                    answer.decimal("cpu"),
                    answer.decimal("heap"),
                    answer.decimal("native"),
                    (int) answer.number("threads"),
                    (int) answer.number("threadsAtOne"));
        }
    }

    private static Message ask(Control control, Message message) {
        control.send(message);
        Message answer = control.receive(Duration.ofSeconds(60));
        if (answer.verb().equals("failed")) {
            throw new BenchFailure(answer.text("error"));
        }
        return answer;
    }

    /// Does what a message of [#measure] asks, in one of the two processes.
    Message answer(Message message) {
        EndpointOptions options =
                EndpointOptions.fromEnvironment()
                        .withTransports(List.of(Stage.transportOf(message.text("path"))))
                        .withPaths(List.of(message.text("path")))
                        .withPort(0);
        int count = (int) message.number("count");
        if (message.text("role").equals("open")) {
            Message answer = Message.of("opened");
            for (int i = 0; i < count; i++) {
                Endpoint endpoint = Endpoint.open(options);
                endpoints.add(endpoint);
                answer = answer.with("address" + i, endpoint.address().text());
            }
            return answer;
        }
        Endpoint endpoint = Endpoint.open(options);
        endpoints.add(endpoint);
        connect(endpoint, message.text("address0"));
        settle();
        int threadsAtOne = threads();
        long heap = heap();
        long proportional = proportional();
        for (int i = 1; i < count; i++) {
            connect(endpoint, message.text("address" + i));
        }
        settle();
        long heapAfter = heap();
        long proportionalAfter = proportional();
        double share = idleShare();
        int more = Math.max(1, count - 1);
        return Message.of("idled")
                .with("cpu", share)
                .with("heap", (double) (heapAfter - heap) / more)
                .with("native", (double) (proportionalAfter - proportional) / more)
                .with("threads", threads())
                .with("threadsAtOne", threadsAtOne);
    }

    private void connect(Endpoint endpoint, String address) {
        connections.add(endpoint.connect(EndpointAddress.parse(address), PATIENCE));
    }

    /// What was run a moment ago is still being compiled, which is not what idling costs: watches
    /// until the compiler had nothing to do meanwhile, or for the last time.
    ///
    /// @return processor time of this process by time
    private static double idleShare() {
        for (int round = 1; ; round++) {
            long compiled = COMPILATION.getTotalCompilationTime();
            long cpu = CpuClock.nanos();
            long start = System.nanoTime();
            sleep(WATCH_NANOS);
            double share = (double) (CpuClock.nanos() - cpu) / (System.nanoTime() - start);
            if (COMPILATION.getTotalCompilationTime() == compiled || round == WATCHES) {
                return share;
            }
        }
    }

    private static void settle() {
        sleep(300_000_000);
        System.gc();
        System.gc();
    }

    private static void sleep(long nanos) {
        try {
            Thread.sleep(Duration.ofNanos(nanos));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static long heap() {
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }

    /// The proportional set size: a page that both processes map counts half in each, and once
    /// however often it is mapped.
    private static long proportional() {
        String text = Machine.field("/proc/self/smaps_rollup", "Pss", "0 kB");
        return Long.parseLong(text.replaceAll("\\D", "")) * 1024;
    }

    private static int threads() {
        return Integer.parseInt(Machine.field("/proc/self/status", "Threads", "0"));
    }

    @Override
    public void close() {
        connections.forEach(Connection::close);
        endpoints.forEach(Endpoint::close);
    }
}

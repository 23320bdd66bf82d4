package io.telpher.cli.watch;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.cli.Main;
import io.telpher.cli.Tool;
import io.telpher.cli.bench.BenchCommand;
import io.telpher.internal.ffi.linux.Processes;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/// `top` and `serve-metrics` against a process that has something to do.
class WatchTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);

    private final List<Process> started = new ArrayList<>();
    private final StringWriter output = new StringWriter();
    private final StringWriter errors = new StringWriter();
    private Process traffic;
    private long pid;

    @BeforeEach
    void startTraffic() throws IOException {
        traffic = start(TrafficMain.class);
        pid = traffic.pid();
        assertThat(
                        new BufferedReader(new InputStreamReader(traffic.getInputStream(), UTF_8))
                                .readLine())
                .isEqualTo("ready");
    }

    @AfterEach
    void end() {
        started.forEach(Process::destroyForcibly);
    }

    private Process start(Class<?> main, String... arguments) throws IOException {
        List<String> command =
                new ArrayList<>(
                        List.of(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "--enable-native-access=ALL-UNNAMED",
                                "-XX:+UseSerialGC",
                                "-XX:TieredStopAtLevel=1",
                                "-cp",
                                System.getProperty("java.class.path"),
                                main.getName()));
        command.addAll(Arrays.asList(arguments));
        Process process =
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        started.add(process);
        return process;
    }

    private int run(Object command, String... arguments) {
        return new CommandLine(command)
                .setOut(new PrintWriter(output))
                .setErr(new PrintWriter(errors))
                .execute(arguments);
    }

    @Test
    void topShowsRatesAsTableAndAsJson() {
        assertThat(run(new TopCommand(), "--once", "" + pid)).isZero();
        assertThat(output.toString())
                .startsWith("process " + pid + "\n")
                .contains("connections 1 opened, 0 closed, 0 lost")
                .contains("CONNECTION")
                .contains("  lane 0")
                .contains("failed 1");
        output.getBuffer().setLength(0);
        assertThat(run(new TopCommand(), "--once", "--json", "" + pid)).isZero();
        List<String> lines = output.toString().lines().toList();
        assertThat(lines).allMatch(line -> line.startsWith("{\"kind\":") && line.endsWith("}"));
        // The endpoint that writes, by now for long enough to have a rate.
        assertThat(lines)
                .filteredOn(line -> line.startsWith("{\"kind\":\"path\""))
                .anyMatch(line -> number(line, "sent_GBps") > 0)
                .anyMatch(line -> number(line, "received_GBps") > 0);
        assertThat(lines)
                .filteredOn(line -> line.startsWith("{\"kind\":\"lane\""))
                .hasSizeGreaterThanOrEqualTo(2)
                .allMatch(line -> line.contains("\"alive\":true"))
                .allMatch(line -> number(line, "round_trip_us") > 0);
        assertThat(errors.toString()).isEmpty();
        output.getBuffer().setLength(0);
        assertThat(run(new TopCommand(), "--once")).isZero();
        assertThat(output.toString()).contains("process " + pid + "\n");
    }

    private static double number(String json, String field) {
        Matcher found = Pattern.compile("\"" + field + "\":([0-9.]+)").matcher(json);
        return found.find() ? Double.parseDouble(found.group(1)) : -1;
    }

    /// Its numbers do not move; its kernel goes on to acknowledge what arrives, so no lane of a
    /// peer counts a stall.
    @Test
    void topSaysThatAProcessIsStopped() throws Exception {
        awaitTop(() -> output.toString().contains("  lane 0"));
        assertThat(Processes.kill((int) pid, Processes.SIGSTOP)).isZero();
        awaitTop(() -> output.toString().startsWith("process " + pid + ": these numbers are "));
        assertThat(output.toString()).contains("s old, the process is stopped", "  lane 0");
    }

    private void awaitTop(BooleanSupplier saysIt) {
        long limit = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        do {
            assertThat(System.nanoTime()).as("told by %s", output).isLessThan(limit);
            output.getBuffer().setLength(0);
            assertThat(run(new TopCommand(), "--once", "" + pid)).isZero();
        } while (!saysIt.getAsBoolean());
    }

    @Test
    void topNamesWhatItCannotRead() throws Exception {
        traffic.destroyForcibly().waitFor();
        assertThat(run(new TopCommand(), "" + pid)).isEqualTo(1);
        assertThat(errors.toString()).isEqualTo("telpher top: there is no process " + pid + "\n");
        errors.getBuffer().setLength(0);
        assertThat(run(new TopCommand(), "--once", "" + ProcessHandle.current().pid()))
                .isEqualTo(1);
        assertThat(errors.toString()).contains("publishes no counters");
        assertThat(run(new TopCommand(), "--interval", "0", "1")).isEqualTo(2);
    }

    @Test
    void topEndsWithTheProcessThatItShows() throws Exception {
        Process top = start(Main.class, "top", "--interval", "1", "" + pid);
        BufferedReader out = new BufferedReader(new InputStreamReader(top.getInputStream(), UTF_8));
        assertThat(out.readLine()).isEqualTo("process " + pid);
        traffic.destroyForcibly().waitFor();
        while (out.readLine() != null) {
            // what was shown before
        }
        assertThat(top.waitFor(20, TimeUnit.SECONDS)).isTrue();
        assertThat(top.exitValue()).isZero();
    }

    @Test
    void prometheusCanScrapeIt(@TempDir Path folder) throws Exception {
        String url = serve("--pid", "" + pid);
        long end = System.nanoTime() + LIMIT.toNanos();
        String page = get(url, 200);
        while (sum(page, "telpher_endpoint_transfers_failed_total") < 1) {
            assertThat(System.nanoTime())
                    .as("time for the counters to be published")
                    .isLessThan(end);
            LockSupport.parkNanos(100_000_000);
            page = get(url, 200);
        }
        assertThat(value(page, "telpher_process_readable{pid=\"" + pid + "\"}")).isEqualTo(1);
        assertThat(page).contains("telpher_lane_up{").contains("path=\"tcp\"");
        assertThat(sum(page, "telpher_endpoint_transfers_failed_total")).isEqualTo(1);
        double sent = sum(page, "telpher_path_sent_bytes_total");
        assertThat(sent).isPositive();
        while (sum(get(url, 200), "telpher_path_sent_bytes_total") <= sent) {
            assertThat(System.nanoTime()).as("time for the counters to grow").isLessThan(end);
            LockSupport.parkNanos(100_000_000);
        }
        assertThat(get(url.replace("/metrics", "/"), 404)).contains("/metrics");

        // Who connects and says nothing holds up nobody.
        URI at = URI.create(url);
        try (Socket silent = new Socket(at.getHost(), at.getPort())) {
            silent.getOutputStream().write("GET /metr".getBytes(UTF_8));
            get(url, 200);
        }

        // A process that was killed is told from one that does nothing.
        traffic.destroyForcibly().waitFor();
        String after = get(url, 200);
        assertThat(value(after, "telpher_process_readable{pid=\"" + pid + "\"}")).isZero();
        assertThat(after).doesNotContain("telpher_endpoint");

        String promtool = Tool.find("promtool");
        assumeTrue(
                promtool != null,
                "promtool is missing: install the package prometheus (Debian, Ubuntu)");
        Path file = folder.resolve("page");
        Files.writeString(file, page);
        Tool.Output checked =
                Tool.run(
                        List.of(
                                "sh",
                                "-c",
                                "exec \"$1\" check metrics <\"$2\"",
                                "sh",
                                promtool,
                                "" + file),
                        Map.of(),
                        60);
        assertThat(checked.exitCode()).as(checked.error() + checked.text()).isZero();
        assertThat(checked.error()).isEmpty();
    }

    @Test
    void allShowsWhoComesLater() throws Exception {
        String url = serve("--all");
        Process later = start(TrafficMain.class);
        new BufferedReader(new InputStreamReader(later.getInputStream(), UTF_8)).readLine();
        long end = System.nanoTime() + LIMIT.toNanos();
        while (true) {
            String page = get(url, 200);
            if (page.contains("telpher_process_readable{pid=\"" + pid + "\"} 1")
                    && page.contains("telpher_process_readable{pid=\"" + later.pid() + "\"} 1")) {
                return;
            }
            assertThat(System.nanoTime()).as("time to find both").isLessThan(end);
            LockSupport.parkNanos(50_000_000);
        }
    }

    @Test
    void serveMetricsNamesWhatIsWrong() {
        assertThat(run(new ServeMetricsCommand())).isEqualTo(2);
        assertThat(run(new ServeMetricsCommand(), "--all", "--listen", "9464")).isEqualTo(2);
        assertThat(errors.toString()).contains("'9464' is not HOST:PORT");
        assertThat(run(new ServeMetricsCommand(), "--pid", "" + Integer.MAX_VALUE)).isEqualTo(1);
        assertThat(errors.toString()).contains("there is no process " + Integer.MAX_VALUE);
        assertThat(run(new ServeMetricsCommand(), "--all", "--listen", "192.0.2.1:80"))
                .isEqualTo(1);
        assertThat(errors.toString()).contains("cannot listen on 192.0.2.1:80");
    }

    /// Those of the process itself, or of one that it has started.
    @ParameterizedTest
    @ValueSource(
            strings = {
                "bench --listen DIR/address",
                "fullmesh --listen --ranks=1 --address-file=DIR/address",
                "soak --ranks=2 --path=tcp --folder=DIR/events"
            })
    void commandsThatRunLongServeTheirOwnCounters(String words, @TempDir Path folder)
            throws Exception {
        String line = words.replace("DIR", folder.toString()) + " --metrics 127.0.0.1:0";
        Process command = start(Main.class, line.split(" "));
        BufferedReader out =
                new BufferedReader(new InputStreamReader(command.getInputStream(), UTF_8));
        String url = out.readLine().substring("metrics on ".length());
        assertThat(out.readLine()).as("what it says of itself").isNotBlank();
        long end = System.nanoTime() + LIMIT.multipliedBy(4).toNanos(); // to start ranks, too
        String page = get(url, 200);
        while (!shows(page, command)) {
            assertThat(System.nanoTime()).as("time to publish: %s", page).isLessThan(end);
            LockSupport.parkNanos(50_000_000); // its counters are published by the next tick
            page = get(url, 200);
        }
        assertThat(page).doesNotContain("pid=\"" + pid + "\"");
        List<ProcessHandle> ranks = command.descendants().toList();
        command.toHandle().destroy(); // and it ends what it has started
        for (ProcessHandle rank : ranks) {
            rank.onExit().get(20, TimeUnit.SECONDS);
        }
    }

    /// Whether a page has the counters of a process, or of one that it has started.
    private static boolean shows(String page, Process command) {
        return Stream.concat(Stream.of(command.toHandle()), command.descendants())
                .map(one -> "telpher_process_readable{pid=\"" + one.pid() + "\"} 1")
                .anyMatch(page::contains);
    }

    @Test
    void metricsOptionNamesWhatIsWrong() {
        Object bench = new BenchCommand();
        assertThat(run(bench, "--listen", "--metrics", "9464")).isEqualTo(2);
        assertThat(errors.toString()).contains("--metrics: '9464' is not HOST:PORT");
        assertThat(run(bench, "--listen", "--metrics", "192.0.2.1:80")).isEqualTo(1);
        assertThat(errors.toString()).contains("--metrics: cannot listen on 192.0.2.1:80");
    }

    private String serve(String... which) throws IOException {
        List<String> arguments = new ArrayList<>(List.of("serve-metrics"));
        arguments.addAll(Arrays.asList(which));
        arguments.addAll(List.of("--listen", "127.0.0.1:0"));
        Process server = start(Main.class, arguments.toArray(String[]::new));
        String line =
                new BufferedReader(new InputStreamReader(server.getInputStream(), UTF_8))
                        .readLine();
        assertThat(line).startsWith("metrics on http://127.0.0.1:");
        return line.substring("metrics on ".length());
    }

    private static String get(String url, int status) throws IOException, InterruptedException {
        try (HttpClient client = HttpClient.newHttpClient()) {
            HttpResponse<String> response =
                    client.send(
                            HttpRequest.newBuilder(URI.create(url)).timeout(LIMIT).build(),
                            HttpResponse.BodyHandlers.ofString());
            assertThat(response.statusCode()).isEqualTo(status);
            if (status == 200) {
                assertThat(response.headers().firstValue("Content-Type"))
                        .hasValue(PrometheusText.CONTENT_TYPE);
            }
            return response.body();
        }
    }

    private static double value(String page, String series) {
        return page.lines()
                .filter(line -> line.startsWith(series + " "))
                .mapToDouble(line -> Double.parseDouble(line.substring(series.length() + 1)))
                .findFirst()
                .orElseThrow();
    }

    private static double sum(String page, String name) {
        return page.lines()
                .filter(line -> line.startsWith(name + "{"))
                .mapToDouble(line -> Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1)))
                .sum();
    }
}

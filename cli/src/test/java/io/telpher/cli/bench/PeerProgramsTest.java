package io.telpher.cli.bench;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.cli.Json;
import io.telpher.cli.Tool;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// `bench --compare ucx,iperf3` on imitations that take the real programs' options and print what
/// those print, and on the programs themselves where they are installed.
class PeerProgramsTest {
    /// Notes how it was called. Its figures tell its tests apart.
    private static final String UCX_PERFTEST =
            """
            import getopt, os, socket, sys
            MIBPS = {"ucp_put_bw": 4000, "tag_bw": 1000, "ucp_am_bw": 2000}
            USEC = {"ucp_put_lat": 5, "tag_lat": 2, "ucp_am_lat": 3, "ucp_get": 7}
            variables = [n + "=" + os.environ[n] for n in ("UCX_TLS", "UCX_NET_DEVICES") if n in os.environ]
            options, hosts = getopt.gnu_getopt(sys.argv[1:], "p:t:s:n:w:O:R:fv")
            options = dict(options)
            if not hosts:
                with socket.create_server(("127.0.0.1", int(options["-p"]))) as server:
                    server.accept()[0].recv(1)
                sys.exit()
            with open(os.path.join(os.path.dirname(sys.argv[0]), "calls"), "a") as calls:
                print(*variables, *sys.argv[1:], file=calls)
            socket.create_connection((hosts[0], int(options["-p"])))
            if os.environ.get("UCX_FAILS"):
                sys.exit("[1795824015.1] [host:7:0] perftest.c:900 UCX  ERROR Input/output error")
            test, size, count = options["-t"], int(options["-s"]), int(options["-n"])
            usec = USEC[test] if test in USEC else size / MIBPS[test] / 1.048576
            shown = usec * 2 if options["-R"] == "99" else usec
            rate = MIBPS.get(test, size / usec / 1.048576)
            print("iterations,%s.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr" % options["-R"])
            print("%d,%.3f,%.3f,%.3f,%.2f,%.2f,%d,%d" % (count, shown, usec * 3, usec * 3, rate, rate, 1e6 / usec, 1e6 / usec))
            """;

    private static final String IPERF3 =
            """
            import getopt, json, os, socket, sys
            if sys.argv[1:] == ["--version"]:
                print("iperf 3.12 (cJSON 1.7.15)\\nLinux host 6.18")
                sys.exit()
            options, _ = getopt.getopt(sys.argv[1:], "s1p:c:JP:t:l:")
            options = dict(options)
            if "-s" in options:
                with socket.create_server(("127.0.0.1", int(options["-p"]))) as server:
                    server.accept()[0].recv(1)
                sys.exit()
            here = os.path.dirname(sys.argv[0])
            with open(os.path.join(here, "calls"), "a") as calls:
                print("iperf3", *sys.argv[1:], file=calls)
            socket.create_connection((options["-c"], int(options["-p"])))
            result = json.load(open(os.path.join(here, "iperf3.json")))
            result["end"]["sum_received"]["bytes"] = {"1": 1, "2": 3, "4": 2}[options["-P"]] * 10**9
            result["end"]["sum_received"]["seconds"] = 1.0
            print(json.dumps(result, indent="\\t"))
            """;

    /// Parts of the patterns of calls.
    private static final String TO = " 127\\.0\\.0\\.1 -p \\d+ -t ";

    private static final String SIZE = " -s 65536 -n \\d+ -w \\d+ -f -v -R ";
    private static final double MEBI = 1048576 / 1e9;

    @TempDir Path temp;
    private Path json;

    @BeforeEach
    void prepare() {
        json = temp.resolve("out.json");
    }

    /// @return variables with which the imitations are found before the programs
    private Map<String, String> imitations() throws IOException {
        String found = Tool.find("python3");
        assumeThat(found).as("python3 is missing (package python3)").isNotNull();
        // The program itself, which starts faster than a script that looks for it.
        List<String> ask = List.of(found, "-c", "import sys; print(sys.executable)");
        String python = Tool.run(ask, Map.of(), 60).text().strip();
        try (InputStream recorded = PeerProgramsTest.class.getResourceAsStream("iperf3.json")) {
            Files.copy(Objects.requireNonNull(recorded), temp.resolve("iperf3.json"));
        }
        program("ucx_perftest", "#!" + python + "\n" + UCX_PERFTEST);
        program("iperf3", "#!" + python + "\n" + IPERF3);
        program("ucx_info", "#!/bin/sh\necho '# Library version: 1.13.1'\n");
        return Map.of("PATH", temp + ":/usr/bin:/bin");
    }

    private void program(String name, String text) throws IOException {
        Path file = Files.writeString(temp.resolve(name), text, UTF_8);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rwxr-xr-x"));
    }

    private Tool.Output compare(Map<String, String> environment, String path, String... others) {
        List<String> arguments = new ArrayList<>(List.of(others));
        arguments.addAll(
                List.of(
                        "--compare=ucx,iperf3",
                        "--rounds=1",
                        "--path=" + path,
                        "--sizes=64K",
                        "--seconds=0.02",
                        "--patience=0",
                        "--json=" + json));
        return BenchProcess.run(environment, arguments.toArray(String[]::new));
    }

    /// The lines of the output whose fields have these values.
    private List<Map<String, Object>> lines(Map<String, ?> wanted) throws IOException {
        return Files.readAllLines(json).stream()
                .map(Json::parse)
                .filter(line -> line.entrySet().containsAll(wanted.entrySet()))
                .toList();
    }

    private double ratio(String peer, String tool, String op, long depth, String of)
            throws IOException {
        return number(
                Map.of(
                        "ratio",
                        "telpher/" + peer,
                        "tool",
                        tool,
                        "path",
                        "tcp",
                        "op",
                        op,
                        "depth",
                        depth,
                        "of",
                        of),
                "median");
    }

    private double ours(String op, long depth, String of) throws IOException {
        return ours("tcp", op, depth, of);
    }

    private double ours(String path, String op, long depth, String of) throws IOException {
        return number(Map.of("system", "telpher", "path", path, "op", op, "depth", depth), of);
    }

    private double number(Map<String, ?> wanted, String field) throws IOException {
        List<Map<String, Object>> found = lines(wanted);
        assertThat(found).as("lines with %s", wanted).hasSize(1);
        return ((Number) found.getFirst().get(field)).doubleValue();
    }

    /// @param expected patterns of calls
    private void checkCalls(String... expected) throws IOException {
        List<String> calls = Files.readAllLines(temp.resolve("calls"));
        for (String call : expected) {
            assertThat(calls).as(call).anyMatch(line -> line.matches(call));
        }
    }

    @Test
    void writesAreComparedWithThoseOfBoth() throws IOException {
        Tool.Output output = compare(imitations(), "mapped,tcp", "--op=write", "--depth=4");
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text()).contains("all data right").doesNotContain("not compared with");
        String put = TO + "ucp_put_bw" + SIZE + "50 -O 4";
        checkCalls(
                "UCX_TLS=posix,self" + put,
                "UCX_TLS=tcp UCX_NET_DEVICES=lo" + put,
                "iperf3 -c 127\\.0\\.0\\.1 -p \\d+ -J -P 4 -t 1 -l 65536");

        Map<String, ?> ucx =
                Map.of(
                        "system",
                        "ucx",
                        "version",
                        "1.13.1",
                        "client",
                        "c",
                        "tool",
                        "ucp_put_bw",
                        "op",
                        "write",
                        "transport",
                        "tcp");
        assertThat(number(ucx, "GBps")).isCloseTo(4000 * MEBI, withinPercentage(1));
        Map<String, ?> streams = Map.of("system", "iperf3", "version", "3.12", "tool", "-P 2");
        assertThat(number(streams, "GBps")).isEqualTo(3);
        checkRatio("ucx", "ucp_put_bw", "write", 4, "GBps", 4000 * MEBI);
        checkRatio("iperf3", "-P 1", "write", 4, "GBps", 1);
        checkRatio("iperf3", "best", "write", 4, "GBps", 3);
        assertThat(lines(Map.of("ratio", "telpher/iperf3", "path", "mapped"))).isEmpty();
        assertThat(lines(ucx).getFirst()).as("nobody looked").doesNotContainKey("wrong");
    }

    /// In flight the fastest test counts, one at a time that of the shortest time. UCX has no
    /// notifications: its sends are what they are compared with.
    @Test
    void notificationsAreComparedWithTheBestTestOfSends() throws IOException {
        Tool.Output output = compare(imitations(), "tcp", "--op=notify", "--depth=1,4");
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        String lo = "UCX_TLS=tcp UCX_NET_DEVICES=lo" + TO;
        checkCalls(
                lo + "tag_lat" + SIZE + "50",
                lo + "tag_lat" + SIZE + "99",
                lo + "ucp_am_lat" + SIZE + "99",
                lo + "tag_bw" + SIZE + "50 -O 4",
                lo + "ucp_am_bw" + SIZE + "50 -O 4");

        Map<String, ?> tag = Map.of("system", "ucx", "tool", "tag_lat", "op", "send");
        assertThat(number(tag, "us_p50")).isEqualTo(2);
        assertThat(number(tag, "us_p99")).isEqualTo(4);
        assertThat(lines(Map.of("ratio", "telpher/ucx", "op", "notify")))
                .isNotEmpty()
                .allMatch(line -> "send".equals(line.get("peer_op")));
        checkRatio("ucx", "best", "notify", 1, "us_p50", 2);
        checkRatio("ucx", "best", "notify", 1, "us_p99", 4);
        checkRatio("ucx", "ucp_am_lat", "notify", 1, "us_p50", 3);
        checkRatio("ucx", "tag_bw", "notify", 4, "GBps", 1000 * MEBI);
        checkRatio("ucx", "best", "notify", 4, "GBps", 2000 * MEBI);
    }

    /// Reads have no test of latency of their own.
    @Test
    void readsOneAtATimeHavePercentilesAndThoseInFlightNone() throws IOException {
        Map<String, String> unused = imitations();
        UcxPeer ucx = new UcxPeer(temp.resolve("ucx_perftest").toString(), List.of());
        PeerResult alone =
                ucx.measure("ucp_get", UcxPeer.POSIX, new Case(Op.READ, 65536, 1, 1), 0.01);
        assertThat(alone.usP50()).isEqualTo(7);
        assertThat(alone.usP99()).isEqualTo(14);
        checkCalls(
                "UCX_TLS=posix,self" + TO + "ucp_get" + SIZE + "50 -O 1",
                "UCX_TLS=posix,self" + TO + "ucp_get" + SIZE + "99 -O 1");
        PeerResult deep =
                ucx.measure("ucp_get", UcxPeer.POSIX, new Case(Op.READ, 65536, 1, 4), 0.01);
        assertThat(deep.usP50()).isNaN();
        assertThat(deep.gbps()).isCloseTo(65536 / 7e3, withinPercentage(1));
    }

    private void checkRatio(String peer, String tool, String op, long depth, String of, double its)
            throws IOException {
        assertThat(ratio(peer, tool, op, depth, of))
                .as("%s of %s at depth %d against %s of %s", of, op, depth, tool, peer)
                .isCloseTo(ours(op, depth, of) / its, withinPercentage(1));
    }

    @Test
    void figuresAreMeasuredAgainstThemAndWritten() throws IOException {
        Path table = temp.resolve("table.md");
        Tool.Output output =
                BenchProcess.run(
                        imitations(),
                        "--figures=shm-write-8-rate,tcp-write-64K,tcp-write-1M-iperf3",
                        "--rounds=1",
                        "--seconds=0.02",
                        "--patience=0",
                        "--markdown=" + table,
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        checkCalls("iperf3 -c 127\\.0\\.0\\.1 -p \\d+ -J -P 1 -t 1 -l 1048576");
        checkFigure("shm-write-8-rate", 10, ours("mapped", "write", 16, "GBps") * 1e3 / 8);
        checkFigure("tcp-write-64K", 1, ours("write", 1, "us_p50") / 5);
        checkFigure("tcp-write-1M-iperf3", 1.8, ours("write", 16, "GBps") / 3);
        assertThat(table)
                .content()
                .contains("of 1 rounds")
                .contains("TCP, 64 KiB write completed, p50 / UCX ucp_put_lat | ");
    }

    private void checkFigure(String name, double bar, double value) throws IOException {
        Map<String, ?> metric = Map.of("metric", "figure " + name);
        assertThat(number(metric, "value")).as(name).isCloseTo(value, withinPercentage(1));
        assertThat(number(metric, "reference")).as(name).isEqualTo(bar);
    }

    @Test
    void oneThatFailsEndsItWithWhatItSaid() throws IOException {
        Map<String, String> environment = new HashMap<>(imitations());
        environment.put("UCX_FAILS", "1");
        Tool.Output output = compare(environment, "tcp", "--op=write", "--depth=4");
        assertThat(output.exitCode()).isEqualTo(1);
        assertThat(output.error())
                .startsWith("telpher bench: ucx_perftest -t ucp_put_bw over tcp ended with exit")
                .contains("Input/output error")
                .doesNotContain("\tat ");
    }

    @Test
    void theProgramsThemselvesAreUnderstood() throws IOException {
        assumeThat(Tool.find("ucx_perftest")).as("(package ucx-utils)").isNotNull();
        assumeThat(Tool.find("iperf3")).as("(package iperf3)").isNotNull();
        Tool.Output output = compare(Map.of(), "tcp", "--op=write", "--depth=4");
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(number(Map.of("system", "ucx", "tool", "ucp_put_bw"), "GBps")).isPositive();
        assertThat(ratio("ucx", "ucp_put_bw", "write", 4, "GBps")).isPositive();
        assertThat(ratio("iperf3", "best", "write", 4, "GBps")).isPositive();
    }
}

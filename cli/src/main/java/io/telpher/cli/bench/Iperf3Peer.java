package io.telpher.cli.bench;

import io.telpher.cli.Tool;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/// iperf3 over loopback, with 1, 2 and 4 streams: what the kernel's TCP gives without a protocol on
/// top.
final class Iperf3Peer implements Peer {
    /// The package that brings it.
    static final String PACKAGE = "iperf3";

    private static final long LEAST_BYTES = 64 << 10;

    /// The longest `-l` that it takes.
    private static final long MOST_BYTES = 1 << 20;

    /// How many TCP connections it is tried with.
    static final List<Integer> STREAMS = List.of(1, 2, 4);

    private final String program;
    private final List<Integer> cores;
    private final String version;

    private Iperf3Peer(String program, List<Integer> cores) {
        this.program = program;
        this.cores = cores;
        String text = Tool.run(List.of(program, "--version"), Map.of(), 10).text();
        String[] words = text.strip().split("\\s+");
        this.version = words.length > 1 ? words[1] : "unknown";
    }

    /// @return the peer, or null when it is not installed
    static @Nullable Iperf3Peer find(List<Integer> cores) {
        String program = Tool.find("iperf3");
        return program == null ? null : new Iperf3Peer(program, cores);
    }

    @Override
    public String system() {
        return "iperf3";
    }

    @Override
    public List<PeerResult> measure(Stage stage, Case test, double seconds) {
        List<PeerResult> results = new ArrayList<>();
        if (stage.transport().equals("tcp") && test.depth() > 1 && test.bytes() >= LEAST_BYTES) {
            for (int streams : STREAMS) {
                results.add(measure(streams, test.bytes(), seconds));
            }
        }
        return results;
    }

    /// Runs it once.
    ///
    /// @param streams TCP connections
    /// @param bytes that are written and read by a system call, as far as it can
    PeerResult measure(int streams, long bytes, double seconds) {
        long length = Math.min(bytes, MOST_BYTES);
        int port = Ports.free();
        Process server = null;
        try {
            List<String> listen = List.of(program, "-s", "-1", "-p", "" + port);
            server = Tool.start(UcxPeer.pinned(cores, 1, listen), Map.of());
            if (!Ports.awaitListener(port)) {
                throw new BenchFailure("iperf3 does not listen on port " + port);
            }
            List<String> client = new ArrayList<>();
            client.addAll(List.of(program, "-c", "127.0.0.1", "-p", "" + port, "-J"));
            client.addAll(List.of("-P", "" + streams, "-t", "" + Math.max(1, Math.round(seconds))));
            client.addAll(List.of("-l", "" + length));
            Tool.Output output = Tool.run(UcxPeer.pinned(cores, 0, client), Map.of(), 60);
            if (output.exitCode() != 0) {
                throw new BenchFailure(
                        "iperf3 ended with exit code " + output.exitCode() + ": " + error(output));
            }
            Summary summary = Summary.parse(output.text());
            return new PeerResult(
                    system(),
                    version,
                    "c",
                    "-P " + streams,
                    "tcp",
                    "tcp",
                    "own",
                    "write",
                    "-t %d -l %d, %s"
                            .formatted(
                                    Math.max(1, Math.round(seconds)), length, UcxPeer.where(cores)),
                    0,
                    summary.gbps(),
                    Double.NaN,
                    Double.NaN,
                    summary.cpuPerGb(),
                    OptionalLong.empty());
        } catch (IOException e) {
            throw new BenchFailure("cannot start iperf3: " + e.getMessage(), e);
        } finally {
            if (server != null) {
                Tool.end(server);
            }
        }
    }

    private static String error(Tool.Output output) {
        Matcher matcher = Pattern.compile("\"error\"\\s*:\\s*\"([^\"]*)\"").matcher(output.text());
        return matcher.find() ? matcher.group(1) : output.error().strip();
    }

    /// The end of `iperf3 -J`.
    ///
    /// @param bytes received
    /// @param seconds it took
    /// @param cpuPercent of one core, both sides together
    record Summary(double bytes, double seconds, double cpuPercent) {
        /// @throws IllegalArgumentException when the text has no such end
        static Summary parse(String json) {
            int end = json.lastIndexOf("\"sum_received\"");
            if (end < 0) {
                throw new IllegalArgumentException("iperf3 printed no \"sum_received\"");
            }
            String tail = json.substring(end);
            return new Summary(
                    number(tail, "bytes"),
                    number(tail, "seconds"),
                    number(tail, "host_total") + number(tail, "remote_total"));
        }

        private static double number(String json, String name) {
            Matcher matcher =
                    Pattern.compile("\"" + name + "\"\\s*:\\s*([-+0-9.eE]+)").matcher(json);
            if (!matcher.find()) {
                throw new IllegalArgumentException("iperf3 printed no \"" + name + "\"");
            }
            return Double.parseDouble(matcher.group(1));
        }

        double gbps() {
            return bytes / seconds / 1e9;
        }

        double cpuPerGb() {
            return cpuPercent / 100 * seconds / (bytes / 1e9);
        }
    }
}

package io.telpher.cli.bench;

import io.telpher.cli.Tool;
import io.telpher.topology.Gid;
import io.telpher.topology.NicPort;
import io.telpher.topology.NicPort.Fabric;
import io.telpher.topology.Topology;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/// `perftest`, the benchmarks of rdma-core's makers: verbs with nothing on top, from C. Its client
/// uses the first port that can be used, its server the port at the other end of the cable where
/// that is in this machine, or else the same one.
final class PerftestPeer implements Peer {
    /// The package that brings it.
    static final String PACKAGE = "perftest";

    private static final int SECONDS = 120;

    private final List<Integer> cores;
    private final String version;
    private final Ends ends;
    private final Map<String, Double> secondsPerOperation = new HashMap<>();

    private PerftestPeer(List<Integer> cores, Ends ends, String version) {
        this.cores = cores;
        this.ends = ends;
        this.version = version;
    }

    /// The ports that it uses.
    record Ends(NicPort client, NicPort server) {
        /// @return null where no port can be used
        static @Nullable Ends of(List<NicPort> ports) {
            List<NicPort> usable =
                    ports.stream()
                            .filter(p -> p.state() == NicPort.State.UP && p.gid().isPresent())
                            .filter(p -> p.fabric() != Fabric.OTHER_RDMA)
                            .toList();
            for (NicPort one : usable) {
                for (NicPort other : usable) {
                    if (!one.equals(other) && neighbours(one, other)) {
                        return new Ends(one, other);
                    }
                }
            }
            return usable.isEmpty() ? null : new Ends(usable.getFirst(), usable.getFirst());
        }

        /// Two IPv4 addresses that differ in the last number only.
        private static boolean neighbours(NicPort one, NicPort other) {
            String a = one.gid().map(Gid::address).orElse("");
            String b = other.gid().map(Gid::address).orElse("");
            return a.contains(".")
                    && b.contains(".")
                    && a.substring(0, a.lastIndexOf('.'))
                            .equals(b.substring(0, b.lastIndexOf('.')));
        }
    }

    /// @param missing gets why there is none
    /// @return the peer, or null
    static @Nullable PerftestPeer find(List<Integer> cores, List<String> missing) {
        String program = Tool.find("ib_write_bw");
        if (program == null) {
            missing.add("perftest: ib_write_bw is missing (package " + PACKAGE + ")");
            return null;
        }
        Ends ends = Ends.of(Topology.here().ports());
        if (ends == null) {
            missing.add(
                    "perftest: no port of an RDMA device is active (telpher doctor --only rdma)");
            return null;
        }
        String text = Tool.run(List.of(program, "--version"), Map.of(), 10).text().strip();
        String[] words = text.split("\\s+");
        return new PerftestPeer(cores, ends, words[words.length - 1]);
    }

    @Override
    public String system() {
        return "perftest";
    }

    @Override
    public List<PeerResult> measure(Stage stage, Case test, double seconds) {
        String tool = stage.transport().equals("verbs") ? tool(test) : null;
        return tool == null ? List.of() : List.of(measure(tool, test, seconds));
    }

    /// @return which of its programs does what a row does, or null
    static @Nullable String tool(Case test) {
        if (test.pieces() > 1) {
            return null;
        }
        boolean single = test.depth() == 1;
        return switch (test.op()) {
            case WRITE -> single ? null : "ib_write_bw";
            case READ -> single ? "ib_read_lat" : "ib_read_bw";
            // Its latency is until the target sees the bytes in its memory, which it polls.
            case COUNTER -> single ? "ib_write_lat" : null;
            case SEND, NOTIFY -> single ? "ib_send_lat" : "ib_send_bw";
        };
    }

    /// @return our word for what one of its programs does
    static String opOf(String tool) {
        return tool.split("_", 3)[1]; // ib_write_bw
    }

    private PeerResult measure(String tool, Case test, double seconds) {
        String key = tool + " " + test.bytes();
        double each =
                secondsPerOperation.computeIfAbsent(key, k -> run(tool, test, 100).each(test));
        long count = Math.clamp(Math.round(seconds / each), 100, 10_000_000);
        IbPerftestOutput output = run(tool, test, count);
        secondsPerOperation.put(key, output.each(test));
        return new PeerResult(
                system(),
                version,
                "c",
                tool,
                "verbs",
                name(ends.client) + " to " + name(ends.server),
                "own",
                opOf(tool),
                "-n %d%s, %s"
                        .formatted(
                                count,
                                output.latency() ? "" : " -t " + test.depth(),
                                UcxPeer.where(cores)),
                output.iterations(),
                output.latency() ? test.bytes() / output.usP50() / 1e3 : output.gbps(),
                output.usP50(),
                output.usP99(),
                Double.NaN,
                OptionalLong.empty());
    }

    private static String name(NicPort port) {
        return port.name();
    }

    private IbPerftestOutput run(String tool, Case test, long count) {
        int port = Ports.free();
        Process server = null;
        try {
            server = Tool.start(command(1, ends.server, tool, test, count, port), Map.of());
            if (!Ports.awaitListener(port)) {
                throw new BenchFailure(tool + " does not listen on port " + port);
            }
            List<String> client = command(0, ends.client, tool, test, count, port);
            client.add("127.0.0.1");
            Tool.Output output = Tool.run(client, Map.of(), SECONDS);
            if (output.exitCode() != 0) {
                throw new BenchFailure(
                        "%s from %s to %s ended with exit code %d: %s"
                                .formatted(
                                        tool,
                                        name(ends.client),
                                        name(ends.server),
                                        output.exitCode(),
                                        (output.text() + output.error()).strip()));
            }
            return IbPerftestOutput.parse(output.text());
        } catch (IOException e) {
            throw new BenchFailure("cannot start " + tool + ": " + e.getMessage(), e);
        } finally {
            if (server != null) {
                Tool.end(server);
            }
        }
    }

    private List<String> command(
            int rank, NicPort at, String tool, Case test, long count, int port) {
        String[] device = at.name().split(":", 2);
        List<String> command = new ArrayList<>(List.of(tool, "-F", "-d", device[0]));
        command.addAll(List.of("-i", device.length > 1 ? device[1] : "1"));
        at.gid()
                .filter(gid -> gid.type() == Gid.Type.ROCE_V2)
                .ifPresent(gid -> command.addAll(List.of("-x", "" + gid.index())));
        command.addAll(List.of("-p", "" + port, "-s", "" + test.bytes(), "-n", "" + count));
        if (!tool.endsWith("_lat")) {
            command.addAll(List.of("-t", "" + test.depth()));
        }
        return new ArrayList<>(UcxPeer.pinned(cores, rank, command));
    }
}

package io.telpher.cli.bench;

import io.telpher.cli.Tool;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/// UCX, by its own benchmark `ucx_perftest`.
final class UcxPeer implements Peer {
    /// The package that brings it.
    static final String PACKAGE = "ucx-utils";

    /// Shared memory that the peer maps.
    static final String POSIX = "posix,self";

    /// Shared memory, and the kernel's copy between processes.
    static final String POSIX_CMA = "posix,cma,self";

    /// TCP; with `UCX_NET_DEVICES=lo`.
    static final String TCP = "tcp";

    /// Memory of two GPUs, which its packages for CUDA move; Debian's was built without.
    static final String CUDA = "cuda_copy,cuda_ipc,posix,self";

    private static final double CALIBRATION_SECONDS = 0.05;

    private final String program;
    private final String version;
    private final List<Integer> cores;
    private final Map<String, Double> secondsPerOperation = new HashMap<>();
    private final Map<String, Double> startUpCpu = new HashMap<>();
    private final List<String> remarks = new ArrayList<>();
    private boolean withoutGpus;

    /// @param program its `ucx_perftest`
    UcxPeer(String program, List<Integer> cores) {
        this.program = program;
        this.cores = cores;
        this.version = version();
    }

    /// @return the peer, or null when it is not installed
    static @Nullable UcxPeer find(List<Integer> cores) {
        String program = Tool.find("ucx_perftest");
        return program == null ? null : new UcxPeer(program, cores);
    }

    private static String version() {
        String info = Tool.find("ucx_info");
        if (info == null) {
            return "unknown";
        }
        String text = Tool.run(List.of(info, "-v"), Map.of(), 10).text();
        return text.lines()
                .map(String::strip)
                .filter(l -> l.startsWith("# Version ") || l.startsWith("# Library version: "))
                .map(l -> l.substring(l.lastIndexOf(' ') + 1))
                .findFirst()
                .orElse("unknown");
    }

    @Override
    public String system() {
        return "ucx";
    }

    @Override
    public boolean fits(Stage stage) {
        MemoryPair memory = stage.memory();
        return !memory.onGpu()
                || (stage.byGpu()
                        && stage.transport().equals("shm")
                        && memory.source().onGpu()
                        && memory.target().onGpu()
                        && Gpus.all().size() > 1
                        && !withoutGpus);
    }

    @Override
    public List<PeerResult> measure(Stage stage, Case test, double seconds) {
        List<PeerResult> results = new ArrayList<>();
        if (test.pieces() > 1) {
            return results;
        }
        try {
            for (String tool : tools(test)) {
                results.add(measure(tool, layers(stage, tool), test, seconds));
            }
        } catch (BenchFailure e) {
            if (!stage.memory().onGpu()) {
                throw e;
            }
            withoutGpus = true;
            remarks.add("ucx: not compared any more: " + e.getMessage());
        }
        return results;
    }

    @Override
    public List<String> remarks() {
        List<String> taken = List.copyOf(remarks);
        remarks.clear();
        return taken;
    }

    /// Which of its tests do what a row does.
    static List<String> tools(Case test) {
        boolean single = test.depth() == 1;
        return switch (test.op()) {
            case WRITE -> List.of(single ? "ucp_put_lat" : "ucp_put_bw");
            case READ -> List.of("ucp_get");
            case SEND, NOTIFY, COUNTER ->
                    single ? List.of("tag_lat", "ucp_am_lat") : List.of("tag_bw", "ucp_am_bw");
        };
    }

    /// The transports that it may use for a path of ours.
    static String layers(Stage stage, String tool) {
        if (stage.memory().onGpu()) {
            return CUDA;
        }
        if (stage.transport().equals("tcp")) {
            return TCP;
        }
        return stage.path().equals("mapped") && !tool.startsWith("tag") ? POSIX : POSIX_CMA;
    }

    /// Runs one of its tests.
    ///
    /// @param tool the test
    /// @param layers what `UCX_TLS` allows
    /// @param test size and depth
    /// @param seconds how long it should run
    PeerResult measure(String tool, String layers, Case test, double seconds) {
        boolean pingPong = tool.endsWith("_lat");
        String key = tool + " " + layers + " " + test.bytes();
        double each = guess(layers, test.bytes());
        if (!secondsPerOperation.containsKey(key)) {
            long few = Math.max(10, (long) (CALIBRATION_SECONDS / each));
            note(key, run(tool, layers, test, few, 50).output, test);
        }
        each = secondsPerOperation.getOrDefault(key, each);
        long count = Math.max(10, (long) (seconds / (pingPong ? 2 : 1) / each));
        Run median = run(tool, layers, test, count, 50);
        PerftestOutput output = median.output;
        note(key, output, test);
        double p50 = Double.NaN;
        double p99 = Double.NaN;
        // With several in flight its percentiles are of the time from one's end to the next one's.
        if (test.depth() == 1) {
            p50 = output.percentile();
            p99 = run(tool, layers, test, count, 99).output.percentile();
        }
        double moved = output.iterations() * (pingPong ? 2.0 : 1.0) * test.bytes() / 1e9;
        double base =
                startUpCpu.computeIfAbsent(
                        layers,
                        k -> run("tag_lat", layers, new Case(Op.SEND, 8, 1, 1), 1, 50).cpuSeconds);
        return new PeerResult(
                system(),
                version,
                "c",
                tool,
                layers.equals(TCP) ? "tcp" : "shm",
                layers,
                "own",
                opOf(tool),
                "UCX_TLS=%s%s, %s"
                        .formatted(layers, pingPong ? "" : " -O " + test.depth(), where(cores)),
                output.iterations(),
                output.gbps(),
                p50,
                p99,
                Math.max(0, median.cpuSeconds - base) / moved,
                OptionalLong.empty());
    }

    /// Notes how long an operation takes, so that the next run is as long as it should be: what
    /// runs for a tenth of the time meets less of what a machine does beside it.
    private void note(String key, PerftestOutput output, Case test) {
        double each = test.bytes() / (output.gbps() * 1e9);
        if (Double.isFinite(each) && each > 0) {
            secondsPerOperation.put(key, each);
        }
    }

    /// @return our word for what one of its tests does
    static String opOf(String tool) {
        if (tool.startsWith("ucp_get")) {
            return "read";
        }
        return tool.startsWith("tag") || tool.startsWith("ucp_am") ? "send" : "write";
    }

    private static double guess(String layers, long bytes) {
        return layers.equals(TCP) ? 10e-6 + bytes / 2e9 : 0.2e-6 + bytes / 10e9;
    }

    private record Run(PerftestOutput output, double cpuSeconds) {}

    private Run run(String tool, String layers, Case test, long count, int percentile) {
        int port = Ports.free();
        Map<String, String> environment = new HashMap<>();
        environment.put("UCX_TLS", layers);
        environment.put("UCX_WARN_UNUSED_ENV_VARS", "n");
        if (layers.equals(TCP)) {
            environment.put("UCX_NET_DEVICES", "lo");
        }
        if (layers.equals(CUDA)) {
            // The first process takes the first that it sees, the second one the second, and each
            // must see the other's to open its memory.
            environment.put(
                    "CUDA_VISIBLE_DEVICES",
                    "GPU-%s,GPU-%s".formatted(Gpus.of(1).uuid(), Gpus.of(0).uuid()));
        }
        Process server = null;
        try {
            server =
                    Tool.start(
                            CpuTimes.wrap(pinned(1, List.of(program, "-p", "" + port))),
                            environment);
            if (!Ports.awaitListener(port)) {
                throw new BenchFailure("ucx_perftest does not listen on port " + port);
            }
            List<String> client = new ArrayList<>();
            client.addAll(List.of(program, "127.0.0.1", "-p", "" + port, "-t", tool));
            client.addAll(List.of("-s", "" + test.bytes(), "-n", "" + count));
            client.addAll(List.of("-w", "" + Math.max(1, count / 20), "-f", "-v"));
            client.addAll(List.of("-R", "" + percentile));
            if (layers.equals(CUDA)) {
                client.addAll(List.of("-m", "cuda"));
            }
            if (!tool.endsWith("_lat")) {
                client.addAll(List.of("-O", "" + test.depth()));
            }
            Tool.Output output =
                    Tool.await(Tool.start(CpuTimes.wrap(pinned(0, client)), environment), 60);
            Tool.Output other = Tool.await(server, 5);
            if (output.exitCode() != 0) {
                throw new BenchFailure(
                        "ucx_perftest -t %s over %s ended with exit code %d: %s"
                                .formatted(
                                        tool, layers, output.exitCode(), output.error().strip()));
            }
            return new Run(
                    PerftestOutput.parse(output.text()),
                    CpuTimes.parse(output.error()) + CpuTimes.parse(other.error()));
        } catch (IOException e) {
            throw new BenchFailure("cannot start ucx_perftest: " + e.getMessage(), e);
        } finally {
            if (server != null) {
                Tool.end(server);
            }
        }
    }

    private List<String> pinned(int rank, List<String> command) {
        return pinned(cores, rank, command);
    }

    /// @return where both processes run, for people
    static String where(List<Integer> cores) {
        return cores.size() < 2 ? "not pinned" : "cores " + cores;
    }

    /// @return the command, kept on the core of a rank where there are several
    static List<String> pinned(List<Integer> cores, int rank, List<String> command) {
        String taskset = Tool.find("taskset");
        if (taskset == null || cores.size() < 2) {
            return command;
        }
        List<String> pinned = new ArrayList<>();
        pinned.addAll(List.of(taskset, "-c", "" + cores.get(rank)));
        pinned.addAll(command);
        return pinned;
    }
}

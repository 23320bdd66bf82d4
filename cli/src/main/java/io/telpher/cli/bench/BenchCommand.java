package io.telpher.cli.bench;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.cli.PeerArgument;
import io.telpher.cli.watch.MetricsOption;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// `telpher bench`.
@Command(
        name = "bench",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Measures throughput and latency, and checks every byte that it counts.",
            "",
            "Without options: two processes of this host, each on a core of its own, every path"
                    + " that works here, 8 B to 64 MiB, in less than two minutes.%n"
        },
        footer = {
            "",
            "Rows: time and percentiles are those of one operation at a time, throughput and"
                    + " rate those of the greatest depth. Writes and reads are timed from posting to"
                    + " completion, sends, notifications and counters one way (half of a ping-pong"
                    + " that the target polls), of a pair in one direction, one at a time;"
                    + " elsewhere no times of theirs are known. A percentile with * was taken over groups of"
                    + " operations that are too short for the clock. GB = 1e9 bytes.",
            "",
            "Two machines:",
            "  one$    telpher bench --listen bench.address",
            "  (copy bench.address to the other machine; it holds a secret)",
            "  other$  telpher bench --connect @bench.address",
            "",
            "Exit code: 0 done, 1 an operation failed or data was wrong, 2 wrong usage."
        })
public final class BenchCommand implements Callable<Integer> {
    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Option(
            names = "--transport",
            paramLabel = "LIST",
            split = ",",
            description = "Transports: shm, verbs, tcp, self. Default: shm and tcp.")
    private List<String> transports = new ArrayList<>();

    @Option(
            names = "--path",
            paramLabel = "LIST",
            split = ",",
            description =
                    "Paths: mapped, cma, shm-ring, verbs, verbs-ring, tcp, self; for memory of GPUs"
                            + " cuda-cumem, cuda-ipc, cuda-via-gpu, shm-ring, verbs-ring, tcp, self."
                            + " Default: for host memory all but verbs, verbs-ring and self; for"
                            + " GPUs the ways that they copy by without another one's help, and"
                            + " tcp.")
    private List<String> paths = new ArrayList<>();

    @Option(
            names = "--op",
            paramLabel = "LIST",
            description =
                    "Operations: write, read, send, notify, counter (a write that then changes a"
                            + " word which the target polls). Default: the first four, of which"
                            + " notify is swept up to 64K; for memory of GPUs and with --pieces the"
                            + " first three.")
    private @Nullable String ops;

    @Option(
            names = "--sizes",
            paramLabel = "LIST",
            description =
                    "Sizes, such as 8,4K,1M,64M. Default: ten from 8 to 64M; for memory that GPUs"
                            + " copy seven from 8 to 1G.")
    private @Nullable String sizes;

    @Option(
            names = "--depth",
            paramLabel = "LIST",
            defaultValue = "1,16",
            description = "Operations in flight; 1 measures latency. Default: ${DEFAULT-VALUE}.")
    private String depths;

    @Option(
            names = "--pieces",
            paramLabel = "N",
            defaultValue = "1",
            description = "Cuts each write, read or send into N pieces, scattered at the target.")
    private int pieces;

    @Option(
            names = "--list",
            description =
                    "Posts the writes and reads in flight as one list, and the next list when all"
                            + " of it have ended: as programs do that call Transfer.postAll.")
    private boolean list;

    @Option(
            names = "--lanes",
            paramLabel = "N",
            defaultValue = "0",
            description = "Lanes for each pair of network addresses. Default: the engine's choice.")
    private int lanes;

    @Option(
            names = "--memory",
            paramLabel = "SRC[:DST]",
            description =
                    "The memory that is read and that is written: telpher (allocated by it),"
                            + " foreign (the caller's), cuda (of a GPU, allocated by Telpher),"
                            + " cuda-foreign (of a GPU, by cuMemAlloc), pinned (telpher, beside"
                            + " cuda, and page-locked). Rank N has the N-th GPU. Default: foreign"
                            + " for cma, cuda for cuda-cumem and cuda-via-gpu, cuda-foreign for"
                            + " cuda-ipc, else telpher.")
    private @Nullable String memory;

    @Option(names = "--both-directions", description = "Runs the opposite flows at the same time.")
    private boolean bothDirections;

    @Option(
            names = "--pattern",
            paramLabel = "NAME",
            defaultValue = "pair",
            description = "pair, ring, all-to-all or incast (all others to rank 0).")
    private String pattern;

    @Option(
            names = "--ranks",
            paramLabel = "N",
            description = "Processes of a pattern. Default: 2 for pair, else 4.")
    private @Nullable Integer ranks;

    @Option(
            names = "--rounds",
            paramLabel = "N",
            description = "Measures everything N times. Default: 1; 5 with --compare or --figures.")
    private @Nullable Integer rounds;

    @Option(
            names = "--seconds",
            paramLabel = "S",
            defaultValue = "0",
            description = "Times each row for S seconds. Default: what fits into two minutes.")
    private double seconds;

    @Option(
            names = "--warm-up",
            paramLabel = "S",
            defaultValue = "5",
            description =
                    "Warms each operation up for S seconds at most. Default: 5; about 1 is used"
                            + " where the JIT compiler comes to rest.")
    private double warmUp;

    @Option(
            names = "--listen",
            paramLabel = "FILE",
            arity = "0..1",
            fallbackValue = "telpher-bench.address",
            description =
                    "Writes this machine's address to FILE (default ${FALLBACK-VALUE}) and waits"
                            + " for the other machine.")
    private @Nullable Path listen;

    @Option(
            names = "--connect",
            paramLabel = "@FILE|HOST:PORT",
            description =
                    "Runs against a machine that listens; HOST:PORT needs its secret in"
                            + " TELPHER_SECRET.")
    private @Nullable String connect;

    @Option(
            names = "--rails",
            paramLabel = "LIST",
            split = ",",
            description = "Network interfaces to use, by name or subnet.")
    private List<String> rails = new ArrayList<>();

    @Option(
            names = "--background",
            paramLabel = "OP:BYTES",
            description =
                    "Writes or reads beside the measured operations, such as write:64M. Sends and"
                            + " notifications need a receiver that takes them and are no load.")
    private @Nullable String background;

    @Option(
            names = "--idle",
            paramLabel = "N",
            description = "Measures what N connections cost that do nothing, then ends.")
    private @Nullable Integer idle;

    @Option(
            names = "--compare",
            paramLabel = "LIST",
            split = ",",
            description =
                    "Runs other programs in turn: ucx, iperf3, memcpy, cuda (the driver alone),"
                            + " perftest (verbs alone), the Python packages nixl, mooncake, uccl,"
                            + " and nccl (by PyTorch). 'all' is the same as --figures.")
    private List<String> compare = new ArrayList<>();

    @Option(
            names = "--install-peers",
            paramLabel = "LIST",
            arity = "0..1",
            split = ",",
            fallbackValue = "all",
            description =
                    "Installs the Python packages of LIST, or all, with pip into a virtual"
                            + " environment in the user's cache folder (hundreds of MB), and ends.")
    private List<String> installPeers = new ArrayList<>();

    @Option(
            names = "--figures",
            paramLabel = "LIST",
            arity = "0..1",
            split = ",",
            fallbackValue = "all",
            description =
                    "Measures the figures that this project promises, or those whose names"
                            + " begin with one of LIST, such as shm,tcp-write.")
    private List<String> figures = new ArrayList<>();

    @Option(
            names = "--patience",
            paramLabel = "S",
            defaultValue = "60",
            description =
                    "Seconds to spend, in all, on waiting until other programs are quiet and on"
                            + " repeating what they disturbed, in comparisons. Default:"
                            + " ${DEFAULT-VALUE}.")
    private double patience;

    @Option(names = "--json", paramLabel = "FILE", description = "Writes one JSON object per line.")
    private @Nullable Path json;

    @Option(
            names = "--html",
            paramLabel = "FILE",
            description = "Writes a report with charts, one file that opens without a network.")
    private @Nullable Path html;

    @Option(
            names = "--markdown",
            paramLabel = "FILE",
            description =
                    "Puts the table of --figures, or that of --compare, into FILE, between its"
                            + " markers.")
    private @Nullable Path markdown;

    @Option(
            names = "--no-pin",
            description = "Leaves the processes, and those of other programs, to the scheduler.")
    private boolean noPin;

    @Option(
            names = "--target",
            paramLabel = "poll|park",
            description =
                    "What a process does while others use its memory. Default: park beside writes"
                            + " and reads over verbs, which its NIC carries out, else poll.")
    private @Nullable String target;

    @Option(names = "--plant", hidden = true, defaultValue = "0")
    private long plant;

    @CommandLine.Mixin private MetricsOption metrics;

    @Override
    public Integer call() {
        PrintWriter out = spec.commandLine().getOut();
        BenchOptions options;
        try {
            options = options();
        } catch (IllegalArgumentException e) {
            throw new CommandLine.ParameterException(spec.commandLine(), e.getMessage());
        }
        try (MetricsOption.Served _ = metrics.start()) {
            run(options, new Table(out));
            return CommandLine.ExitCode.OK;
        } catch (BenchFailure | TelpherException e) {
            out.flush();
            spec.commandLine().getErr().println("telpher bench: " + e.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
    }

    private boolean wantsFigures() {
        return !figures.isEmpty() || compare.contains("all");
    }

    /// @return what the parsed options mean
    BenchOptions options() {
        Traffic traffic = Traffic.parse(pattern);
        boolean compared = wantsFigures() || !compare.isEmpty();
        List<Integer> inFlight = new ArrayList<>();
        for (String depth : depths.split(",")) {
            inFlight.add(positive("--depth", depth));
        }
        inFlight.sort(null);
        MemoryPair pair = memory == null ? null : MemoryPair.parse(memory);
        List<Op> wanted = new ArrayList<>();
        for (String op : ops(pair).split(",")) {
            wanted.add(Op.parse(op));
        }
        if (connect != null && traffic != Traffic.PAIR) {
            throw new IllegalArgumentException(
                    "--pattern needs processes of one host, not --connect");
        }
        if (connect != null) {
            PeerArgument.parse(connect);
            wantedPathsOfTwoMachines();
        }
        if (idle != null) {
            positive("--idle", idle.toString());
        }
        FigureList.choose(figures);
        PeerInstall.names(installPeers);
        if (!compare.contains("all")) {
            Peers.check(compare);
        }
        return new BenchOptions(
                transports,
                paths,
                wanted,
                sizes == null ? List.of() : Sizes.parseList(sizes),
                inFlight,
                positive("--pieces", Integer.toString(pieces)),
                list ? BenchOptions.Posting.LIST : BenchOptions.Posting.EACH,
                lanes,
                pair,
                bothDirections ? Traffic.Direction.BOTH : Traffic.Direction.ONE,
                traffic,
                ranks == null ? (traffic == Traffic.PAIR ? 2 : 4) : ranks,
                rounds == null ? (compared ? 5 : 1) : positive("--rounds", rounds.toString()),
                notNegative("--seconds", seconds),
                notNegative("--warm-up", warmUp),
                notNegative("--patience", patience),
                rails,
                background == null ? null : BenchOptions.Background.parse(background),
                json,
                html,
                markdown,
                noPin ? BenchOptions.Pinning.FREE : BenchOptions.Pinning.PINNED,
                target == null ? Stage.Waiting.SUITED : Stage.Waiting.parse(target));
    }

    private String ops(@Nullable MemoryPair pair) {
        if (ops != null) {
            return ops;
        }
        boolean gpu =
                pair == null ? paths.stream().anyMatch(Stage.GPU_PATHS::contains) : pair.onGpu();
        return gpu || pieces > 1 ? "write,read,send" : "write,read,send,notify";
    }

    private void wantedPathsOfTwoMachines() {
        if (paths.isEmpty() && transports.isEmpty()) {
            paths = List.of("tcp");
        }
    }

    private static double notNegative(String name, double value) {
        if (!(value >= 0)) {
            throw new IllegalArgumentException(
                    name + " is " + value + "; it must be a number of seconds, 0 or more");
        }
        return value;
    }

    private static int positive(String name, String text) {
        if (!text.strip().matches("\\d{1,9}") || Integer.parseInt(text.strip()) == 0) {
            throw new IllegalArgumentException(
                    name + " is '" + text + "'; it must be a number above 0");
        }
        return Integer.parseInt(text.strip());
    }

    private void run(BenchOptions options, Table table) {
        if (listen != null) {
            Hosts.listen(
                    "telpher bench",
                    listen,
                    Hosts.PORT,
                    rails,
                    Hosts.FOR_EVER,
                    table,
                    control -> new RankServer(control).serve());
            return;
        }
        if (!installPeers.isEmpty()) {
            boolean named = !installPeers.equals(List.of("all"));
            PeerInstall.ofUser().install(PeerInstall.names(installPeers), named, table);
            return;
        }
        table.remark(
                "telpher bench %s, %s, %s"
                        .formatted(Machine.version(), LocalDate.now(), Machine.describe()));
        if (options.onGpu()) {
            // Without a GPU that is the one thing to say.
            Device unused = Gpus.of(0);
            table.remark(Gpus.describe(options.ranks()));
        }
        Report report = options.html() == null ? null : new Report(options.html(), arguments());
        try {
            measure(options, table, report);
        } catch (RuntimeException e) {
            if (report != null) {
                try {
                    report.write(e.getMessage() == null ? e.toString() : e.getMessage());
                } catch (RuntimeException second) {
                    e.addSuppressed(second);
                }
            }
            throw e;
        }
        if (report != null) {
            report.write(null);
            table.remark("report: " + options.html());
        }
    }

    private String arguments() {
        return String.join(" ", spec.commandLine().getParseResult().originalArgs());
    }

    private void measure(BenchOptions options, Table table, @Nullable Report report) {
        try (JsonLines lines = new JsonLines(options.json(), report)) {
            if (idle != null) {
                Figures.reportIdle(idle, options.wantedPaths(), table, lines);
                return;
            }
            List<Integer> cores = CrewFactory.cores(options, connect);
            if (wantsFigures()) {
                new Figures(options, figures, cores, table, lines).run();
                return;
            }
            try (Crew crew = new Crew(plant);
                    Peers peers = Peers.find(compare, cores);
                    Progress progress = new Progress()) {
                CrewFactory.fill(crew, options, connect, cores, table);
                Disturbance disturbance = new Disturbance();
                new Bench(options, crew, peers, table, lines, progress).run();
                disturbance.report(table, lines);
            }
        }
        table.remark("");
        table.remark("all data right");
    }
}

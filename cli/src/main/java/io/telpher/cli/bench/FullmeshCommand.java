package io.telpher.cli.bench;

import io.telpher.TelpherException;
import io.telpher.cli.PeerArgument;
import io.telpher.cli.bench.MeshResult.Mode;
import io.telpher.cli.watch.MetricsOption;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.OptionSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// `telpher fullmesh`.
@Command(
        name = "fullmesh",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Writes from every GPU of one host to every GPU of another, and checks every byte.",
            "",
            "  one$    telpher fullmesh --listen",
            "  (copy telpher-fullmesh.address to the other host; it holds a secret)",
            "  other$  telpher fullmesh --connect @telpher-fullmesh.address",
            "",
            "Where there is no GPU, host memory stands for "
                    + MeshHardware.HOST_RANKS
                    + " of them.%n"
        },
        footer = {
            "",
            "The connecting host is the source and decides what is measured. A pair's time begins"
                    + " with the round, by one clock for all pairs, and ends with the target's"
                    + " acknowledgement of its last write. GB = 1e9 bytes.",
            "",
            "Exit code: 0 done, 1 an operation failed or data was wrong, 2 wrong usage."
        })
public final class FullmeshCommand implements Callable<Integer> {
    /// The port of GPU 0 in the form `server GPU`; GPU n has the n-th after it.
    static final int FIRST_PORT = 7420;

    /// What the connecting host decides for both.
    private static final List<String> DECIDED =
            List.of(
                    "--lanes",
                    "--transport",
                    "--processes",
                    "--mode",
                    "--sizes",
                    "--depth",
                    "--seconds",
                    "--logs",
                    "--json");

    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Parameters(
            arity = "0..3",
            paramLabel = "server GPU | client IP GPU",
            description =
                    "One GPU of each host, as UCCL's launcher did: the same as --listen or"
                            + " --connect IP:PORT with --gpus GPU, where PORT is "
                            + FIRST_PORT
                            + " + GPU. Needs TELPHER_SECRET on both hosts.")
    private List<String> form = new ArrayList<>();

    @Option(names = "--listen", description = "Waits for the other host.")
    private boolean listen;

    @Option(
            names = "--address-file",
            paramLabel = "FILE",
            description =
                    "Where --listen writes this host's address. Default:"
                            + " telpher-fullmesh.address.")
    private @Nullable Path addressFile;

    @Option(
            names = "--connect",
            paramLabel = PeerArgument.LABEL,
            description =
                    "Runs against a host that listens; HOST:PORT needs its secret in"
                            + " TELPHER_SECRET.")
    private @Nullable String connect;

    @Option(
            names = "--wait",
            paramLabel = "S",
            defaultValue = "60",
            description = "Seconds to wait for the other host. Default: ${DEFAULT-VALUE}.")
    private int wait;

    @Option(
            names = "--memory",
            paramLabel = "cuda|host",
            description = "This host's memory. Default: that of the GPUs, where there are some.")
    private @Nullable String memory;

    @Option(
            names = "--gpus",
            paramLabel = "LIST",
            split = ",",
            description = "This host's GPUs, by number, such as 0,1. Default: all.")
    private List<Integer> gpus = new ArrayList<>();

    @Option(
            names = "--ranks",
            paramLabel = "N",
            description = "Ranks of host memory, in the place of GPUs.")
    private @Nullable Integer ranks;

    @Option(
            names = "--rails",
            paramLabel = "LIST",
            split = ",",
            description = "This host's network interfaces, by name or subnet. Default: all.")
    private List<String> rails = new ArrayList<>();

    @Option(
            names = "--transport",
            paramLabel = "LIST",
            split = ",",
            defaultValue = "tcp",
            description = "Transports: tcp, shm. Default: ${DEFAULT-VALUE}.")
    private List<String> transports = new ArrayList<>();

    @Option(
            names = "--lanes",
            paramLabel = "N",
            description =
                    "Lanes of each pair, for each pair of network addresses. Default: "
                            + FullmeshOptions.CHANNELS
                            + ", or else the engine's choice.")
    private @Nullable Integer lanes;

    @Option(
            names = "--processes",
            paramLabel = "one|per-gpu",
            defaultValue = "one",
            description =
                    "One process that owns all GPUs and NICs of a host, or one for each GPU."
                            + " Default: ${DEFAULT-VALUE}.")
    private String processes;

    @Option(
            names = "--mode",
            paramLabel = "LIST",
            split = ",",
            defaultValue = "all,pairs",
            description = "all: all pairs at once; pairs: pair by pair. Default: ${DEFAULT-VALUE}.")
    private List<String> modes = new ArrayList<>();

    @Option(
            names = {"--sizes", "--bytes"},
            paramLabel = "LIST",
            defaultValue = "64M",
            description = "Sizes of a write, such as 1M,64M. Default: ${DEFAULT-VALUE}.")
    private String sizes;

    @Option(
            names = "--depth",
            paramLabel = "N",
            defaultValue = "2",
            description = "Writes in flight for each pair. Default: ${DEFAULT-VALUE}.")
    private int depth;

    @Option(
            names = "--seconds",
            paramLabel = "S",
            defaultValue = "1",
            description = "How long each measurement takes. Default: ${DEFAULT-VALUE}.")
    private double seconds;

    @Option(
            names = "--logs",
            paramLabel = "FOLDER",
            defaultValue = "logs",
            description =
                    "Where a log for each pair goes, fullmesh_FROM_TO.log. Default:"
                            + " ${DEFAULT-VALUE}.")
    private Path logs;

    @Option(names = "--json", paramLabel = "FILE", description = "Writes one JSON object per line.")
    private @Nullable Path json;

    @Option(names = "--plant", hidden = true, defaultValue = "" + MeshRound.NONE)
    private int plant;

    @CommandLine.Mixin private MetricsOption metrics;

    @Override
    public Integer call() {
        FullmeshOptions options;
        MeshHardware hardware;
        try {
            readForm();
            options = options();
            hardware = MeshHardware.find(memory, ranks, gpus, rails);
        } catch (IllegalArgumentException e) {
            throw new CommandLine.ParameterException(spec.commandLine(), e.getMessage());
        }
        Table table = new Table(spec.commandLine().getOut());
        try (MetricsOption.Served _ = metrics.start()) {
            table.remark(
                    "telpher fullmesh %s, %s, %s"
                            .formatted(Machine.version(), LocalDate.now(), Machine.describe()));
            if (connect != null) {
                run(options, hardware, table, connect);
            } else {
                serve(hardware, table);
            }
            return CommandLine.ExitCode.OK;
        } catch (BenchFailure | TelpherException e) {
            spec.commandLine().getOut().flush();
            spec.commandLine().getErr().println("telpher fullmesh: " + e.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
    }

    /// `server GPU` and `client IP GPU`.
    private void readForm() {
        if (form.isEmpty()) {
            return;
        }
        boolean server = form.size() == 2 && form.getFirst().equals("server");
        boolean client = form.size() == 3 && form.getFirst().equals("client");
        if ((!server && !client) || !form.getLast().matches("\\d{1,3}")) {
            throw new IllegalArgumentException(
                    "'%s' is neither 'server GPU' nor 'client IP GPU', where GPU is a number"
                            .formatted(String.join(" ", form)));
        }
        if (listen || connect != null || !gpus.isEmpty()) {
            throw new IllegalArgumentException(
                    "'%s' stands for --listen or --connect, and --gpus: drop those"
                            .formatted(String.join(" ", form)));
        }
        int gpu = Integer.parseInt(form.getLast());
        gpus = List.of(gpu);
        listen = server;
        if (client) {
            String host = form.get(1);
            boolean bare = host.contains(":") && !host.startsWith("[");
            connect = (bare ? "[" + host + "]" : host) + ":" + (FIRST_PORT + gpu);
        } else if (System.getenv("TELPHER_SECRET") == null) {
            throw new IllegalArgumentException(
                    "'server GPU' needs TELPHER_SECRET in the environment, the same as the"
                            + " client's; or use --listen, which makes a secret");
        }
    }

    private FullmeshOptions options() {
        if (listen == (connect != null)) {
            throw new IllegalArgumentException("say either --listen or --connect");
        }
        if (wait < 1) {
            throw new IllegalArgumentException("--wait is " + wait + "; it must be above 0");
        }
        if (connect == null) {
            for (OptionSpec given : spec.commandLine().getParseResult().matchedOptions()) {
                if (DECIDED.contains(given.names()[0])) {
                    throw new IllegalArgumentException(
                            "the connecting host decides %s: say it there"
                                    .formatted(given.names()[0]));
                }
            }
        } else {
            if (addressFile != null) {
                throw new IllegalArgumentException("--address-file belongs to --listen");
            }
            PeerArgument.parse(connect);
        }
        return new FullmeshOptions(
                transports,
                connect == null ? 0 : FullmeshOptions.lanes(lanes, System.getenv()),
                depth,
                Sizes.parseList(sizes),
                seconds,
                modes.stream().map(Mode::parse).distinct().toList(),
                MeshPlan.Processes.parse(processes),
                logs,
                plant);
    }

    private void serve(MeshHardware hardware, Table table) {
        Path file = addressFile == null ? Path.of("telpher-fullmesh.address") : addressFile;
        int port = FIRST_PORT + (form.isEmpty() ? 0 : hardware.numbers().getFirst());
        Hosts.listen(
                "telpher fullmesh",
                file,
                port,
                rails,
                Duration.ofSeconds(wait),
                table,
                control -> new MeshServer(hardware, table).serve(control));
        table.remark("all data right");
    }

    private void run(FullmeshOptions options, MeshHardware hardware, Table table, String where) {
        try (JsonLines lines = new JsonLines(json, null);
                Hosts.Way way = Hosts.connect(where, rails, Duration.ofSeconds(wait))) {
            table.remark("connected with " + where);
            new Fullmesh(options, hardware, way.control(), table, lines).run();
        }
        table.remark("");
        table.remark("all data right");
    }
}

package io.telpher.cli.bench;

import io.telpher.TelpherException;
import io.telpher.cli.bench.MeshResult.Mode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/// A run of the full mesh, on the connecting host, whose ranks are the sources.
final class Fullmesh {
    /// How long before its start a round is announced, so that no source is late.
    private static final long AHEAD = 20_000_000;

    private static final double LONGEST_WARM_UP = 0.5;

    private final FullmeshOptions options;
    private final MeshHardware hardware;
    private final Control remote;
    private final Table table;
    private final JsonLines json;
    private final MeshLogs logs;
    private final List<String> sources = new ArrayList<>();
    private final List<String> targets = new ArrayList<>();
    private MemoryPair memory = MemoryPair.TELPHER;
    private long rounds;

    Fullmesh(
            FullmeshOptions options,
            MeshHardware hardware,
            Control remote,
            Table table,
            JsonLines json) {
        this.options = options;
        this.hardware = hardware;
        this.remote = remote;
        this.table = table;
        this.json = json;
        this.logs = new MeshLogs(options.logs());
    }

    /// Runs everything.
    ///
    /// @throws BenchFailure at the first error, of whatever host; the other one is told
    void run() {
        try {
            MeshPlan plan = options.plan(hardware.numbers().size());
            remote.send(plan.encode());
            List<Message> there = Message.all(expect("opened"));
            try (MeshSide own = new MeshSide(plan.withPeers(there.size()), hardware, true)) {
                begin(own.descriptions(), there);
                remote.send(Message.of("accept"));
                own.ask(Message.combine("connect", there), "connected", MeshSide.PATIENCE);
                Message unused = expect("accepted");
                measure(own);
            }
            remote.send(Message.of("end").with("failure", ""));
        } catch (BenchFailure | TelpherException e) {
            BenchFailure failure = explained(e);
            String text = String.valueOf(failure.getMessage());
            MeshServer.tell(remote, Message.of("end").with("failure", text));
            throw failure;
        }
    }

    private Message expect(String verb) {
        try {
            return remote.expect(verb, MeshSide.PATIENCE);
        } catch (BenchFailure e) {
            throw new BenchFailure("the other host: " + e.getMessage(), e);
        }
    }

    /// The other host may know better why a connection ended.
    private BenchFailure explained(RuntimeException failure) {
        String text = String.valueOf(failure.getMessage());
        if (remote.ready()) {
            try {
                Message message = remote.receive(Duration.ofSeconds(1));
                if (message.verb().equals("failed")) {
                    text += "; the other host: " + message.text("error");
                }
            } catch (BenchFailure lost) {
                text += "; " + lost.getMessage();
            }
        }
        return new BenchFailure(text, failure);
    }

    private void begin(List<Message> here, List<Message> there) {
        here.forEach(rank -> sources.add(rank.text("name")));
        there.forEach(rank -> targets.add(rank.text("name")));
        memory = new MemoryPair(kind(here), kind(there));
        table.remark(
                "from %s to %s, %s memory, processes: %s"
                        .formatted(names(here), names(there), memory, options.processes().word()));
        for (Message from : here) {
            for (Message to : there) {
                String header = label(from) + " -> " + label(to);
                logs.begin(from.text("name"), to.text("name"), header);
            }
        }
    }

    private static MemoryPair.Kind kind(List<Message> ranks) {
        return ranks.getFirst().text("device").isEmpty()
                ? MemoryPair.Kind.TELPHER
                : MemoryPair.Kind.CUDA;
    }

    private static String names(List<Message> ranks) {
        return ranks.stream().map(rank -> rank.text("name")).collect(Collectors.joining(", "));
    }

    private static String label(Message rank) {
        String device = rank.text("device");
        return rank.text("name") + (device.isEmpty() ? " (host memory)" : " = " + device);
    }

    private void measure(MeshSide own) {
        for (long bytes : options.sizes()) {
            double warm = Math.min(LONGEST_WARM_UP, options.seconds() / 2);
            List<MeshResult> unused =
                    round(own, Mode.ALL, bytes, MeshRound.ALL, MeshRound.ALL, warm);
            for (Mode mode : options.modes()) {
                if (mode == Mode.ALL) {
                    all(own, bytes);
                } else {
                    pairs(own, bytes);
                }
            }
        }
    }

    private void all(MeshSide own, long bytes) {
        List<MeshResult> results =
                round(own, Mode.ALL, bytes, MeshRound.ALL, MeshRound.ALL, options.seconds());
        MeshTable matrix = new MeshTable(sources, targets);
        for (MeshResult result : results) {
            keep(result, matrix);
        }
        MeshResult together = together(results);
        json.flow(together, test(bytes), memory, options.processes(), rounds);
        title(Mode.ALL, bytes);
        matrix.withSums().forEach(table::line);
        table.remark(
                String.format(
                        Locale.ROOT,
                        "all together: %s GB/s, %d writes in %.3f s until the last acknowledgement",
                        Table.figure(together.gbps()),
                        together.writes(),
                        together.seconds()));
    }

    private void pairs(MeshSide own, long bytes) {
        MeshTable matrix = new MeshTable(sources, targets);
        for (int from = 0; from < sources.size(); from++) {
            for (int to = 0; to < targets.size(); to++) {
                round(own, Mode.PAIRS, bytes, from, to, options.seconds())
                        .forEach(result -> keep(result, matrix));
            }
        }
        title(Mode.PAIRS, bytes);
        matrix.withoutSums().forEach(table::line);
        table.remark(matrix.spread());
    }

    private void title(Mode mode, long bytes) {
        table.remark("");
        table.remark(
                "%s, writes of %s, %d in flight for each pair, GB/s"
                        .formatted(mode.text(), Sizes.format(bytes), options.depth()));
    }

    private void keep(MeshResult result, MeshTable matrix) {
        matrix.put(sources.indexOf(result.from()), targets.indexOf(result.to()), result.gbps());
        logs.add(result.from(), result.to(), result.line());
        json.flow(result, test(result.bytes()), memory, options.processes(), rounds);
    }

    private Case test(long bytes) {
        return new Case(Op.WRITE, bytes, 1, options.depth());
    }

    /// The whole's time ends with the last acknowledgement of all.
    private static MeshResult together(List<MeshResult> results) {
        MeshResult first = results.getFirst();
        return new MeshResult(
                first.mode(),
                "all",
                "all",
                first.bytes(),
                results.stream().mapToLong(MeshResult::writes).sum(),
                results.stream().mapToDouble(MeshResult::seconds).max().orElseThrow(),
                Double.NaN,
                Double.NaN,
                Double.NaN,
                first.path(),
                results.stream().mapToInt(MeshResult::lanes).sum());
    }

    /// Writes for a while and checks what has arrived.
    ///
    /// @throws BenchFailure at the first wrong byte; says which pair's
    private List<MeshResult> round(
            MeshSide own, Mode mode, long bytes, int from, int to, double seconds) {
        MeshRound quiet = new MeshRound(++rounds, bytes, from, to, 0, seconds, options.spoiled());
        own.ask(quiet.encode("prepare"), "prepared", MeshSide.PATIENCE);
        remote.send(quiet.encode("serve"));
        MeshRound round = quiet.startingAt(System.nanoTime() + AHEAD);
        Duration atMost = MeshSide.PATIENCE.plusMillis((long) (seconds * 1e3));
        List<Message> written = own.ask(round.encode("write"), "written", atMost);
        remote.send(round.encode("check"));
        List<Message> verdicts = Message.all(expect("verdict"));
        for (int target = 0; target < verdicts.size(); target++) {
            check(verdicts.get(target), target);
        }
        List<MeshResult> results = new ArrayList<>();
        for (int source = 0; source < written.size(); source++) {
            for (Message flow : Message.all(written.get(source))) {
                String there = targets.get((int) flow.number("target"));
                results.add(
                        MeshResult.of(
                                mode, sources.get(source), there, bytes, round.start(), flow));
            }
        }
        return results;
    }

    private void check(Message verdict, int target) {
        if (verdict.has("wrong")) {
            String from = sources.get((int) verdict.number("source"));
            String to = targets.get(target);
            logs.add(from, to, "[FAIL] wrong data: " + verdict.text("wrong"));
            throw new BenchFailure(
                    "wrong data: %s -> %s: %s".formatted(from, to, verdict.text("wrong")));
        }
    }
}

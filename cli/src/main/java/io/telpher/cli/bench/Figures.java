package io.telpher.cli.bench;

import io.telpher.TelpherException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/// Measures the promised figures in one go: several rounds, in each of which Telpher and the peers
/// take turns.
final class Figures {
    private static final int IDLE_CONNECTIONS = 64;
    private static final int INCAST_RANKS = 9;

    private final BenchOptions options;
    private final List<String> names;
    private final List<Integer> cores;
    private final Table table;
    private final JsonLines json;

    Figures(
            BenchOptions options,
            List<String> names,
            List<Integer> cores,
            Table table,
            JsonLines json) {
        this.options = options;
        this.names = names;
        this.cores = cores;
        this.table = table;
        this.json = json;
    }

    /// Measures, prints, and writes the table where the user wants it.
    ///
    /// @throws BenchFailure when a figure cannot be measured for another reason than a missing peer
    void run() {
        List<Figure> chosen = FigureList.choose(names);
        Peers peers = Peers.find(Peers.ALL, cores);
        peers.missing().forEach(m -> table.remark("not compared with " + m));
        Map<Figure, List<Double>> values = new LinkedHashMap<>();
        chosen.forEach(figure -> values.put(figure, new ArrayList<>()));
        Comparison comparison = new Comparison();
        List<String> failures = new ArrayList<>();
        BenchOptions pair = options;
        try (Progress progress = new Progress();
                Crew crew = new Crew()) {
            CrewFactory.fill(crew, pair, null, cores, table);
            RowMeter meter = new RowMeter(crew);
            for (int number = 1; number <= options.rounds(); number++) {
                FigureRound round =
                        new FigureRound(
                                crew, meter, peers, json, progress, comparison, options, number);
                for (Figure figure : chosen) {
                    if (figure.source() != FigureList.ALONE) {
                        measure(figure, round, values, failures);
                    }
                }
                round.leave();
            }
        }
        alone(chosen, values);
        report(values);
        comparison.report(table, json);
        if (options.markdown() != null) {
            Markdown.write(options.markdown(), values, options.rounds());
        }
        if (!failures.isEmpty()) {
            throw new BenchFailure(String.join("; ", failures));
        }
    }

    private void measure(
            Figure figure,
            FigureRound round,
            Map<Figure, List<Double>> values,
            List<String> failures) {
        try {
            add(values, figure, figure.source().measure(round));
        } catch (TelpherException e) {
            round.leave();
            String failure = figure.name() + ": " + e.getMessage();
            if (!failures.contains(failure)) {
                failures.add(failure);
                table.remark(failure);
            }
        }
    }

    /// Figures with processes of their own.
    private void alone(List<Figure> chosen, Map<Figure, List<Double>> values) {
        for (Figure figure : chosen) {
            String path = figure.name().endsWith("tcp") ? "tcp" : "mapped";
            if (figure.name().startsWith("incast")) {
                add(values, figure, incast(path));
            } else if (figure.name().startsWith("idle")) {
                add(values, figure, idle(path).cpuShare() * 100);
            } else if (figure.name().startsWith("memory")) {
                IdleMeter.Result idle = idle(path);
                add(values, figure, (idle.heapBytes() + idle.nativeBytes()) / 1024);
            } else if (figure.name().startsWith("threads")) {
                IdleMeter.Result idle = idle(path);
                add(values, figure, (double) idle.threads() - idle.threadsAtOne());
            }
        }
    }

    private static void add(Map<Figure, List<Double>> values, Figure figure, double value) {
        values.computeIfAbsent(figure, f -> new ArrayList<>()).add(value);
    }

    private double incast(String path) {
        Stage stage =
                new Stage(
                        path,
                        MemoryPair.TELPHER,
                        options.lanes(),
                        options.rails(),
                        Traffic.INCAST,
                        Traffic.Direction.ONE,
                        INCAST_RANKS,
                        1 << 20,
                        options.waiting());
        try (Crew crew = new Crew()) {
            for (int rank = 1; rank < INCAST_RANKS; rank++) {
                RankProcess process = RankProcess.start(rank, List.of());
                crew.add(process.control(), process);
            }
            crew.open(stage);
            RowMeter meter = new RowMeter(crew);
            meter.warmUp(Op.WRITE);
            Row row = meter.measure(new Case(Op.WRITE, 1 << 20, 1, 4), 4);
            json.row(row, 1, crew.pins());
            json.metric("fairness of 8 senders over " + path, row.fairness(), "Jain's index", 1);
            crew.leave();
            return row.fairness();
        }
    }

    private final Map<String, IdleMeter.Result> idle = new LinkedHashMap<>();

    private IdleMeter.Result idle(String path) {
        return idle.computeIfAbsent(
                path, p -> reportIdle(IDLE_CONNECTIONS, List.of(p), table, json));
    }

    /// Measures idle connections over each of these paths.
    ///
    /// @return what the last one gave
    static IdleMeter.Result reportIdle(int count, List<String> paths, Table table, JsonLines json) {
        IdleMeter.Result result = new IdleMeter.Result(0, 0, 0, 0, 0, 0);
        for (String path : paths) {
            result = IdleMeter.measure(count, path);
            String over = "%d idle connections over %s".formatted(count, path);
            table.remark(
                    "%s: %s of a core, %s KiB heap and %s KiB native each, %d threads (%d with one)"
                            .formatted(
                                    over,
                                    Spread.percent(result.cpuShare()),
                                    Table.figure(result.heapBytes() / 1024),
                                    Table.figure(result.nativeBytes() / 1024),
                                    result.threads(),
                                    result.threadsAtOne()));
            json.metric("processor share, " + over, result.cpuShare(), "of a core", 0.01);
            json.metric("heap per connection, " + over, result.heapBytes(), "bytes", null);
            json.metric(
                    "native memory per connection, " + over, result.nativeBytes(), "bytes", null);
            json.metric("threads, " + over, result.threads(), "threads", result.threadsAtOne());
        }
        return result;
    }

    private void report(Map<Figure, List<Double>> values) {
        table.remark("");
        values.forEach(
                (figure, found) -> {
                    Spread spread = Spread.of(found);
                    table.remark(
                            "%-24s %-14s bar %s, aim %s: %s %s"
                                    .formatted(
                                            figure.name(),
                                            figure.verdict(spread),
                                            figure.barText(),
                                            figure.aimText(),
                                            spread,
                                            figure.unit()));
                    json.metric(
                            "figure " + figure.name(),
                            spread.median(),
                            figure.unit(),
                            figure.bar());
                });
    }
}

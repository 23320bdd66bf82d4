package io.telpher.cli.bench;

import io.telpher.TelpherException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Measures the promised figures in one go: several rounds, in each of which Telpher and the peers
/// take turns.
final class Figures {
    private static final int IDLE_CONNECTIONS = 64;
    private static final int INCAST_RANKS = 9;

    /// Rounds of figures with processes of their own, which take long and differ little.
    private static final int ROUNDS_ALONE = 3;

    private final BenchOptions options;
    private final List<String> names;
    private final List<Integer> cores;
    private final Table table;
    private final JsonLines json;
    private @Nullable Map<String, Double> rails;
    private final Map<String, IdleMeter.Result> idle = new LinkedHashMap<>();

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
        Peers peers = Peers.find(Peers.OF_FIGURES, cores);
        peers.missing().forEach(m -> table.remark("not compared with " + m));
        Map<Figure, List<Double>> values = new LinkedHashMap<>();
        chosen.forEach(figure -> values.put(figure, new ArrayList<>()));
        Comparison comparison = new Comparison();
        List<String> failures = new ArrayList<>();
        Disturbance disturbance = new Disturbance();
        try (Progress progress = new Progress()) {
            rounds(chosen, peers, progress, comparison, values, failures);
        }
        for (int round = 0; round < Math.min(ROUNDS_ALONE, options.rounds()); round++) {
            rails = null;
            idle.clear();
            alone(chosen, values, failures);
        }
        report(values);
        comparison.report(table, json);
        disturbance.report(table, json);
        if (options.markdown() != null) {
            Markdown.Part.FIGURES.write(
                    options.markdown(),
                    Markdown.figures(values, options.rounds()),
                    options.rounds(),
                    disturbance.share());
        }
        if (!failures.isEmpty()) {
            throw new BenchFailure(String.join("; ", failures));
        }
    }

    /// After a failure the processes are started anew, so that the other figures are still
    /// measured.
    private void rounds(
            List<Figure> chosen,
            Peers peers,
            Progress progress,
            Comparison comparison,
            Map<Figure, List<Double>> values,
            List<String> failures) {
        List<Figure> shared = chosen.stream().filter(f -> f.source() != FigureList.ALONE).toList();
        Quiet quiet = new Quiet(options.patience());
        int next = 0;
        int total = shared.size() * options.rounds();
        while (next < total) {
            try (Crew crew = new Crew()) {
                CrewFactory.fill(crew, options, null, cores, table);
                RowMeter meter = new RowMeter(crew, options.warmUp());
                FigureRound round = null;
                for (; next < total; next++) {
                    int number = 1 + next / shared.size();
                    if (round == null || round.number() != number) {
                        if (round != null) {
                            round.leave();
                        }
                        round =
                                new FigureRound(
                                        crew,
                                        meter,
                                        peers,
                                        json,
                                        progress,
                                        comparison,
                                        quiet,
                                        options,
                                        number);
                    }
                    Figure figure = shared.get(next % shared.size());
                    add(values, figure, figure.source().measure(round));
                }
            } catch (TelpherException | BenchFailure e) {
                String failure = shared.get(next % shared.size()).name() + ": " + e.getMessage();
                failures.add(failure);
                table.remark(failure);
                next++;
            }
        }
    }

    /// Figures with processes of their own.
    private void alone(
            List<Figure> chosen, Map<Figure, List<Double>> values, List<String> failures) {
        for (Figure figure : chosen) {
            try {
                alone(figure, values);
            } catch (TelpherException | BenchFailure e) {
                failures.add(figure.name() + ": " + e.getMessage());
                table.remark(failures.getLast());
            }
        }
    }

    private void alone(Figure figure, Map<Figure, List<Double>> values) {
        String path = figure.name().endsWith("tcp") ? "tcp" : "mapped";
        if (figure.name().startsWith("rails-")) {
            String missing = VethBench.missing();
            if (missing != null) {
                table.remark(figure.name() + ": " + missing);
                return;
            }
            if (rails == null) {
                rails = Map.of(); // not again for the other rates when it fails
                rails = VethBench.measure();
            }
            String rates = figure.name().substring("rails-".length());
            add(values, figure, rails.getOrDefault(rates, Double.NaN));
        } else if (figure.name().startsWith("incast")) {
            add(values, figure, incast(path));
        } else if (figure.name().startsWith("idle")) {
            add(values, figure, idle(path).cpuShare() * 100);
        } else if (figure.name().startsWith("memory")) {
            IdleMeter.Result found = idle(path);
            add(values, figure, (found.heapBytes() + found.nativeBytes()) / 1024);
        } else if (figure.name().startsWith("threads")) {
            IdleMeter.Result found = idle(path);
            add(values, figure, (double) found.threads() - found.threadsAtOne());
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
            RowMeter meter = new RowMeter(crew, options.warmUp());
            meter.warmUp(Op.WRITE, 1 << 20);
            Row row = meter.measure(new Case(Op.WRITE, 1 << 20, 1, 4), 4).checked();
            json.row(row, crew.lanes(), 1, crew.pins());
            json.metric("fairness of 8 senders over " + path, row.fairness(), "Jain's index", 1);
            crew.leave();
            return row.fairness();
        }
    }

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
                            "%-20s %-13s %s; %s %s"
                                    .formatted(
                                            figure.name(),
                                            figure.verdict(spread),
                                            spread.isKnown() ? spread + " " + figure.unit() : "-",
                                            figure.barText().isEmpty()
                                                    ? "no bar"
                                                    : "bar " + figure.barText(),
                                            figure.aimText().isEmpty()
                                                    ? ""
                                                    : "(aim " + figure.aimText() + ")"));
                    json.metric(
                            "figure " + figure.name(),
                            spread.median(),
                            figure.unit(),
                            Double.isNaN(figure.bar()) ? figure.aim() : figure.bar());
                });
    }
}

package io.telpher.cli.bench;

import io.telpher.TelpherException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/// One run of the sweep: for every round, stage and row, Telpher and then the peers that are
/// compared with.
final class Bench {
    private static final double PEER_SECONDS = 0.4;

    /// Copies of this size and more are put beside computations.
    private static final long LARGE_COPY = 256 << 20;

    private final BenchOptions options;
    private final Crew crew;
    private final Peers peers;
    private final Table table;
    private final JsonLines json;
    private final Progress progress;
    private final RowMeter meter;
    private final Quiet quiet;
    private final Comparison comparison = new Comparison();
    private final Versus versus = new Versus();
    private final Disturbance disturbance = new Disturbance();

    Bench(
            BenchOptions options,
            Crew crew,
            Peers peers,
            Table table,
            JsonLines json,
            Progress progress) {
        this.options = options;
        this.crew = crew;
        this.peers = peers;
        this.table = table;
        this.json = json;
        this.progress = progress;
        this.meter = new RowMeter(crew, options.warmUp());
        this.quiet = new Quiet(peers.present().isEmpty() ? 0 : options.patience());
    }

    /// Runs everything.
    ///
    /// @throws BenchFailure at the first error
    void run() {
        List<Plan.Part> parts = Plan.parts(options);
        int rows = parts.stream().mapToInt(p -> p.cases().size()).sum() * options.rounds();
        Plan.Budget budget = new Plan.Budget(options.seconds(), rows);
        peers.missing().forEach(m -> table.remark("not compared with " + m));
        int measured = 0;
        for (int round = 1; round <= options.rounds(); round++) {
            if (options.rounds() > 1) {
                table.remark("");
                table.remark("round " + round + " of " + options.rounds());
            }
            for (Plan.Part part : parts) {
                if (open(part, budget)) {
                    measure(part, round, budget);
                    measured++;
                    crew.leave();
                }
            }
        }
        if (parts.isEmpty()) {
            throw new BenchFailure("no operation of --op goes by these paths with this --memory");
        }
        if (measured == 0) {
            throw new BenchFailure("none of the paths is available here, see above");
        }
        comparison.report(table, json);
        if (options.markdown() != null && !peers.present().isEmpty()) {
            Markdown.Part.COMPARED.write(
                    options.markdown(), versus.table(), options.rounds(), disturbance.share());
        }
    }

    private boolean open(Plan.Part part, Plan.Budget budget) {
        Stage stage = part.stage();
        progress.show("connecting over " + stage.path() + " ...");
        try {
            crew.open(stage);
            table.begin(stage, options.depths());
            return true;
        } catch (TelpherException | BenchFailure e) {
            crew.leave();
            if (options.insistsOn(stage.path())) {
                throw new BenchFailure("path " + stage.path() + ": " + e.getMessage(), e);
            }
            table.remark("");
            table.remark(
                    "path %s is not available here: %s".formatted(stage.path(), e.getMessage()));
            budget.skip(part.cases().size());
            return false;
        }
    }

    private void measure(Plan.Part part, int round, Plan.Budget budget) {
        Op last = null;
        List<Row> line = new ArrayList<>();
        long largest = part.cases().stream().mapToLong(Case::bytes).max().orElse(1);
        for (int i = 0; i < part.cases().size(); i++) {
            Case test = part.cases().get(i);
            if (test.op() != last) {
                progress.show(
                        "warming up %s over %s".formatted(test.op().word(), part.stage().path()));
                meter.warmUp(test.op(), largest);
                last = test.op();
            }
            progress.show("round %d: %s over %s".formatted(round, test, part.stage().path()));
            double seconds = budget.next();
            Row row = quiet.measure(() -> measure(test, seconds));
            line.add(row);
            json.row(row, crew.lanes(), round, crew.pins());
            boolean ends =
                    row.wrong() > 0
                            || i + 1 == part.cases().size()
                            || part.cases().get(i + 1).bytes() != test.bytes()
                            || part.cases().get(i + 1).op() != test.op();
            if (ends) {
                table.row(line);
                line.clear();
            }
            row.checked();
            Map<String, List<PeerResult>> found = new LinkedHashMap<>();
            double beside = options.seconds() > 0 ? options.seconds() : PEER_SECONDS;
            for (Peer peer : peers.present()) {
                if (!peer.fits(part.stage())) {
                    continue;
                }
                progress.show("round %d: %s, %s".formatted(round, test, peer.system()));
                List<PeerResult> results =
                        quiet.measure(() -> peer.measure(part.stage(), test, beside));
                peer.remarks().forEach(table::remark);
                results.forEach(result -> json.peer(result, test, round));
                comparison.add(row, peer.system(), results);
                found.put(peer.system(), results);
            }
            versus.add(row, found);
        }
        if (round == 1) {
            metrics(part);
        }
    }

    private Row measure(Case test, double seconds) {
        BenchOptions.Background load = options.background();
        if (load == null) {
            return meter.measure(test, seconds);
        }
        Stand stand = crew.stand();
        try (Background background = new Background(stand, load, stand.room())) {
            Row row = meter.measure(test, seconds, background);
            double gbps = background.gbps();
            json.metric(
                    "background load, %s over %s beside %s"
                            .formatted(load.op().word(), row.stage().path(), test),
                    gbps,
                    "GB/s",
                    null);
            table.remark(
                    "  background %s of %s: %s GB/s"
                            .formatted(
                                    load.op().word(),
                                    Sizes.format(load.bytes()),
                                    Table.figure(gbps)));
            return row;
        }
    }

    private void metrics(Plan.Part part) {
        Stage stage = part.stage();
        if (stage.traffic() == Traffic.INCAST) {
            double seconds = Math.max(2, options.seconds());
            Row row = meter.measure(part.cases().getLast(), seconds).checked();
            String name =
                    "fairness, %s, incast of %d over %s"
                            .formatted(row.test(), stage.ranks(), stage.path());
            table.remark("  " + name + ": " + Table.figure(row.fairness()));
            json.metric(name, row.fairness(), "Jain's index", 1);
        }
        if (stage.traffic() != Traffic.PAIR) {
            return;
        }
        StringBuilder line = new StringBuilder();
        for (Op op : options.ops().stream().filter(stage::fits).toList()) {
            for (Phase.Style style : styles(op)) {
                double bytes = meter.allocatedPerOperation(op, style);
                String how = style == Phase.Style.TOKEN && op != Op.COUNTER ? "token" : "prepared";
                json.metric(
                        "allocated, %s, %s style, %s".formatted(op.word(), how, stage.path()),
                        bytes,
                        "bytes per operation",
                        0);
                line.append(
                        "%s%s %s %s"
                                .formatted(
                                        line.isEmpty() ? "" : ", ",
                                        op.word(),
                                        how,
                                        Table.figure(bytes)));
            }
        }
        table.remark("  bytes allocated per operation: " + line);
        long largest = part.cases().stream().mapToLong(Case::bytes).max().orElse(0);
        if (peers.cuda() != null && betweenGpus(stage) && largest >= LARGE_COPY) {
            progress.show("matrix products beside copies over " + stage.path());
            MatrixProducts.beside(
                    crew.stand(),
                    stage,
                    new BenchOptions.Background(Op.WRITE, largest),
                    Math.max(1, options.seconds()),
                    table,
                    json);
        }
        if (stage.rails().size() > 1 && stage.hasRails()) {
            part.cases().stream()
                    .filter(test -> test.op() == Op.WRITE)
                    .max(Comparator.comparingLong(Case::bytes).thenComparingInt(Case::depth))
                    .ifPresent(test -> sumOfRails(stage, test));
        }
    }

    private static boolean betweenGpus(Stage stage) {
        return stage.byGpu()
                && stage.memory().source().onGpu()
                && stage.memory().target().onGpu()
                && Gpus.all().size() >= MatrixProducts.GPUS;
    }

    /// Compares all rails together with each of them alone, which is open at the end.
    private void sumOfRails(Stage stage, Case test) {
        String what = test + " over " + stage.path();
        double seconds = Math.max(1, options.seconds());
        double together = meter.measure(test, seconds).checked().gbps();
        double sum = 0;
        for (String rail : stage.rails()) {
            crew.leave();
            crew.open(stage.withRails(List.of(rail)));
            Row alone = meter.measure(test, seconds).checked();
            json.metric(what + ", rail " + rail, alone.gbps(), "GB/s", null);
            table.remark("  rail %s alone: %s GB/s".formatted(rail, Table.figure(alone.gbps())));
            sum += alone.gbps();
        }
        table.remark(
                "  all rails together: %s GB/s, %s of their sum"
                        .formatted(Table.figure(together), Spread.percent(together / sum)));
        json.metric("sum of rails, " + what, together, "GB/s", sum);
    }

    private static List<Phase.Style> styles(Op op) {
        return switch (op) {
            case NOTIFY -> List.of(Phase.Style.TOKEN);
            case COUNTER -> List.of(Phase.Style.PREPARED);
            default -> List.of(Phase.Style.TOKEN, Phase.Style.PREPARED);
        };
    }
}

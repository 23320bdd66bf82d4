package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/// Collects the ratios of a run over its rounds: one line for each row, peer, test and figure.
final class Comparison {
    /// What a line compares.
    ///
    /// @param peer the other system
    /// @param tool its test, or `best`
    /// @param peerOp the word for what the test does
    /// @param stage ours
    /// @param test ours
    /// @param of the figure
    record Key(String peer, String tool, String peerOp, Stage stage, Case test, String of) {}

    private final Map<Key, List<Double>> ratios = new LinkedHashMap<>();

    /// Adds one round of one row. Results with wrong data are no results.
    void add(Row row, String peer, List<PeerResult> all) {
        List<PeerResult> results = all.stream().filter(r -> !r.isWrong()).toList();
        if (results.isEmpty()) {
            return;
        }
        for (PeerResult result : results) {
            add(row, peer, result.tool(), result);
        }
        if (results.size() > 1) {
            boolean deep = row.test().depth() > 1;
            Comparator<PeerResult> order =
                    deep
                            ? Comparator.comparingDouble(PeerResult::gbps)
                            : Comparator.comparingDouble(PeerResult::usP50).reversed();
            add(row, peer, "best", results.stream().max(order).orElseThrow());
        }
    }

    private void add(Row row, String peer, String tool, PeerResult result) {
        if (row.test().depth() > 1 || Double.isNaN(result.usP99())) {
            put(row, peer, tool, result, "GBps", row.gbps() / result.gbps());
        }
        if (row.test().depth() == 1) {
            put(row, peer, tool, result, "us_p50", row.usP50() / result.usP50());
            put(row, peer, tool, result, "us_p99", row.usP99() / result.usP99());
        }
        put(row, peer, tool, result, "cpu_s_per_GB", row.cpuPerGb() / result.cpuPerGb());
    }

    private void put(
            Row row, String peer, String tool, PeerResult result, String of, double ratio) {
        if (Double.isFinite(ratio)) {
            Key key = new Key(peer, tool, result.op(), row.stage(), row.test(), of);
            ratios.computeIfAbsent(key, k -> new ArrayList<>()).add(ratio);
        }
    }

    /// Prints every line and writes it as JSON.
    void report(Table table, JsonLines json) {
        if (ratios.isEmpty()) {
            return;
        }
        table.remark("");
        table.remark("Telpher / peer, median (least to greatest) over the rounds");
        ratios.forEach(
                (key, values) -> {
                    Spread spread = Spread.of(values);
                    table.remark(
                            "  %-9s %-28s %-12s / %s %s: %s"
                                    .formatted(
                                            key.stage.path(),
                                            key.test,
                                            key.of,
                                            key.peer,
                                            key.tool,
                                            spread));
                    json.ratio(key.peer, key.tool, key.peerOp, key.stage, key.test, key.of, spread);
                });
    }
}

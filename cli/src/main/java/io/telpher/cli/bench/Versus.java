package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/// What Telpher and the compared programs reached, side by side: one line for each row, a column
/// for each program and setting. One at a time the figure is the median time, in flight the
/// throughput.
final class Versus {
    /// Up to here half of the best peer's time is asked for.
    private static final long SHORT = 64 << 10;

    /// @param values of each program, a value a round
    /// @param ratios Telpher's to the best peer's of the same round
    private record Line(Map<String, List<Double>> values, List<Double> ratios) {
        void put(String who, double value) {
            values.computeIfAbsent(who, k -> new ArrayList<>()).add(value);
        }
    }

    private record Key(Stage stage, Case test) {}

    private static final String OURS = "Telpher";

    private final Map<Key, Line> lines = new LinkedHashMap<>();

    /// Adds one round of one row.
    ///
    /// @param results of all peers, by their system's name
    void add(Row row, Map<String, List<PeerResult>> results) {
        boolean deep = row.test().depth() > 1;
        double ours = deep ? row.gbps() : row.usP50();
        double best = Double.NaN;
        Line line =
                lines.computeIfAbsent(
                        new Key(row.stage(), row.test()),
                        k -> new Line(new LinkedHashMap<>(), new ArrayList<>()));
        line.put(OURS, ours);
        for (Map.Entry<String, List<PeerResult>> peer : results.entrySet()) {
            for (PeerResult result : peer.getValue()) {
                double value = deep ? result.gbps() : result.usP50();
                if (!result.isWrong() && Double.isFinite(value)) {
                    line.put(peer.getKey() + " " + result.tool(), value);
                    boolean better = deep ? value > best : value < best;
                    best = Double.isNaN(best) || better ? value : best;
                }
            }
        }
        line.ratios().add(ours / best);
    }

    /// @return the lines that were compared with anything, in Markdown
    String table() {
        TreeSet<String> peers = new TreeSet<>();
        lines.values().forEach(line -> peers.addAll(line.values().keySet()));
        peers.remove(OURS);
        StringBuilder text = new StringBuilder("| path | what | Telpher |");
        peers.forEach(peer -> text.append(" ").append(peer).append(" |"));
        text.append(" Telpher / best | bar | |\n|---|---|---|");
        text.append("---|".repeat(peers.size())).append("---|---|---|\n");
        lines.forEach(
                (key, line) -> {
                    if (line.values().size() == 1) {
                        return;
                    }
                    text.append("| %s | %s, %s | ".formatted(path(key), key.test(), unit(key)));
                    text.append(middle(line, OURS));
                    peers.forEach(peer -> text.append(" | ").append(middle(line, peer)));
                    text.append(
                            " | %s | %s | %s |\n"
                                    .formatted(
                                            Spread.of(line.ratios()),
                                            barText(key.test()),
                                            verdict(key.test(), Spread.of(line.ratios()))));
                });
        return text.toString();
    }

    private static String path(Key key) {
        return key.stage().path();
    }

    private static String unit(Key key) {
        return key.test().depth() > 1 ? "GB/s" : "us";
    }

    private static String middle(Line line, String who) {
        return Table.figure(Spread.of(line.values().getOrDefault(who, List.of())).median());
    }

    private static double bar(Case test) {
        return test.depth() == 1 && test.bytes() <= SHORT ? 0.5 : 1;
    }

    private static String barText(Case test) {
        return (test.depth() > 1 ? "at least %sx" : "at most %sx")
                .formatted(bar(test) == 1 ? "1" : "0.5");
    }

    private static String verdict(Case test, Spread ratio) {
        boolean good = test.depth() > 1 ? ratio.median() >= bar(test) : ratio.median() <= bar(test);
        return good ? "reached" : "missed";
    }
}

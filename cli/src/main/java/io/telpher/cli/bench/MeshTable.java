package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/// The matrix of a full mesh: a row for each source, a column for each target, GB/s.
final class MeshTable {
    private static final String CELL = "%10s";

    private final List<String> sources;
    private final List<String> targets;
    private final double[][] gbps;

    MeshTable(List<String> sources, List<String> targets) {
        this.sources = sources;
        this.targets = targets;
        this.gbps = new double[sources.size()][targets.size()];
    }

    void put(int source, int target, double value) {
        gbps[source][target] = value;
    }

    /// @return the lines, with a sum for each row and column
    List<String> withSums() {
        double[] columns = new double[targets.size()];
        for (double[] row : gbps) {
            Arrays.setAll(columns, i -> columns[i] + row[i]);
        }
        return lines(true, columns);
    }

    /// @return the lines; sums say nothing of pairs that did not run at the same time
    List<String> withoutSums() {
        return lines(false, new double[0]);
    }

    private List<String> lines(boolean sums, double[] columns) {
        List<String> lines = new ArrayList<>();
        lines.add(line("# from \\ to", targets, sums ? "sum" : ""));
        for (int i = 0; i < sources.size(); i++) {
            lines.add(line("  " + sources.get(i), cells(gbps[i]), sums ? sum(gbps[i]) : ""));
        }
        if (sums) {
            lines.add(line("  sum", cells(columns), sum(columns)));
        }
        return lines;
    }

    private static List<String> cells(double[] values) {
        return Arrays.stream(values).mapToObj(Table::figure).toList();
    }

    private static String sum(double[] values) {
        return Table.figure(Arrays.stream(values).sum());
    }

    private static String line(String name, List<String> cells, String sum) {
        String line =
                String.format(Locale.ROOT, "%-12s", name)
                        + cells.stream().map(CELL::formatted).collect(Collectors.joining())
                        + CELL.formatted(sum);
        return line.stripTrailing();
    }

    /// @return the slowest pair, the median and the fastest, for people
    String spread() {
        double[] all = Arrays.stream(gbps).flatMapToDouble(Arrays::stream).sorted().toArray();
        double median = (all[(all.length - 1) / 2] + all[all.length / 2]) / 2;
        return "slowest pair %s, median %s, fastest %s GB/s"
                .formatted(
                        Table.figure(all[0]),
                        Table.figure(median),
                        Table.figure(all[all.length - 1]));
    }
}

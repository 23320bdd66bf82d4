package io.telpher.cli.bench;

import java.io.PrintWriter;
import java.util.List;
import java.util.Locale;

/// The table on standard output, in the manner of nccl-tests: lines that start with `#` explain,
/// the others are rows. Latency columns come from depth 1, the throughput column from the greatest
/// depth of the row.
final class Table {
    private static final String FORMAT = "  %8s %9s %10s %10s %10s %9s %9s %9s %9s %6s%n";

    private final PrintWriter out;

    Table(PrintWriter out) {
        this.out = out;
    }

    /// Prints an explaining line, or several.
    void remark(String text) {
        out.println("# " + text.stripTrailing().replace("\n", "\n# "));
        out.flush();
    }

    /// Prints a line of a table of its own form.
    void line(String text) {
        out.println(text);
        out.flush();
    }

    /// Starts a stage.
    void begin(Stage stage, List<Integer> depths) {
        int deepest = depths.stream().mapToInt(Integer::intValue).max().orElse(1);
        out.println("#");
        remark(
                "path %s (%s), %s memory"
                        .formatted(stage.path(), stage.transport(), stage.memory()));
        out.printf(
                "#" + FORMAT.substring(1),
                "op",
                "size",
                "count",
                "time",
                "throughput",
                "rate",
                "p50",
                "p99",
                "p99.9",
                "wrong");
        out.printf(
                "#" + FORMAT.substring(1),
                "",
                "(B)",
                "",
                "(us)",
                "(GB/s)@" + deepest,
                "(Mop/s)",
                "(us)",
                "(us)",
                "(us)",
                "(B)");
        out.flush();
    }

    /// Prints the rows of one operation and size.
    ///
    /// @param rows one for each depth, rising
    void row(List<Row> rows) {
        Row first = rows.getFirst();
        Row last = rows.getLast();
        out.printf(
                FORMAT,
                first.test().op().word(),
                first.test().bytes(),
                rows.stream().mapToLong(Row::iterations).sum(),
                figure(first.usMean()),
                figure(last.gbps()),
                figure(last.millionsPerSecond()),
                figure(first.usP50()) + (first.group() > 1 ? "*" : ""),
                figure(first.usP99()),
                figure(first.usP999()),
                rows.stream().mapToLong(Row::wrong).sum());
        out.flush();
    }

    /// @return four significant digits, without an exponent
    static String figure(double value) {
        if (!Double.isFinite(value)) {
            return "-";
        }
        if (value == 0) {
            return "0";
        }
        int digits = Math.clamp(3 - (int) Math.floor(Math.log10(Math.abs(value))), 0, 6);
        return String.format(Locale.ROOT, "%." + digits + "f", value);
    }
}

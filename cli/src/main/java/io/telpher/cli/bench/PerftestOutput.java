package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/// Reads what `ucx_perftest -f -v` prints: a line of names and a line of values.
///
/// @param iterations operations
/// @param percentile the percentile that was asked for, in microseconds
/// @param overallBandwidth in MiB a second (the tool prints it as MB)
record PerftestOutput(long iterations, double percentile, double overallBandwidth) {
    /// @throws IllegalArgumentException when there is no such pair of lines
    static PerftestOutput parse(String text) {
        List<String> lines = text.lines().map(String::strip).filter(l -> !l.isEmpty()).toList();
        for (int i = lines.size() - 2; i >= 0; i--) {
            if (lines.get(i).startsWith("iterations,")) {
                return parse(lines.get(i), lines.get(i + 1));
            }
        }
        throw new IllegalArgumentException("ucx_perftest printed no result: " + text.strip());
    }

    private static PerftestOutput parse(String names, String values) {
        List<String> columns = new ArrayList<>(Arrays.asList(names.split(",")));
        String[] cells = values.split(",");
        if (cells.length != columns.size()) {
            throw new IllegalArgumentException(
                    "ucx_perftest printed %d values under %d names"
                            .formatted(cells.length, columns.size()));
        }
        columns.replaceAll(name -> name.endsWith("percentile_lat") ? "percentile_lat" : name);
        return new PerftestOutput(
                (long) cell(columns, cells, "iterations"),
                cell(columns, cells, "percentile_lat"),
                cell(columns, cells, "overall_bw"));
    }

    private static double cell(List<String> columns, String[] cells, String name) {
        int index = columns.indexOf(name);
        if (index < 0) {
            throw new IllegalArgumentException("ucx_perftest printed no column " + name);
        }
        return Double.parseDouble(cells[index].strip());
    }

    /// @return 1e9 bytes a second
    double gbps() {
        return overallBandwidth * 1048576 / 1e9;
    }
}

package io.telpher.cli.bench;

import java.util.List;

/// Reads what the programs of `perftest` print: a line of names that begins with `#bytes`, and a
/// line of values.
///
/// @param latency whether it measured latency
/// @param iterations operations
/// @param gbps payload in 1e9 bytes a second, NaN of a latency
/// @param usP50 typical one way latency in microseconds (of a read, there and back), NaN of a
///     bandwidth
/// @param usP99 likewise, the 99th percentile
record IbPerftestOutput(boolean latency, long iterations, double gbps, double usP50, double usP99) {
    private static final double MEBIBYTE = 1 << 20;

    /// @throws IllegalArgumentException when there are no such lines
    static IbPerftestOutput parse(String text) {
        List<String> lines = text.lines().map(String::strip).toList();
        for (int i = 0; i + 1 < lines.size(); i++) {
            if (lines.get(i).startsWith("#bytes")) {
                return parse(lines.get(i), lines.get(i + 1), text);
            }
        }
        throw new IllegalArgumentException("perftest printed no result: " + text.strip());
    }

    private static IbPerftestOutput parse(String names, String values, String text) {
        String[] cells = values.split("\\s+");
        try {
            // #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]
            if (names.contains("BW average[MB/sec]") && cells.length >= 4) {
                return new IbPerftestOutput(
                        false,
                        Long.parseLong(cells[1]),
                        Double.parseDouble(cells[3]) * MEBIBYTE / 1e9,
                        Double.NaN,
                        Double.NaN);
            }
            // #bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec]
            // 99%; the deviation is -nan where its sums overflow
            if (names.contains("t_typical[usec]") && names.contains("99%") && cells.length >= 8) {
                return new IbPerftestOutput(
                        true,
                        Long.parseLong(cells[1]),
                        Double.NaN,
                        Double.parseDouble(cells[4]),
                        Double.parseDouble(cells[7]));
            }
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("perftest printed no result: " + text.strip(), e);
        }
        throw new IllegalArgumentException("perftest printed other columns: " + names);
    }

    /// @return seconds of an operation
    double each(Case test) {
        return latency ? usP50 * 1e-6 * 2 : test.bytes() / (gbps * 1e9);
    }
}

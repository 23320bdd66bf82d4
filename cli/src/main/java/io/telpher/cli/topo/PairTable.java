package io.telpher.cli.topo;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/// A cell for each ordered pair of devices.
final class PairTable {
    private final Set<String> labels = new LinkedHashSet<>();
    private final Map<String, String> cells = new LinkedHashMap<>();

    void put(String from, String to, String cell) {
        labels.add(from);
        labels.add(to);
        cells.put(key(from, to), cell);
    }

    private static String key(String from, String to) {
        return from + "\n" + to;
    }

    void print(PrintWriter out) {
        List<List<String>> rows = new ArrayList<>();
        List<String> head = new ArrayList<>(List.of(""));
        head.addAll(labels);
        rows.add(head);
        for (String from : labels) {
            List<String> row = new ArrayList<>(List.of(from));
            for (String to : labels) {
                row.add(from.equals(to) ? "X" : cells.getOrDefault(key(from, to), "-"));
            }
            rows.add(row);
        }
        TopoText.table(rows, out);
    }
}

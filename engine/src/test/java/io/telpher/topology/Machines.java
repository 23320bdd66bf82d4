package io.telpher.topology;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/// Descriptions of machines in `src/test/resources/topology`.
final class Machines {
    static final List<String> ALL =
            List.of(
                    "dgx-a100",
                    "hgx-h100",
                    "dgx1-v100",
                    "cloud-flat",
                    "pcie-two-switches",
                    "gb10-pair",
                    "grace-tray");

    private Machines() {}

    static List<String> all() {
        return ALL;
    }

    static String xml(String name) throws IOException {
        try (InputStream in = Machines.class.getResourceAsStream("/topology/" + name + ".xml")) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }

    static Topology load(String name) throws IOException {
        return Topology.fromXml(xml(name));
    }

    static Gpu gpu(Topology machine, int index) {
        return machine.gpus().stream().filter(g -> g.index() == index).findFirst().orElseThrow();
    }

    static NicPort port(Topology machine, String name) {
        return machine.ports().stream()
                .filter(p -> p.name().equals(name))
                .findFirst()
                .orElseThrow();
    }

    static List<String> names(List<NicPort> ports) {
        return ports.stream().map(NicPort::name).toList();
    }

    /// @return the types between all GPUs, a line for each
    static String gpuMatrix(Topology machine) {
        return matrix(machine, machine.gpus(), machine.gpus());
    }

    static String matrix(
            Topology machine, List<? extends Node> rows, List<? extends Node> columns) {
        return rows.stream()
                .map(
                        row ->
                                columns.stream()
                                        .map(column -> machine.path(row, column).type().name())
                                        .collect(Collectors.joining(" ")))
                .collect(Collectors.joining("\n"));
    }

    /// @return the same form of a matrix that stands in a test
    static String expected(String... lines) {
        return Arrays.stream(lines).collect(Collectors.joining("\n"));
    }
}

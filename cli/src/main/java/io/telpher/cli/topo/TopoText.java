package io.telpher.cli.topo;

import io.telpher.topology.Gid;
import io.telpher.topology.Gpu;
import io.telpher.topology.Nic;
import io.telpher.topology.NicPort;
import io.telpher.topology.Node;
import io.telpher.topology.NumaNode;
import io.telpher.topology.NvSwitch;
import io.telpher.topology.PathType;
import io.telpher.topology.PciBridge;
import io.telpher.topology.PciDevice;
import io.telpher.topology.PcieLink;
import io.telpher.topology.Topology;
import io.telpher.topology.TopologyPath;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// The machine for people, in lines.
final class TopoText {
    private TopoText() {}

    static void print(Topology machine, PrintWriter out) {
        List<Node> devices = devices(machine);
        if (!devices.isEmpty()) {
            Set<PathType> seen = matrix(machine, devices, out);
            out.println();
            out.println("X    itself");
            for (PathType type : seen) {
                out.printf("%-4s %s%n", type, type.meaning());
            }
            out.println();
        }
        nearest(machine, out);
        rails(machine, out);
        for (Node node : machine.nodes()) {
            if (node instanceof NumaNode || node instanceof NvSwitch) {
                tree(machine, node, "", "", out);
            }
        }
        machine.remarks().forEach(remark -> out.println("note: " + remark));
    }

    /// @return what has a row: GPUs, then ports
    static List<Node> devices(Topology machine) {
        List<Node> devices = new ArrayList<>(machine.gpus());
        devices.addAll(machine.ports());
        return devices;
    }

    private static Set<PathType> matrix(Topology machine, List<Node> devices, PrintWriter out) {
        Set<PathType> seen = EnumSet.noneOf(PathType.class);
        List<List<String>> rows = new ArrayList<>();
        List<String> head = new ArrayList<>(List.of(""));
        devices.forEach(device -> head.add(device.label()));
        head.addAll(List.of("CPU affinity", "NUMA node"));
        rows.add(head);
        for (Node device : devices) {
            List<String> row = new ArrayList<>(List.of(device.label()));
            for (Node other : devices) {
                PathType type = machine.path(device, other).type();
                if (device.equals(other)) {
                    row.add("X");
                } else {
                    seen.add(type);
                    row.add(type.name());
                }
            }
            NumaNode numa = machine.numaNode(device).orElse(null);
            row.add(numa == null ? "?" : numa.cpus().toString());
            row.add(numa == null ? "?" : "" + numa.numa());
            rows.add(row);
        }
        table(rows, out);
        return seen;
    }

    static void table(List<List<String>> rows, PrintWriter out) {
        int columns = rows.getFirst().size();
        int[] widths = new int[columns];
        for (List<String> row : rows) {
            for (int i = 0; i < columns; i++) {
                widths[i] = Math.max(widths[i], row.get(i).length());
            }
        }
        for (List<String> row : rows) {
            StringBuilder line = new StringBuilder();
            for (int i = 0; i < columns; i++) {
                line.append(row.get(i)).repeat(' ', widths[i] - row.get(i).length() + 2);
            }
            out.println(line.toString().stripTrailing());
        }
    }

    private static void nearest(Topology machine, PrintWriter out) {
        if (machine.gpus().isEmpty() || machine.ports().isEmpty()) {
            return;
        }
        for (Gpu gpu : machine.gpus()) {
            List<NicPort> ports = machine.nearestPorts(gpu);
            String names =
                    ports.stream()
                            .map(port -> port.label() + " " + port.name())
                            .collect(Collectors.joining(", "));
            if (ports.isEmpty()) {
                out.println(gpu.label() + " reaches no NIC");
            } else {
                TopologyPath path = machine.path(gpu, ports.getFirst());
                out.printf(
                        "%s is nearest to %s (%s, %s)%n",
                        gpu.label(), names, path.type(), bandwidth(path.bandwidth()));
            }
        }
        out.println();
    }

    /// Ports that RDMA can use, the address by which it does, and whose they are.
    private static void rails(Topology machine, PrintWriter out) {
        List<List<String>> rows = new ArrayList<>();
        rows.add(List.of("RAIL", "DEVICE", "INTERFACE", "FABRIC", "SPEED", "GID", "NEAREST TO"));
        for (NicPort port : machine.ports()) {
            Gid gid = port.gid().orElse(null);
            if (gid != null && port.state() == NicPort.State.UP) {
                String address =
                        port.lid() == 0 ? gid.address() : gid.address() + " LID " + port.lid();
                rows.add(
                        List.of(
                                port.label(),
                                port.name(),
                                port.netdev().isEmpty() ? "-" : port.netdev(),
                                fabric(port),
                                speed(port),
                                address + " (index " + gid.index() + ")",
                                labels(machine.nearestGpus(port))));
            }
        }
        if (rows.size() > 1) {
            table(rows, out);
            out.println();
        }
    }

    private static String labels(List<Gpu> gpus) {
        return gpus.isEmpty()
                ? "-"
                : gpus.stream().map(Gpu::label).collect(Collectors.joining(", "));
    }

    /// @param first what stands before the node's own line
    /// @param rest what stands before the lines of what is below it
    private static void tree(
            Topology machine, Node node, String first, String rest, PrintWriter out) {
        out.println(first + describe(node));
        List<Node> below = machine.children(node);
        for (int i = 0; i < below.size(); i++) {
            boolean last = i == below.size() - 1;
            tree(
                    machine,
                    below.get(i),
                    rest + (last ? "└─ " : "├─ "),
                    rest + (last ? "   " : "│  "),
                    out);
        }
    }

    private static String describe(Node node) {
        return switch (node) {
            case NumaNode numa ->
                    words(numa.label(), "CPUs " + orUnknown(numa.cpus().toString()), cpu(numa));
            case NvSwitch all ->
                    words(
                            all.label(),
                            all.switches().stream()
                                    .map(Object::toString)
                                    .collect(Collectors.joining(" ")));
            case PciBridge bridge -> words("switch", at(bridge.pci()), link(bridge.pci().link()));
            case Gpu gpu -> gpu(gpu);
            case Nic nic -> {
                PciDevice pci = nic.pci();
                yield pci == null
                        ? "network card, not on the PCI bus"
                        : words("network card", at(pci), link(pci.link()));
            }
            case NicPort port -> port(port);
        };
    }

    private static String cpu(NumaNode numa) {
        NumaNode.Cpu cpu = numa.cpu();
        return cpu.name().isEmpty() ? words(cpu.vendor(), cpu.arch()) : cpu.name();
    }

    private static String gpu(Gpu gpu) {
        int links = gpu.nvLinks().stream().mapToInt(link -> link.count()).sum();
        String capability = gpu.computeCapability() == 0 ? "" : "sm" + gpu.computeCapability();
        return words(
                gpu.label(),
                gpu.name(),
                capability,
                at(gpu.pci()),
                link(gpu.pci().link()),
                links == 0 ? "" : links + " NVLinks",
                gpu.nvLinksDown() == 0 ? "" : "(" + gpu.nvLinksDown() + " more are down)",
                gpu.c2c() == null ? "" : "C2C " + bandwidth(gpu.c2c().bandwidth()));
    }

    private static String port(NicPort port) {
        String state = port.state() == NicPort.State.UNKNOWN ? "" : lower(port.state().toString());
        return words(
                port.label(),
                port.name(),
                port.netdev().equals(port.name()) ? "" : port.netdev(),
                fabric(port),
                speed(port),
                state);
    }

    static String fabric(NicPort port) {
        return switch (port.fabric()) {
            case INFINIBAND -> "InfiniBand";
            case ROCE -> "RoCE";
            case OTHER_RDMA -> "RDMA without RC";
            case ETHERNET -> "Ethernet";
            case UNKNOWN -> "";
        };
    }

    static String speed(NicPort port) {
        return port.mbps() == 0
                ? "speed unknown"
                : String.format(Locale.ROOT, "%.4g Gb/s", port.mbps() / 1000.0)
                        .replaceAll("\\.?0+ ", " ");
    }

    private static String at(PciDevice pci) {
        String root = pci.rootComplex();
        return pci.address() + (root == null ? "" : " of " + root);
    }

    /// @return the maximum, and what is used where that is less
    static String link(@Nullable PcieLink link) {
        if (link == null || link.equals(PcieLink.UNKNOWN)) {
            return "";
        }
        return link + (link.belowMaximum() ? " (now " + link.current() + ")" : "");
    }

    static String bandwidth(double gigabytes) {
        return String.format(Locale.ROOT, "%.1f GB/s", gigabytes);
    }

    static String orUnknown(String text) {
        return text.isEmpty() ? "unknown" : text;
    }

    private static String lower(String text) {
        return text.toLowerCase(Locale.ROOT);
    }

    /// Joins those that say something.
    static String words(String... parts) {
        return Arrays.stream(parts)
                .filter(part -> !part.isEmpty())
                .collect(Collectors.joining("  "));
    }
}

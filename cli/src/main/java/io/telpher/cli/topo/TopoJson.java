package io.telpher.cli.topo;

import io.telpher.cli.Json;
import io.telpher.topology.C2c;
import io.telpher.topology.Gid;
import io.telpher.topology.Gpu;
import io.telpher.topology.Link;
import io.telpher.topology.Nic;
import io.telpher.topology.NicPort;
import io.telpher.topology.Node;
import io.telpher.topology.NumaNode;
import io.telpher.topology.NvSwitch;
import io.telpher.topology.PciBridge;
import io.telpher.topology.PciDevice;
import io.telpher.topology.Topology;
import io.telpher.topology.TopologyPath;
import java.io.PrintWriter;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// The machine for programs: one object per line, whose `kind` says what it is. Lists are texts
/// with commas in between.
final class TopoJson {
    private TopoJson() {}

    static void print(Topology machine, PrintWriter out) {
        for (Node node : machine.nodes()) {
            out.println(Json.object(node(machine, node)));
        }
        for (Link link : machine.links()) {
            Map<String, @Nullable Object> fields = new LinkedHashMap<>();
            fields.put("kind", "link");
            fields.put("a", link.a().id());
            fields.put("b", link.b().id());
            fields.put("over", link.kind().name().toLowerCase(Locale.ROOT));
            fields.put("type", link.type().name());
            fields.put("GBps", link.bandwidth());
            out.println(Json.object(fields));
        }
        List<Node> devices = TopoText.devices(machine);
        for (Node from : devices) {
            for (Node to : devices) {
                if (!from.equals(to)) {
                    out.println(Json.object(path(machine.path(from, to))));
                }
            }
        }
        for (String remark : machine.remarks()) {
            Map<String, @Nullable Object> fields = new LinkedHashMap<>();
            fields.put("kind", "remark");
            fields.put("text", remark);
            out.println(Json.object(fields));
        }
    }

    private static Map<String, @Nullable Object> path(TopologyPath path) {
        Map<String, @Nullable Object> fields = new LinkedHashMap<>();
        fields.put("kind", "path");
        fields.put("from", path.from().id());
        fields.put("to", path.to().id());
        fields.put("type", path.type().name());
        fields.put("GBps", path.bandwidth());
        fields.put("nodes", ids(path.nodes()));
        return fields;
    }

    private static String ids(Collection<? extends Node> nodes) {
        return nodes.stream().map(Node::id).collect(Collectors.joining(","));
    }

    private static Map<String, @Nullable Object> node(Topology machine, Node node) {
        Map<String, @Nullable Object> fields = new LinkedHashMap<>();
        fields.put("kind", kind(node));
        fields.put("id", node.id());
        fields.put("label", node.label());
        fields.put("host", node.host());
        fields.put("parent", machine.parent(node).map(Node::id).orElse(null));
        if (!(node instanceof NumaNode)) {
            machine.numaNode(node)
                    .ifPresent(
                            numa -> {
                                fields.put("numa", numa.numa());
                                fields.put("cpus", numa.cpus().toString());
                            });
        }
        switch (node) {
            case NumaNode numa -> numa(numa, fields);
            case PciBridge bridge -> pci(bridge.pci(), fields);
            case Gpu gpu -> {
                gpu(gpu, fields);
                fields.put("nearest_ports", ids(machine.nearestPorts(gpu)));
            }
            case Nic nic -> pci(nic.pci(), fields);
            case NicPort port -> {
                port(port, fields);
                fields.put("nearest_gpus", ids(machine.nearestGpus(port)));
            }
            case NvSwitch all ->
                    fields.put(
                            "switches",
                            all.switches().stream()
                                    .map(Object::toString)
                                    .collect(Collectors.joining(",")));
        }
        return fields;
    }

    private static String kind(Node node) {
        return switch (node) {
            case NumaNode n -> "numa";
            case PciBridge b -> "switch";
            case Gpu g -> "gpu";
            case Nic n -> "nic";
            case NicPort p -> "port";
            case NvSwitch s -> "nvswitch";
        };
    }

    private static void numa(NumaNode numa, Map<String, @Nullable Object> fields) {
        fields.put("numa", numa.numa());
        fields.put("cpus", numa.cpus().toString());
        fields.put("arch", numa.cpu().arch());
        fields.put("vendor", numa.cpu().vendor());
        fields.put("family", numa.cpu().family());
        fields.put("model", numa.cpu().model());
        fields.put("name", numa.cpu().name());
    }

    private static void pci(@Nullable PciDevice pci, Map<String, @Nullable Object> fields) {
        if (pci == null) {
            return;
        }
        fields.put("address", pci.address().toString());
        fields.put("class", pci.deviceClass());
        fields.put("vendor", pci.vendor());
        fields.put("device", pci.device());
        fields.put("port_address", pci.port());
        fields.put("root_complex", pci.rootComplex());
        fields.put("max_GTps", known(pci.link().maxSpeed()));
        fields.put("max_width", known(pci.link().maxWidth()));
        fields.put("current_GTps", known(pci.link().currentSpeed()));
        fields.put("current_width", known(pci.link().currentWidth()));
        fields.put("below_maximum", pci.link().belowMaximum());
    }

    private static @Nullable Number known(Number number) {
        return number.doubleValue() == 0 ? null : number;
    }

    private static void gpu(Gpu gpu, Map<String, @Nullable Object> fields) {
        pci(gpu.pci(), fields);
        fields.put("index", gpu.index() < 0 ? null : gpu.index());
        fields.put("uuid", gpu.uuid());
        fields.put("name", gpu.name());
        fields.put("sm", known(gpu.computeCapability()));
        fields.put("nvlinks", gpu.nvLinks().stream().mapToInt(link -> link.count()).sum());
        fields.put("nvlinks_down", gpu.nvLinksDown());
        C2c c2c = gpu.c2c();
        fields.put("c2c_GBps", c2c == null ? null : c2c.bandwidth());
    }

    private static void port(NicPort port, Map<String, @Nullable Object> fields) {
        fields.put("name", port.name());
        fields.put("netdev", port.netdev());
        fields.put("fabric", port.fabric().name().toLowerCase(Locale.ROOT));
        fields.put("port", port.port());
        fields.put("Mbps", known(port.mbps()));
        fields.put("state", port.state().name().toLowerCase(Locale.ROOT));
        fields.put("guid", port.guid());
        fields.put("card", port.card());
        fields.put("function", port.function());
        fields.put("lid", known(port.lid()));
        fields.put("gid", port.gid().map(Gid::address).orElse(null));
        fields.put("gids", port.gids().stream().map(TopoJson::gid).toList());
    }

    /// Such as `3 roce_v2 10.0.0.1`.
    private static String gid(Gid gid) {
        return "%d %s %s"
                .formatted(gid.index(), gid.type().name().toLowerCase(Locale.ROOT), gid.address());
    }
}

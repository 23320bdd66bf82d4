package io.telpher.topology;

import io.telpher.topology.NicPort.Fabric;
import io.telpher.topology.NicPort.State;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/// Makes nodes and links out of the elements of NCCL's XML. Used once.
final class GraphBuilder {
    /// These are linked each with each: a broken file must not ask for all memory.
    private static final int MAX_NUMA_NODES = 1024;

    private static final int MAX_PARTITIONS = 64;
    private static final String CPU_BRIDGE_CLASS = "0x068001";

    final List<Node> nodes = new ArrayList<>();
    final List<Link> links = new ArrayList<>();

    /// From what is plugged in to what it is plugged into; ids.
    final Map<String, Node> parents = new HashMap<>();

    private final Set<String> ids = new HashSet<>();
    private final Map<String, Integer> hosts = new HashMap<>();
    private final Map<String, PciBridge> bridges = new HashMap<>();
    private final Map<String, Nic> withoutPci = new HashMap<>();
    private final Map<String, List<Gpu>> gpusAt = new HashMap<>();
    private final Map<String, Set<String>> pciLinks = new LinkedHashMap<>();
    private int ports;

    /// @throws IllegalArgumentException when an element lacks what it must have: names it
    GraphBuilder(Element system) {
        atMost(MAX_NUMA_NODES, system.children("cpu"));
        for (Element cpu : system.children("cpu")) {
            numaNode(cpu);
        }
        nvLinks();
        chipToChip();
        pciLinks.forEach(
                (from, targets) ->
                        targets.forEach(to -> localLink(bridges.get(from), bridges.get(to))));
        sockets();
    }

    private static void atMost(int limit, List<Element> elements) {
        if (elements.size() > limit) {
            throw new IllegalArgumentException(
                    "%d elements <%s> in one; the most is %d"
                            .formatted(elements.size(), elements.getFirst().name, limit));
        }
    }

    private <N extends Node> N add(N node) {
        if (!ids.add(node.id())) {
            throw new IllegalArgumentException("two devices are called " + node.id());
        }
        nodes.add(node);
        return node;
    }

    private static String prefix(int host) {
        return host == 0 ? "" : "host" + host + "/";
    }

    private void plug(Node device, Node into, double bandwidth) {
        parents.put(device.id(), into);
        links.add(new Link(into, device, Link.Kind.PCI, bandwidth));
    }

    private void numaNode(Element cpu) {
        int host = hosts.computeIfAbsent(cpu.text("host_hash"), hash -> hosts.size());
        int numa = required(cpu, "numaid");
        NumaNode node =
                add(
                        new NumaNode(
                                prefix(host) + "numa" + numa,
                                host,
                                numa,
                                CpuSet.parseMask(cpu.text("affinity")),
                                new NumaNode.Cpu(
                                        cpu.text("arch"),
                                        cpu.text("vendor"),
                                        cpu.number("familyid", 0),
                                        cpu.number("modelid", 0),
                                        cpu.text("modelname")),
                                distances(cpu)));
        for (Element child : cpu.children) {
            if (child.name.equals("pci")) {
                pci(child, node);
            } else {
                ports(child, withoutPci(node));
            }
        }
    }

    private Nic withoutPci(NumaNode node) {
        Nic known = withoutPci.get(node.id());
        if (known != null) {
            return known;
        }
        Nic nic = add(new Nic(node.id() + "/nic", node.host(), null));
        plug(nic, node, Bandwidths.LOCAL);
        withoutPci.put(node.id(), nic);
        return nic;
    }

    private static int required(Element element, String attribute) {
        if (element.text(attribute).isEmpty()) {
            throw new IllegalArgumentException(
                    "<%s> without %s: %s"
                            .formatted(element.name, attribute, element.attributes.toString()));
        }
        return element.number(attribute, 0);
    }

    /// Reads `0:10 1:21`.
    private static Map<Integer, Integer> distances(Element cpu) {
        Map<Integer, Integer> distances = new TreeMap<>();
        for (String entry : cpu.text("distances").split(" ")) {
            String[] parts = entry.split(":");
            if (parts.length == 2 && entry.matches("\\d{1,6}:\\d{1,6}")) {
                distances.put(Integer.parseInt(parts[0]), Integer.parseInt(parts[1]));
            }
        }
        return distances;
    }

    private void pci(Element element, Node parent) {
        PciDevice device = device(element);
        String id = prefix(parent.host()) + device.address();
        List<Element> gpus = element.children("gpu");
        Element nic = element.child("nic");
        if (!gpus.isEmpty()) {
            atMost(MAX_PARTITIONS, gpus);
            gpus.forEach(gpu -> gpu(gpu, device, id, parent));
        } else if (nic != null) {
            Nic card = add(new Nic(id, parent.host(), device));
            plug(card, parent, device.link().bandwidth());
            ports(nic, card);
        } else if (!element.children.isEmpty()) {
            Node here = bridge(element, device, id, parent);
            element.children("pci").forEach(child -> pci(child, here));
        }
        // Else nothing that counts is there: a switch without devices, an NVSwitch, a disk.
    }

    private Node bridge(Element element, PciDevice device, String id, Node parent) {
        if (parent instanceof PciBridge above && sameSwitch(above.pci(), device)) {
            // What is said of the lower one holds for the one that both are.
            bridges.put(id, above);
            return above;
        }
        PciBridge bridge = add(new PciBridge(id, parent.host(), device));
        bridges.put(id, bridge);
        plug(bridge, parent, device.link().bandwidth());
        for (Element link : element.children("pcilink")) {
            String target = prefix(parent.host()) + PciAddress.parse(link.text("target"));
            pciLinks.computeIfAbsent(id, from -> new TreeSet<>()).add(target);
        }
        return bridge;
    }

    /// Switches of Broadcom (c010: Gen4, c030: Gen5) show themselves as two levels of switches
    /// although each of their ports has full bandwidth to each other.
    private static boolean sameSwitch(PciDevice above, PciDevice below) {
        int upper = broadcomGeneration(above, 0);
        return upper != 0 && upper == broadcomGeneration(below, 1);
    }

    private static int broadcomGeneration(PciDevice device, int level) {
        if (!device.vendor().equals("0x1000") || !device.subsystemVendor().equals("0x1000")) {
            return 0;
        }
        char series =
                device.subsystemDevice().matches("0x\\p{XDigit}{4}")
                        ? Character.toLowerCase(device.subsystemDevice().charAt(2))
                        : ' ';
        return switch (device.device().toLowerCase(Locale.ROOT)) {
            case "0xc010" -> series == 'a' ? 4 : 0;
            case "0xc030" -> series == (char) ('0' + level) ? 5 : 0;
            default -> 0;
        };
    }

    private static PciDevice device(Element pci) {
        String port = pci.text("port");
        String root = pci.text("root");
        return new PciDevice(
                PciAddress.parse(pci.text("busid")),
                pci.text("class"),
                pci.text("vendor"),
                pci.text("device"),
                pci.text("subsystem_vendor"),
                pci.text("subsystem_device"),
                new PcieLink(
                        SysfsText.speed(pci.text("link_speed")),
                        SysfsText.width(pci.text("link_width")),
                        SysfsText.speed(pci.text("current_link_speed")),
                        SysfsText.width(pci.text("current_link_width"))),
                port.isEmpty() ? null : PciAddress.parse(port),
                root.isEmpty() ? null : root);
    }

    private void gpu(Element element, PciDevice pci, String address, Node parent) {
        List<Gpu> here = gpusAt.computeIfAbsent(address, key -> new ArrayList<>());
        Element c2c = element.child("c2c");
        Gpu gpu =
                add(
                        new Gpu(
                                here.isEmpty() ? address : address + "/" + here.size(),
                                parent.host(),
                                element.number("dev", -1),
                                pci,
                                element.text("uuid"),
                                element.text("name"),
                                element.number("sm", 0),
                                element.children("nvlink").stream()
                                        .map(GraphBuilder::nvLink)
                                        .toList(),
                                Math.max(0, element.number("nvlinks_down", 0)),
                                c2c == null
                                        ? null
                                        : new C2c(c2c.number("count", 0), c2c.number("bw", 0))));
        plug(gpu, parent, pci.link().bandwidth());
        here.forEach(
                other -> links.add(new Link(other, gpu, Link.Kind.LOCAL, Bandwidths.PARTITION)));
        here.add(gpu);
    }

    private static NvLink nvLink(Element element) {
        String target = element.text("target");
        String type = element.text("tclass");
        NvLink.Kind kind =
                type.startsWith("0x03")
                        ? NvLink.Kind.GPU
                        : type.startsWith(CPU_BRIDGE_CLASS) ? NvLink.Kind.CPU : NvLink.Kind.SWITCH;
        return new NvLink(
                PciAddress.matches(target) ? PciAddress.parse(target) : null,
                kind,
                Math.max(0, element.number("count", 1)),
                element.number("version", 0));
    }

    private void ports(Element nic, Nic card) {
        for (Element net : nic.children("net")) {
            String name = net.text("name");
            String function = net.text("function");
            PciAddress at = function.isEmpty() ? null : PciAddress.parse(function);
            String id = prefix(card.host()) + (name.isEmpty() ? card.id() + "/net" + ports : name);
            NicPort port =
                    add(
                            new NicPort(
                                    ids.contains(id) ? id + "/" + ports : id,
                                    card.host(),
                                    ports++,
                                    name,
                                    fabric(net.text("fabric")),
                                    net.number("port", 0),
                                    Math.max(0, net.number("speed", 0)),
                                    state(net.text("state")),
                                    net.text("guid"),
                                    net.text("netdev"),
                                    at,
                                    cardOf(net, card),
                                    net.number("lid", 0),
                                    Gid.read(net.text("gids"))));
            parents.put(port.id(), card);
            links.add(new Link(card, port, Link.Kind.PORT, port.bandwidth()));
        }
    }

    /// One card may show several PCI devices, but has one GUID.
    private static String cardOf(Element net, Nic card) {
        String guid = net.text("guid");
        return guid.isEmpty() || guid.matches("0x0*") ? card.id() : prefix(card.host()) + guid;
    }

    private static Fabric fabric(String text) {
        return switch (text) {
            case "infiniband" -> Fabric.INFINIBAND;
            case "roce" -> Fabric.ROCE;
            case "rdma" -> Fabric.OTHER_RDMA;
            case "ethernet" -> Fabric.ETHERNET;
            default -> Fabric.UNKNOWN;
        };
    }

    private static State state(String text) {
        return switch (text) {
            case "up" -> State.UP;
            case "down" -> State.DOWN;
            default -> State.UNKNOWN;
        };
    }

    private List<Gpu> gpus() {
        return nodes.stream().filter(Gpu.class::isInstance).map(Gpu.class::cast).toList();
    }

    private void nvLinks() {
        Map<Set<String>, Link> pairs = new LinkedHashMap<>();
        Map<Gpu, Double> toSwitch = new LinkedHashMap<>();
        Set<PciAddress> switches = new TreeSet<>();
        for (Gpu gpu : gpus()) {
            double one = Bandwidths.nvLink(gpu.computeCapability());
            for (NvLink link : gpu.nvLinks()) {
                double width = link.count() * one;
                if (width == 0) {
                    continue;
                }
                switch (link.kind()) {
                    case GPU -> pair(gpu, link.target(), width, pairs);
                    case CPU -> {
                        NumaNode cpu = numaNode(gpu);
                        links.add(new Link(cpu, gpu, Link.Kind.NVLINK, width));
                    }
                    case SWITCH -> {
                        toSwitch.merge(gpu, width, Double::sum);
                        if (link.target() != null) {
                            switches.add(link.target());
                        }
                    }
                }
            }
        }
        links.addAll(pairs.values());
        if (!toSwitch.isEmpty()) {
            NvSwitch all = add(new NvSwitch("nvswitch", 0, List.copyOf(switches)));
            toSwitch.forEach(
                    (gpu, width) -> links.add(new Link(gpu, all, Link.Kind.NVLINK, width)));
        }
    }

    /// Both ends say how many links they have to the other; where they differ (a link that one end
    /// has just lost, a file of one rank) the larger number counts, as long as there is one.
    private void pair(
            Gpu gpu, @Nullable PciAddress target, double width, Map<Set<String>, Link> pairs) {
        for (Gpu other : gpusAt.getOrDefault(prefix(gpu.host()) + target, List.of())) {
            if (!other.pci().address().equals(gpu.pci().address())) {
                Link link = new Link(gpu, other, Link.Kind.NVLINK, width);
                pairs.merge(
                        Set.of(gpu.id(), other.id()),
                        link,
                        (one, two) -> one.bandwidth() >= two.bandwidth() ? one : two);
            }
        }
    }

    private void chipToChip() {
        for (Gpu gpu : gpus()) {
            C2c c2c = gpu.c2c();
            if (c2c != null && c2c.bandwidth() > 0) {
                links.add(new Link(numaNode(gpu), gpu, Link.Kind.C2C, c2c.bandwidth()));
            }
        }
    }

    private NumaNode numaNode(Node node) {
        while (!(node instanceof NumaNode)) {
            Node parent = parents.get(node.id());
            if (parent == null) {
                throw new AssertionError(node.id() + " hangs on nothing");
            }
            node = parent;
        }
        return (NumaNode) node;
    }

    private void localLink(@Nullable PciBridge one, @Nullable PciBridge other) {
        if (one != null && other != null && !one.id().equals(other.id())) {
            links.add(new Link(one, other, Link.Kind.LOCAL, Bandwidths.LOCAL));
        }
    }

    private void sockets() {
        List<NumaNode> all =
                nodes.stream()
                        .filter(NumaNode.class::isInstance)
                        .map(NumaNode.class::cast)
                        .toList();
        for (NumaNode one : all) {
            for (NumaNode other : all) {
                if (one.host() == other.host() && one.numa() < other.numa()) {
                    double width =
                            Math.min(Bandwidths.socket(one.cpu()), Bandwidths.socket(other.cpu()));
                    links.add(new Link(one, other, Link.Kind.SOCKET, width));
                }
            }
        }
    }
}

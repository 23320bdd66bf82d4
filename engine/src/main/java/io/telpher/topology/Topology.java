package io.telpher.topology;

import java.io.IOException;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/// A machine as a graph, or several hosts that a file describes as one.
public final class Topology {
    private final Element system;
    private final List<Node> nodes;
    private final List<Link> links;
    private final Map<String, Node> parents;
    private final Map<String, List<Node>> children = new HashMap<>();
    private final List<String> remarks;
    private final PathSearch search;

    Topology(Element system, List<String> remarks) {
        GraphBuilder graph = new GraphBuilder(system);
        this.system = system;
        this.remarks = List.copyOf(remarks);
        nodes = List.copyOf(graph.nodes);
        links = List.copyOf(graph.links);
        parents = Map.copyOf(graph.parents);
        for (Node node : nodes) {
            Node parent = parents.get(node.id());
            if (parent != null) {
                children.computeIfAbsent(parent.id(), id -> new ArrayList<>()).add(node);
            }
        }
        search = new PathSearch(nodes, links);
    }

    /// Looks at this machine, anew at each call. Starts from what `NCCL_TOPO_FILE` names, as NCCL
    /// does. Takes milliseconds, but with NVIDIA's GPUs the first call waits for their driver,
    /// which may be a second. What cannot be found out is left out and said in [#remarks()].
    public static Topology here() {
        return Machine.here();
    }

    /// Looks at the files of another machine, or of this one as a container's host sees it. What
    /// only the GPUs' driver knows is missing.
    ///
    /// @param root what stands for `/`
    public static Topology under(Path root) {
        return Machine.look(root, Map.of(), GpuFacts.NONE);
    }

    /// Reads NCCL's XML, such as `NCCL_TOPO_DUMP_FILE` makes it.
    ///
    /// @throws IllegalArgumentException when it is none: says what and where
    public static Topology fromXml(String xml) {
        return new Topology(XmlReader.parse(xml), List.of());
    }

    /// Reads a file of NCCL's XML.
    ///
    /// @throws IOException when it cannot be read
    /// @throws IllegalArgumentException when it is something else: names the file, says what and
    ///     where
    public static Topology read(Path file) throws IOException {
        if (Files.size(file) > XmlReader.MAX_CHARACTERS) {
            throw new IllegalArgumentException(
                    file + ": " + Files.size(file) + " bytes are too many for a topology");
        }
        try {
            return fromXml(Files.readString(file));
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException(file + ": no text in UTF-8", e);
        } catch (IllegalArgumentException e) {
            throw new IllegalArgumentException(file + ": " + e.getMessage(), e);
        }
    }

    /// @return the machine in NCCL's XML, for `NCCL_TOPO_FILE` or for [#fromXml(String)]
    public String toXml() {
        return system.toXml();
    }

    /// @return what could not be found out, and why: a line for each
    public List<String> remarks() {
        return remarks;
    }

    /// @return all nodes; what is plugged in comes after what it is plugged into
    public List<Node> nodes() {
        return nodes;
    }

    public List<Link> links() {
        return links;
    }

    public List<NumaNode> numaNodes() {
        return all(NumaNode.class);
    }

    /// @return GPUs by host and by their index, those without one at the end, by address
    public List<Gpu> gpus() {
        return all(Gpu.class).stream()
                .sorted(
                        Comparator.comparingInt(Gpu::host)
                                .thenComparing(gpu -> Integer.toUnsignedLong(gpu.index()))
                                .thenComparing(gpu -> gpu.pci().address()))
                .toList();
    }

    public List<NicPort> ports() {
        return all(NicPort.class);
    }

    private <N extends Node> List<N> all(Class<N> type) {
        return nodes.stream().filter(type::isInstance).map(type::cast).toList();
    }

    /// @return what a node is plugged into: a switch or a NUMA node, for a port its card; empty for
    ///     NUMA nodes and NVSwitches
    public Optional<Node> parent(Node node) {
        return Optional.ofNullable(parents.get(node.id()));
    }

    /// @return what is plugged into a node
    public List<Node> children(Node node) {
        return List.copyOf(children.getOrDefault(node.id(), List.of()));
    }

    /// @return the NUMA node that a device belongs to, where its threads and buffers are best;
    ///     empty for NVSwitches, and where nobody knows
    public Optional<NumaNode> numaNode(Node node) {
        Node at = node;
        while (at != null && !(at instanceof NumaNode)) {
            at = parents.get(at.id());
        }
        return at instanceof NumaNode numa && numa.numa() >= 0
                ? Optional.of(numa)
                : Optional.empty();
    }

    /// Finds the best path: by type, then by bandwidth, then by the number of links. Type,
    /// bandwidth and number are the same in both directions.
    ///
    /// @throws IllegalArgumentException when one of them is not a node of this topology
    public TopologyPath path(Node from, Node to) {
        return path(from, to, true);
    }

    /// Finds the best path that a copy by one of two GPUs takes: as [#path], but never of type NVB,
    /// which takes a third GPU.
    ///
    /// @throws IllegalArgumentException when one of them is not a node of this topology
    public TopologyPath directPath(Node from, Node to) {
        return path(from, to, false);
    }

    private TopologyPath path(Node from, Node to, boolean relays) {
        TopologyPath path = search.find(from, to, relays);
        if (path != null) {
            return path;
        }
        List<Node> ends = List.of(from, to);
        if (from.host() != to.host()) {
            double width = Math.min(toNetwork(from), toNetwork(to));
            if (width > 0) {
                return new TopologyPath(PathType.NET, width, ends);
            }
        }
        return new TopologyPath(PathType.DIS, 0, ends);
    }

    /// @return GB/s to the nearest port; 0 without any
    private double toNetwork(Node node) {
        List<NicPort> near = nearestPorts(node);
        return near.isEmpty() ? 0 : path(node, near.getFirst()).bandwidth();
    }

    /// @return the ports of network cards of the same host that are nearest to a node: all of
    ///     those with the greatest bandwidth and then the best type. Ports that are down count only
    ///     when all are
    public List<NicPort> nearestPorts(Node node) {
        List<NicPort> ports = ports();
        List<NicPort> usable =
                ports.stream().filter(port -> port.state() != NicPort.State.DOWN).toList();
        List<NicPort> nearest = nearest(node, usable);
        return nearest.isEmpty() ? nearest(node, ports) : nearest;
    }

    /// @return the GPUs of the same host that are nearest to a node, likewise
    public List<Gpu> nearestGpus(Node node) {
        return nearest(node, gpus());
    }

    private <N extends Node> List<N> nearest(Node from, List<N> candidates) {
        List<N> nearest = new ArrayList<>();
        TopologyPath best = null;
        for (N candidate : candidates) {
            TopologyPath path = candidate.host() == from.host() ? find(from, candidate) : null;
            if (path == null) {
                continue;
            }
            int order = best == null ? -1 : compare(path, best);
            if (order < 0) {
                nearest.clear();
                best = path;
            }
            if (order <= 0) {
                nearest.add(candidate);
            }
        }
        return List.copyOf(nearest);
    }

    private @Nullable TopologyPath find(Node from, Node to) {
        return search.find(from, to, true);
    }

    private static int compare(TopologyPath one, TopologyPath other) {
        int order = Double.compare(other.bandwidth(), one.bandwidth());
        return order != 0 ? order : one.type().compareTo(other.type());
    }
}

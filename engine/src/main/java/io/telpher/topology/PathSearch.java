package io.telpher.topology;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Finds paths: the best type that exists, then the greatest bandwidth of that type, then the
/// fewest links. Exact, and the same in both directions.
final class PathSearch {
    private final List<Node> nodes;
    private final Map<String, Integer> index = new HashMap<>();
    private final List<List<Link>> links = new ArrayList<>();
    private final List<Gpu> gpus;

    /// All bandwidths that a link of at most that type has, the greatest first. A type that no
    /// link has is no key: no path is of that type.
    private final Map<PathType, List<Double>> widths = new EnumMap<>(PathType.class);

    PathSearch(List<Node> nodes, List<Link> all) {
        this.nodes = nodes;
        for (Node node : nodes) {
            index.put(node.id(), links.size());
            links.add(new ArrayList<>());
        }
        gpus = nodes.stream().filter(Gpu.class::isInstance).map(Gpu.class::cast).toList();
        for (Link link : all) {
            links(link.a()).add(link);
            links(link.b()).add(link);
            widths.computeIfAbsent(link.type(), type -> widths(all, type));
        }
    }

    private int index(Node node) {
        Integer place = index.get(node.id());
        if (place == null) {
            throw new IllegalArgumentException(node.id() + " is of another topology");
        }
        return place;
    }

    private List<Link> links(Node node) {
        return links.get(index(node));
    }

    private static List<Double> widths(List<Link> all, PathType type) {
        return all.stream()
                .filter(link -> link.type().compareTo(type) <= 0)
                .map(Link::bandwidth)
                .distinct()
                .sorted(Comparator.reverseOrder())
                .toList();
    }

    private void check(Node node) {
        if (!node.equals(nodes.get(index(node)))) {
            throw new IllegalArgumentException(
                    node.id() + " is of another topology: paths are between nodes of one");
        }
    }

    /// @param relays whether another GPU may be in the middle
    /// @return the way between two nodes over links; null when there is none
    @Nullable TopologyPath find(Node from, Node to, boolean relays) {
        check(from);
        check(to);
        if (from.equals(to)) {
            return new TopologyPath(PathType.LOC, Bandwidths.LOCAL, List.of(from));
        }
        for (PathType type : PathType.values()) {
            TopologyPath path =
                    switch (type) {
                        case NVB -> relays ? throughGpu(from, to) : null;
                        case P2C -> chipToChip(from, to);
                        case PXN -> relayed(from, to);
                        case NET, DIS -> null;
                        default -> direct(from, to, type);
                    };
            if (path != null) {
                return path;
            }
        }
        return null;
    }

    /// The widest path over links of at most that type.
    private @Nullable TopologyPath direct(Node from, Node to, PathType type) {
        List<Double> candidates = widths.get(type);
        if (candidates == null || search(from, to, type, 0) == null) {
            return null;
        }
        for (double width : candidates) {
            List<Node> way = search(from, to, type, width);
            if (way != null) {
                return new TopologyPath(type, width, way);
            }
        }
        throw new AssertionError("a path of no width between " + from.id() + " and " + to.id());
    }

    /// Breadth first: the fewest links, of at most that type and at least that bandwidth.
    private @Nullable List<Node> search(Node from, Node to, PathType type, double width) {
        int start = index(from);
        int end = index(to);
        int[] cameFrom = new int[nodes.size()];
        Arrays.fill(cameFrom, -1);
        cameFrom[start] = start;
        int[] queue = new int[nodes.size()];
        queue[0] = start;
        int last = 1;
        for (int first = 0; first < last; first++) {
            int at = queue[first];
            Node node = nodes.get(at);
            if (at == end) {
                return trace(cameFrom, start, end);
            }
            if (at != start && !forwards(node)) {
                continue;
            }
            for (Link link : links.get(at)) {
                if (link.bandwidth() >= width && link.type().compareTo(type) <= 0) {
                    int next = index(link.other(node));
                    if (cameFrom[next] < 0) {
                        cameFrom[next] = at;
                        queue[last++] = next;
                    }
                }
            }
        }
        return null;
    }

    private List<Node> trace(int[] cameFrom, int start, int end) {
        List<Node> way = new ArrayList<>();
        for (int at = end; at != start; at = cameFrom[at]) {
            way.add(nodes.get(at));
        }
        way.add(nodes.get(start));
        return way.reversed();
    }

    private static boolean forwards(Node node) {
        return switch (node) {
            case NumaNode n -> true;
            case PciBridge b -> true;
            case NvSwitch s -> true;
            case Nic n -> true; // to its ports, and from one of them to another
            case Gpu g -> false;
            case NicPort p -> false;
        };
    }

    /// Two NVLinks with a GPU in the middle.
    private @Nullable TopologyPath throughGpu(Node from, Node to) {
        if (!(from instanceof Gpu) || !(to instanceof Gpu)) {
            return null;
        }
        TopologyPath best = null;
        for (Gpu middle : gpus) {
            double width = Math.min(nvLink(from, middle), nvLink(middle, to));
            if (width > 0 && (best == null || width > best.bandwidth())) {
                best = new TopologyPath(PathType.NVB, width, List.of(from, middle, to));
            }
        }
        return best;
    }

    /// @return the bandwidth of NVLinks that go straight from one to the other; 0 without any
    private double nvLink(Node one, Node other) {
        return width(one, other, Link.Kind.NVLINK);
    }

    private double width(Node one, Node other, Link.Kind kind) {
        return links(one).stream()
                .filter(link -> link.kind() == kind && link.other(one).id().equals(other.id()))
                .mapToDouble(Link::bandwidth)
                .sum();
    }

    /// From a GPU to the CPU that its chip is joined with, and from there to a card below it.
    private @Nullable TopologyPath chipToChip(Node from, Node to) {
        if (isNic(from) && to instanceof Gpu) {
            return reverse(chipToChip(to, from));
        }
        if (!(from instanceof Gpu) || !isNic(to)) {
            return null;
        }
        TopologyPath best = null;
        for (Link link : links(from)) {
            if (link.kind() == Link.Kind.C2C) {
                TopologyPath rest = direct(link.other(from), to, PathType.PHB);
                best = wider(best, join(PathType.P2C, from, link.bandwidth(), rest));
            }
        }
        return best;
    }

    /// Over NVLink to the GPU that is closest to a card, where that one needs no CPU's root
    /// complex.
    private @Nullable TopologyPath relayed(Node from, Node to) {
        if (isNic(from) && to instanceof Gpu) {
            return reverse(relayed(to, from));
        }
        if (!(from instanceof Gpu) || !isNic(to)) {
            return null;
        }
        TopologyPath best = null;
        PathType closest = PathType.P2C;
        for (Gpu relay : gpus) {
            TopologyPath last = relay.equals(from) ? null : withoutRelay(relay, to);
            if (last == null || last.type().compareTo(closest) > 0) {
                continue;
            }
            TopologyPath first = direct(from, relay, PathType.NVL);
            if (first == null || relay.host() != from.host()) {
                continue;
            }
            best = last.type() == closest ? best : null;
            closest = last.type();
            List<Node> nodes = new ArrayList<>(first.nodes());
            nodes.addAll(last.nodes().subList(1, last.nodes().size()));
            double width = Math.min(first.bandwidth(), last.bandwidth());
            best = wider(best, new TopologyPath(PathType.PXN, width, nodes));
        }
        return best;
    }

    private @Nullable TopologyPath withoutRelay(Gpu gpu, Node nic) {
        for (PathType type : List.of(PathType.PIX, PathType.PXB)) {
            TopologyPath path = direct(gpu, nic, type);
            if (path != null) {
                return path;
            }
        }
        return chipToChip(gpu, nic);
    }

    private static boolean isNic(Node node) {
        return node instanceof Nic || node instanceof NicPort;
    }

    private static @Nullable TopologyPath join(
            PathType type, Node first, double width, @Nullable TopologyPath rest) {
        if (rest == null) {
            return null;
        }
        List<Node> nodes = new ArrayList<>(List.of(first));
        nodes.addAll(rest.nodes());
        return new TopologyPath(type, Math.min(width, rest.bandwidth()), nodes);
    }

    private static @Nullable TopologyPath reverse(@Nullable TopologyPath path) {
        return path == null
                ? null
                : new TopologyPath(path.type(), path.bandwidth(), path.nodes().reversed());
    }

    /// @return the first when they are equally wide and no longer
    private static @Nullable TopologyPath wider(
            @Nullable TopologyPath one, @Nullable TopologyPath other) {
        if (one == null || other == null) {
            return one == null ? other : one;
        }
        if (one.bandwidth() != other.bandwidth()) {
            return one.bandwidth() > other.bandwidth() ? one : other;
        }
        return one.hops() <= other.hops() ? one : other;
    }
}

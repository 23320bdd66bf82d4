package io.telpher.topology;

import java.util.List;

/// How one node of a machine reaches another.
///
/// @param type the worst of its links
/// @param bandwidth GB/s in each direction, of its narrowest link; 0 when there is no connection
/// @param nodes from the one to the other, both included; only these two where the way is not
///     known or there is none ([PathType#NET], [PathType#DIS])
public record TopologyPath(PathType type, double bandwidth, List<Node> nodes) {
    /// Copies the list.
    public TopologyPath {
        nodes = List.copyOf(nodes);
    }

    public Node from() {
        return nodes.getFirst();
    }

    public Node to() {
        return nodes.getLast();
    }

    /// @return number of links
    public int hops() {
        return nodes.size() - 1;
    }
}

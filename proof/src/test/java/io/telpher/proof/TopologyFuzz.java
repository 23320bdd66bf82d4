package io.telpher.proof;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.telpher.topology.Node;
import io.telpher.topology.Topology;
import io.telpher.topology.TopologyPath;
import java.util.List;

/// Whatever the text: it is a topology that is written and read again as the same, and whose paths
/// are the same in both directions, or an [IllegalArgumentException].
public final class TopologyFuzz {
    private static final int NODES = 12;

    private TopologyFuzz() {}

    /// @param data a file of NCCL's XML
    public static void fuzzerTestOneInput(byte[] data) {
        Topology machine;
        try {
            machine = Topology.fromXml(new String(data, UTF_8));
        } catch (IllegalArgumentException e) {
            return;
        }
        Topology again = Topology.fromXml(machine.toXml());
        if (!again.nodes().equals(machine.nodes()) || !again.links().equals(machine.links())) {
            throw new AssertionError("read again as another: " + machine.toXml());
        }
        List<Node> nodes = machine.nodes();
        List<Node> some = nodes.subList(Math.max(0, nodes.size() - NODES), nodes.size());
        for (Node one : some) {
            machine.nearestPorts(one);
            for (Node other : some) {
                TopologyPath there = machine.path(one, other);
                TopologyPath back = machine.path(other, one);
                if (there.type() != back.type() || there.bandwidth() != back.bandwidth()) {
                    throw new AssertionError(there + " but " + back);
                }
            }
        }
    }
}

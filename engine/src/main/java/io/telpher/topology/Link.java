package io.telpher.topology;

/// A connection of two nodes, the same in both directions.
///
/// @param bandwidth GB/s in each direction; of all parallel links together
public record Link(Node a, Node b, Kind kind, double bandwidth) {
    /// What the bytes go over.
    public enum Kind {
        NVLINK,
        C2C,
        PCI,
        /// Between NUMA nodes of one host.
        SOCKET,
        /// Between a card and its port.
        PORT,
        /// Inside one chip: partitions of a GPU, or switches that are one.
        LOCAL
    }

    /// @return the best type that a path over this link can have
    public PathType type() {
        return switch (kind) {
            case LOCAL -> PathType.LOC;
            case NVLINK -> PathType.NVL;
            case C2C -> PathType.C2C;
            case PORT -> PathType.PIX;
            case PCI -> {
                if (a instanceof NumaNode || b instanceof NumaNode) {
                    yield PathType.PHB;
                }
                boolean switches = a instanceof PciBridge && b instanceof PciBridge;
                yield switches ? PathType.PXB : PathType.PIX;
            }
            case SOCKET -> PathType.SYS;
        };
    }

    /// @return the other end
    Node other(Node end) {
        return end.id().equals(a.id()) ? b : a;
    }
}

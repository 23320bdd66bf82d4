package io.telpher.topology;

import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/// A port of a network card.
///
/// @param index position among the ports of the topology: the number of `NIC0`
/// @param name NCCL's name of it: the RDMA device, or else the interface
/// @param fabric what it speaks
/// @param port number of the port on its card, as NCCL counts it; 0 when unknown
/// @param mbps speed in Mb/s; 0 when unknown
/// @param state whether it is up
/// @param guid of the whole card, such as `0x506b4b0300abcdef`; empty when unknown
/// @param netdev the network interface; empty when there is none or it is unknown
/// @param function the PCI function, where it is known
/// @param card equal for the ports of one physical card, however many PCI devices it shows
/// @param lid address in its InfiniBand subnet; 0 elsewhere, or when it is unknown
/// @param gids addresses for RDMA, by their place in the port's table
public record NicPort(
        String id,
        int host,
        int index,
        String name,
        Fabric fabric,
        int port,
        int mbps,
        State state,
        String guid,
        String netdev,
        @Nullable PciAddress function,
        String card,
        int lid,
        List<Gid> gids)
        implements Node {
    /// What a speed that nobody knows is taken for.
    private static final int UNKNOWN_MBPS = 10_000;

    /// What a port speaks.
    public enum Fabric {
        INFINIBAND,
        /// Ethernet with RDMA.
        ROCE,
        /// RDMA without the queue pairs that InfiniBand and RoCE have: EFA, iWARP, usNIC.
        OTHER_RDMA,
        /// Ethernet without RDMA.
        ETHERNET,
        /// NCCL's files do not say it.
        UNKNOWN
    }

    public NicPort {
        gids = List.copyOf(gids);
    }

    /// Whether a port can be used.
    public enum State {
        UP,
        DOWN,
        UNKNOWN
    }

    /// @return GB/s in each direction; where the speed is unknown, that of 10 Gb/s
    public double bandwidth() {
        return (mbps == 0 ? UNKNOWN_MBPS : mbps) / 8000.0;
    }

    /// @return the GID by which the port is used unless a setting names another one: the best of
    ///     [Gid#usable]
    public Optional<Gid> gid() {
        return Gid.usable(gids).stream().findFirst();
    }

    @Override
    public String label() {
        return "NIC" + index;
    }
}

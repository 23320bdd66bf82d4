package io.telpher.topology;

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
        String card)
        implements Node {
    /// What a speed that nobody knows is taken for.
    private static final int UNKNOWN_MBPS = 10_000;

    /// What a port speaks.
    public enum Fabric {
        INFINIBAND,
        /// Ethernet with RDMA.
        ROCE,
        /// Ethernet without RDMA.
        ETHERNET,
        /// NCCL's files do not say it.
        UNKNOWN
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

    @Override
    public String label() {
        return "NIC" + index;
    }
}

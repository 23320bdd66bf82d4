package io.telpher.topology;

/// Something in a machine that links lead to.
public sealed interface Node permits NumaNode, PciBridge, Gpu, NvSwitch, Nic, NicPort {
    /// @return a name that no other node of the topology has, such as `0000:3b:00.0`
    String id();

    /// @return the number of the host that it is in: 0, unless a file describes several
    int host();

    /// @return a name for people and in a matrix, such as `GPU0`
    String label();
}

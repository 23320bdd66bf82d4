package io.telpher.topology;

/// How two nodes are connected, from the best to the worst, as NCCL names it.
public enum PathType {
    /// Itself.
    LOC("itself"),
    /// One step over NVLink, with or without an NVSwitch.
    NVL("NVLink, directly or through NVSwitches"),
    /// Two NVLinks with a GPU in the middle.
    NVB("NVLink through another GPU"),
    /// From chip to chip, between a GPU and its CPU.
    C2C("chip to chip, GPU and CPU"),
    /// At most one PCIe switch.
    PIX("at most one PCIe switch"),
    /// Several PCIe switches, but no CPU.
    PXB("several PCIe switches, no CPU"),
    /// From chip to chip to the CPU, and over PCIe to what is below it.
    P2C("chip to chip to the CPU, PCIe below it"),
    /// NVLink to a GPU that is close to the network card.
    PXN("NVLink to a GPU close to the NIC, PCIe from there"),
    /// Through a root complex of one NUMA node.
    PHB("PCIe through a CPU's root complex"),
    /// Between NUMA nodes.
    SYS("PCIe and the link between NUMA nodes"),
    /// Between hosts.
    NET("through the network"),
    /// Not at all.
    DIS("no connection");

    private final String meaning;

    PathType(String meaning) {
        this.meaning = meaning;
    }

    /// @return what it stands for, in a few words
    public String meaning() {
        return meaning;
    }

    /// @return the worse of the two
    public PathType worse(PathType other) {
        return compareTo(other) >= 0 ? this : other;
    }
}

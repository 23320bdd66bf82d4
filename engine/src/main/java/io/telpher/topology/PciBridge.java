package io.telpher.topology;

/// A PCIe switch; its upstream port stands for all of it. Or a bridge that devices are below.
public record PciBridge(String id, int host, PciDevice pci) implements Node {
    @Override
    public String label() {
        return pci.address().toString();
    }
}

package io.telpher.topology;

import org.jspecify.annotations.Nullable;

/// A network card: functions with one PCI bus and device number. One that is split over several
/// PCIe slots or domains is several of these, whose ports have one [NicPort#card()].
///
/// @param pci its place on the bus, its first function; null for one that is not on the PCI bus
public record Nic(String id, int host, @Nullable PciDevice pci) implements Node {
    @Override
    public String label() {
        return pci == null ? "NIC" : pci.address().toString();
    }
}

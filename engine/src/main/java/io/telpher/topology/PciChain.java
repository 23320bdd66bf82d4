package io.telpher.topology;

import java.util.ArrayList;
import java.util.List;

/// The PCI devices from a root complex down to a device, as the kernel's tree nests them: root
/// port, upstream port of a switch, downstream port of it, and so on, and the device last.
///
/// @param root the kernel's name of the root complex, such as `pci0000:3a`; empty when unknown
/// @param addresses from above to below; empty for what is not on the PCI bus
record PciChain(String root, List<PciAddress> addresses) {
    /// @param path names in the tree of devices, from `/sys/devices` downwards; those after the
    ///     last PCI device are those of what it carries, and are left out
    static PciChain of(List<String> path) {
        String root = "";
        List<PciAddress> addresses = new ArrayList<>();
        for (String name : path) {
            if (name.matches("pci\\p{XDigit}{4,8}:\\p{XDigit}{2}")) {
                // Anew: software makes up host bridges below devices.
                root = name;
                addresses.clear();
            } else if (PciAddress.matches(name)) {
                addresses.add(PciAddress.parse(name));
            } else if (!addresses.isEmpty()) {
                break;
            }
        }
        return new PciChain(root, List.copyOf(addresses));
    }

    int size() {
        return addresses.size();
    }

    PciAddress address(int i) {
        return addresses.get(i);
    }

    /// Ports and switches take turns: each second bridge is a switch's upstream port, which stands
    /// for the switch; the others are ports of what is above. The capability that says it outright
    /// can only be read by root.
    static boolean isSwitch(int depth) {
        return depth % 2 == 1;
    }
}

package io.telpher.cli.doctor;

import io.telpher.topology.Gpu;
import io.telpher.topology.Nic;
import io.telpher.topology.Node;
import io.telpher.topology.PciBridge;
import io.telpher.topology.PciDevice;
import io.telpher.topology.PcieLink;
import io.telpher.topology.Topology;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The PCIe links of NICs and of the switches above GPUs, which carry the bytes of what is below
/// them; those of GPUs themselves are looked at under load ([GpusCheck]).
final class PcieLinksCheck implements Check {
    @Override
    public String name() {
        return "pcie";
    }

    @Override
    public List<Finding> examine(Host host) {
        Topology machine = Topology.under(host.root());
        List<Finding> found = new ArrayList<>();
        int good = 0;
        for (Node node : machine.nodes()) {
            PciDevice pci = carrier(machine, node);
            PcieLink link = pci == null ? PcieLink.UNKNOWN : pci.link();
            if (pci != null && link.belowMaximum()) {
                found.add(slow(node instanceof Nic ? "the NIC" : "the switch", pci));
            } else if (link.currentWidth() > 0) {
                good++;
            }
        }
        if (found.isEmpty()) {
            found.add(
                    Finding.info(
                            name(),
                            "no NIC, and no switch above a GPU, uses less of its link than it could",
                            "%s/*/current_link_*: %d links".formatted(Pci.DEVICES, good)));
        }
        return found;
    }

    private static @Nullable PciDevice carrier(Topology machine, Node node) {
        return switch (node) {
            case Nic nic -> nic.pci();
            case PciBridge bridge -> isAboveGpu(machine, bridge) ? bridge.pci() : null;
            default -> null;
        };
    }

    private static boolean isAboveGpu(Topology machine, Node node) {
        return machine.children(node).stream()
                .anyMatch(child -> child instanceof Gpu || isAboveGpu(machine, child));
    }

    private Finding slow(String what, PciDevice pci) {
        PcieLink link = pci.link();
        String files = Pci.DEVICES + "/" + pci.address() + "/";
        return Finding.warning(
                name(),
                "%s at %s uses %s of its PCIe link, which could %s"
                        .formatted(what, pci.address(), link.current(), link),
                "%scurrent_link_speed = %s GT/s, current_link_width = %d; with the port above at most"
                                .formatted(files, link.currentSpeed(), link.currentWidth())
                        + " %s GT/s, %d".formatted(link.maxSpeed(), link.maxWidth()),
                "look again while bytes go over it, where only the speed is less; then seat card,"
                        + " riser or cable anew, use another slot, set the slot's speed to Auto and"
                        + " see whether the firmware splits its lanes (bifurcation)",
                "telpher doctor --only pcie");
    }
}

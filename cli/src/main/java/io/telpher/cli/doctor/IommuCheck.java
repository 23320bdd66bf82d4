package io.telpher.cli.doctor;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/// Whether an IOMMU translates the addresses that GPUs use for each other.
final class IommuCheck implements Check {
    private static final String UNITS = "/sys/class/iommu";
    private static final String COMMAND_LINE = "/proc/cmdline";

    @Override
    public String name() {
        return "iommu";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<String> units = host.list(UNITS);
        List<Pci> peers = Pci.peers(host);
        List<String> translated =
                peers.stream()
                        .map(Pci::address)
                        .filter(address -> type(host, address).startsWith("DMA"))
                        .toList();
        String evidence =
                "%s: %s; %s: %s%s"
                        .formatted(
                                UNITS,
                                units.isEmpty() ? "none" : String.join(", ", units),
                                COMMAND_LINE,
                                options(host),
                                peers.stream()
                                        .filter(peer -> !type(host, peer.address()).isEmpty())
                                        .map(peer -> file(peer.address()))
                                        .map(file -> "; " + host.evidence(file))
                                        .collect(Collectors.joining()));
        if (peers.size() >= 2 && peers.stream().anyMatch(Pci::isGpu) && !translated.isEmpty()) {
            return List.of(
                    Finding.warning(
                            name(),
                            "the IOMMU translates for %d GPUs or cards: copies between them are slow,"
                                            .formatted(translated.size())
                                    + " hang, or arrive wrong though the driver says that all is"
                                    + " well",
                            evidence,
                            "put iommu=pt on the kernel's command line (GRUB_CMDLINE_LINUX in"
                                    + " /etc/default/grub, update-grub, restart), or turn the IOMMU"
                                    + " off in the firmware where no device is handed to virtual"
                                    + " machines"
                                    + TrialsCheck.AGAIN,
                            "cat %s prints identity; then telpher topo --measure"
                                    .formatted(file(translated.getFirst()))));
        }
        String summary =
                units.isEmpty()
                        ? "no IOMMU is in use"
                        : peers.isEmpty()
                                ? "an IOMMU is in use; there is no GPU that it could hinder"
                                : translated.isEmpty()
                                        ? "the IOMMU does not translate for GPUs"
                                        : "the IOMMU translates for the only GPU: its host memory"
                                                + " is reached, there is no peer";
        return List.of(Finding.info(name(), summary, evidence));
    }

    private static String options(Host host) {
        String options =
                Arrays.stream(host.read(COMMAND_LINE).orElse("").split("\\s+"))
                        .filter(option -> option.contains("iommu"))
                        .collect(Collectors.joining(" "));
        return options.isEmpty() ? "no option of iommu" : options;
    }

    private static String file(String address) {
        return Pci.DEVICES + "/" + address + "/iommu_group/type";
    }

    private static String type(Host host, String address) {
        return host.read(file(address)).orElse("");
    }
}

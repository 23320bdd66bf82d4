package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/// Whether the bridges between GPUs and their peers let traffic through: Access Control Services
/// send it up to the root complex instead, where it is slow, or translated to somewhere else.
final class PciCheck implements Check {
    private static final int ACS = 0x000d;
    private static final int ATS = 0x000f;

    private static final String AS_ROOT = "sudo telpher doctor --only pci";

    /// Both capabilities have their control register here.
    private static final int CONTROL = 6;

    private static final int ATS_ENABLE = 1 << 15;

    /// The control register's bits as `lspci` names them, the lowest first.
    private static final List<String> BITS =
            List.of(
                    "SrcValid",
                    "TransBlk",
                    "ReqRedir",
                    "CmpltRedir",
                    "UpstreamFwd",
                    "EgressCtrl",
                    "DirectTrans");

    /// ReqRedir, CmpltRedir, EgressCtrl: the others change no path.
    private static final int REDIRECTING = 0b101100;

    @Override
    public String name() {
        return "pci";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Pci> peers = Pci.peers(host);
        List<Pci> gpus = peers.stream().filter(Pci::isGpu).toList();
        if (gpus.isEmpty()) {
            String seen = Pci.DEVICES + ": " + host.list(Pci.DEVICES).size() + " devices";
            return List.of(Finding.info(name(), "no GPU on the PCI bus", seen));
        }
        List<Pci> bridges =
                Pci.all(host).stream().filter(b -> peers.stream().anyMatch(b::isAbove)).toList();
        List<Finding> found = new ArrayList<>();
        found.add(acs(bridges, peers.size()));
        found.add(ats(gpus));
        if (host.read("/proc/cpuinfo").orElse("").contains(" hypervisor")) {
            found.add(
                    Finding.info(
                            name(),
                            "a virtual machine: the bridges that decide are the host's, and are not"
                                    + " seen here; with ACS on there, GPUs need ATS to reach each"
                                    + " other directly",
                            "/proc/cpuinfo: flags have hypervisor"));
        }
        return found;
    }

    private Finding acs(List<Pci> bridges, int peers) {
        List<Pci> hidden = bridges.stream().filter(bridge -> !bridge.isReadable()).toList();
        if (!hidden.isEmpty()) {
            return Finding.advice(
                    name(),
                    "ACS of %d bridges above GPUs is not known: beyond 64 bytes the kernel shows the"
                                    .formatted(hidden.size())
                            + " configuration space to CAP_SYS_ADMIN alone",
                    "%s/%s/config: %d bytes"
                            .formatted(
                                    Pci.DEVICES,
                                    hidden.getFirst().address(),
                                    hidden.getFirst().config().length),
                    AS_ROOT,
                    AS_ROOT);
        }
        List<Pci> redirecting =
                bridges.stream().filter(b -> (control(b) & REDIRECTING) != 0).toList();
        String evidence =
                bridges.isEmpty()
                        ? "no bridge above GPUs in " + Pci.DEVICES
                        : bridges.stream()
                                .map(PciCheck::describe)
                                .collect(Collectors.joining("; "));
        if (redirecting.isEmpty()) {
            return Finding.info(
                    name(), "no bridge redirects traffic between devices (ACS)", evidence);
        }
        if (peers < 2) {
            return Finding.info(
                    name(),
                    "ACS is on, but there is no second GPU or RDMA card to reach",
                    evidence);
        }
        return Finding.warning(
                name(),
                "ACS of %d bridges sends traffic between GPUs and cards up to the root complex:"
                                .formatted(redirecting.size())
                        + " slow, and with an IOMMU that translates it hangs or arrives wrong",
                evidence,
                redirecting.stream()
                                .map(b -> "setpci -s " + b.address() + " ECAP_ACS+0x6.w=0000")
                                .collect(Collectors.joining("; "))
                        + " (as root, after each boot; or turn ACS off in the firmware; not where"
                        + " devices are handed to virtual machines)"
                        + TrialsCheck.AGAIN,
                "setpci -s %s ECAP_ACS+0x6.w prints 0000; then telpher topo --measure"
                        .formatted(redirecting.getFirst().address()));
    }

    private static int control(Pci bridge) {
        int at = bridge.extended(ACS);
        return at == 0 ? 0 : bridge.word(at + CONTROL);
    }

    private static String describe(Pci bridge) {
        if (bridge.extended(ACS) == 0) {
            return bridge.address() + ": no ACS";
        }
        int control = control(bridge);
        List<String> on = new ArrayList<>();
        for (int bit = 0; bit < BITS.size(); bit++) {
            if ((control >> bit & 1) != 0) {
                on.add(BITS.get(bit));
            }
        }
        return "%s/config: ACSCtl = 0x%04x%s"
                .formatted(
                        bridge.address(),
                        control,
                        on.isEmpty() ? "" : " (" + String.join(" ", on) + ")");
    }

    private Finding ats(List<Pci> gpus) {
        if (gpus.stream().anyMatch(gpu -> !gpu.isReadable())) {
            return Finding.advice(
                    name(),
                    "ATS of the GPUs is not known",
                    "%s/%s/config: %d bytes"
                            .formatted(
                                    Pci.DEVICES,
                                    gpus.getFirst().address(),
                                    gpus.getFirst().config().length),
                    AS_ROOT,
                    AS_ROOT);
        }
        long on = gpus.stream().filter(PciCheck::translates).count();
        return Finding.info(
                name(),
                "ATS is on at %d of %d GPUs".formatted(on, gpus.size()),
                gpus.stream()
                        .map(
                                gpu ->
                                        gpu.address()
                                                + (gpu.extended(ATS) == 0
                                                        ? ": no ATS"
                                                        : translates(gpu) ? ": on" : ": off"))
                        .collect(Collectors.joining("; ")));
    }

    private static boolean translates(Pci gpu) {
        int at = gpu.extended(ATS);
        return at != 0 && (gpu.word(at + CONTROL) & ATS_ENABLE) != 0;
    }
}

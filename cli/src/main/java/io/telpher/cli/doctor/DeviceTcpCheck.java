package io.telpher.cli.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/// Whether the kernel's TCP could receive into memory of GPUs (device-memory TCP). It takes a
/// kernel that binds queues to such memory, a NIC that splits headers from data, and GPUs whose
/// memory can be a dma-buf. Telpher stages the bytes in page-locked memory, which takes none of it.
final class DeviceTcpCheck implements Check {
    private static final String STAGED = "; Telpher stages bytes for GPUs in page-locked memory";

    @Override
    public String name() {
        return "devmem-tcp";
    }

    /// A network device with hardware behind it.
    private record Card(String name, String driver, String split) {
        boolean splits() {
            return split.equals("on");
        }

        @Override
        public String toString() {
            return "%s: driver %s, tcp-data-split %s".formatted(name, driver, split);
        }
    }

    @Override
    public List<Finding> examine(Host host) {
        List<GpuState> gpus = host.probes().gpus().gpus();
        List<Card> cards = cards(host);
        boolean binds = host.probes().bindsQueues();
        String evidence =
                "netdev family of generic netlink: %s bind-rx; %s; %s"
                        .formatted(
                                binds ? "has" : "has no",
                                cards.isEmpty()
                                        ? "no NIC that is up has hardware behind it"
                                        : cards.stream()
                                                .map(Card::toString)
                                                .collect(Collectors.joining("; ")),
                                GpuDirectCheck.dmaBufs(gpus));
        if (gpus.isEmpty()) {
            return List.of(
                    Finding.info(
                            name(), "not needed: there are no GPUs for TCP to reach", evidence));
        }
        List<String> missing = missing(gpus, cards, binds);
        String unknown = String.join("", unknown(gpus, cards));
        return List.of(
                Finding.info(
                        name(),
                        missing.isEmpty()
                                ? "TCP into memory of GPUs may be possible: whether the NIC's driver"
                                        + " binds its queues shows only when it is tried"
                                        + unknown
                                        + STAGED
                                : "no TCP into memory of GPUs here, there is no "
                                        + String.join("; no ", missing)
                                        + unknown
                                        + STAGED,
                        evidence));
    }

    private static List<Card> cards(Host host) {
        List<Card> cards = new ArrayList<>();
        for (Nic nic : host.nics()) {
            String device = "/sys/class/net/" + nic.name() + "/device";
            if (!host.list(device).isEmpty()) {
                String driver = host.link(device + "/driver").orElse("unknown");
                cards.add(
                        new Card(
                                nic.name(),
                                driver.substring(driver.lastIndexOf('/') + 1),
                                host.probes().headerSplit(nic.name())));
            }
        }
        return cards;
    }

    private static List<String> missing(List<GpuState> gpus, List<Card> cards, boolean binds) {
        List<String> missing = new ArrayList<>();
        if (!binds) {
            missing.add("kernel that binds queues to it (Linux 6.12 or newer, CONFIG_NET_DEVMEM)");
        }
        if (cards.isEmpty()) {
            missing.add("NIC that could split headers from data");
        } else if (cards.stream().noneMatch(Card::splits)) {
            cards.stream()
                    .filter(card -> card.split().equals("off"))
                    .findFirst()
                    .ifPresent(
                            card ->
                                    missing.add(
                                            "header split, which a NIC has: ethtool -G "
                                                    + card.name()
                                                    + " tcp-data-split on"));
        }
        if (gpus.stream().allMatch(gpu -> gpu.dmaBuf() == 0)) {
            missing.add("GPU whose memory can be a dma-buf");
        }
        return missing;
    }

    /// What neither speaks for nor against it, each with a semicolon in front.
    private static List<String> unknown(List<GpuState> gpus, List<Card> cards) {
        List<String> unknown = new ArrayList<>();
        if (!cards.isEmpty()
                && cards.stream().noneMatch(card -> card.splits() || card.split().equals("off"))) {
            unknown.add(
                    "; whether a NIC splits headers is not known: "
                            + cards.stream().map(Card::toString).collect(Collectors.joining(", ")));
        }
        if (gpus.stream().noneMatch(gpu -> gpu.dmaBuf() == 1)
                && gpus.stream().anyMatch(gpu -> gpu.dmaBuf() < 0)) {
            unknown.add("; whether a GPU's memory can be a dma-buf is not known");
        }
        return unknown;
    }
}

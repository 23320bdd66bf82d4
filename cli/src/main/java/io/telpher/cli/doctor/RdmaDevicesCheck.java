package io.telpher.cli.doctor;

import io.telpher.spi.Availability;
import io.telpher.topology.NicPort;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/// RDMA devices and their ports: what the kernel shows, and whether libibverbs can use it.
final class RdmaDevicesCheck implements Check {
    @Override
    public String name() {
        return "rdma";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<NicPort> ports = Rdma.ports(host);
        List<String> devices = host.list(Pci.INFINIBAND);
        if (devices.isEmpty()) {
            return List.of(
                    Finding.info(
                            name(),
                            "there is no RDMA device: TCP carries what goes between hosts",
                            Pci.INFINIBAND + ": no device"));
        }
        List<Finding> found = new ArrayList<>();
        Rdma rdma = host.probes().rdma();
        if (rdma.library() instanceof Availability.Missing(String reason, String remedy)) {
            found.add(
                    Finding.warning(
                            name(),
                            "the kernel has RDMA devices and this process cannot use them: "
                                    + reason,
                            Pci.INFINIBAND + ": " + String.join(", ", devices),
                            remedy,
                            "ibv_devinfo"));
        }
        rdma.failures().forEach((device, why) -> found.add(unopened(device, why)));
        for (NicPort port : ports) {
            found.add(port(host, port));
        }
        Set<String> silent = new LinkedHashSet<>(devices);
        ports.forEach(port -> silent.remove(device(port)));
        for (String device : silent) {
            String at = Pci.INFINIBAND + "/" + device + "/ports";
            found.add(
                    Finding.info(
                            name(), device + " has no port", at + ": " + host.list(at).toString()));
        }
        return found;
    }

    private Finding unopened(String device, String why) {
        return Finding.warning(
                name(),
                device + " cannot be opened: " + why,
                why,
                "give this process /dev/infiniband/uverbs* (in a container --device"
                        + " /dev/infiniband), readable and writable",
                "ibv_devinfo -d " + device);
    }

    private Finding port(Host host, NicPort port) {
        String at = Pci.INFINIBAND + "/" + device(port);
        String evidence =
                "%s; %s"
                        .formatted(
                                host.evidence(at + "/node_type"),
                                host.evidence(at + "/ports/" + number(port) + "/state"));
        String what =
                "%s: %s, %s"
                        .formatted(
                                Rdma.label(port),
                                port.fabric() == NicPort.Fabric.INFINIBAND ? "InfiniBand" : "RoCE",
                                port.mbps() == 0
                                        ? "speed unknown"
                                        : port.mbps() / 1000.0 + " Gb/s");
        if (port.fabric() == NicPort.Fabric.OTHER_RDMA) {
            return Finding.info(
                    name(),
                    Rdma.label(port)
                            + " is seen and not used: "
                            + why(host.read(at + "/node_type").orElse("")),
                    evidence);
        }
        if (port.state() != NicPort.State.UP) {
            return Finding.info(name(), what + ", not active: no cable, or down", evidence);
        }
        return Finding.info(name(), what + ", active", evidence);
    }

    private static String why(String nodeType) {
        return switch (nodeType.isEmpty() ? ' ' : nodeType.charAt(0)) {
            case '4' ->
                    "iWARP (as siw, cxgb4) connects its queue pairs by a connection manager only";
            case '5', '6' -> "usNIC has datagrams only, no RC queue pairs";
            default -> "it has no RC queue pairs (as EFA, whose SRD keeps no order)";
        };
    }

    private static String device(NicPort port) {
        return port.name().split(":", 2)[0];
    }

    private static String number(NicPort port) {
        return Rdma.verbsName(port).substring(device(port).length() + 1);
    }
}

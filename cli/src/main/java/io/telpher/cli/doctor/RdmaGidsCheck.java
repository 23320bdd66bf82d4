package io.telpher.cli.doctor;

import io.telpher.topology.Gid;
import io.telpher.topology.NicPort;
import io.telpher.topology.NicPort.Fabric;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/// The table of GIDs of each active port: which entry is used, and why.
final class RdmaGidsCheck implements Check {
    @Override
    public String name() {
        return "gids";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        String fixed = Rdma.fixedIndex(host);
        for (NicPort port : Rdma.rails(host)) {
            found.add(fixed.isEmpty() ? automatic(port) : fixed(port, fixed));
        }
        if (found.isEmpty()) {
            found.add(Finding.info(name(), "no port of an RDMA device is active", Pci.INFINIBAND));
        }
        return found;
    }

    private Finding automatic(NicPort port) {
        Optional<Gid> used = port.gid();
        if (used.isEmpty()) {
            return Finding.warning(
                    name(),
                    Rdma.label(port) + " has no GID that can be used: RDMA cannot address it",
                    table(port),
                    port.fabric() == Fabric.ROCE
                            ? "give the interface an address (ip address add ... dev %s), and see"
                                            .formatted(netdev(port))
                                    + " that RoCE v2 is on: Telpher does not use RoCE v1"
                            : "start a subnet manager (opensm) for this subnet",
                    "telpher doctor --only gids -v");
        }
        return Finding.info(
                name(),
                "%s uses index %d, %s: %s"
                        .formatted(
                                Rdma.label(port),
                                used.get().index(),
                                used.get().address(),
                                why(port, used.get())),
                table(port));
    }

    private static String why(NicPort port, Gid used) {
        if (port.fabric() == Fabric.INFINIBAND) {
            return "the first one, as InfiniBand has it (LID %d)".formatted(port.lid());
        }
        if (!used.address().contains(":")) {
            return "RoCE v2 with an IPv4 address";
        }
        return used.linkLocal()
                ? "RoCE v2; the interface has a link-local address only, which no router forwards"
                : "RoCE v2 with a global IPv6 address; there is no IPv4 one";
    }

    private Finding fixed(NicPort port, String setting) {
        int index = Integer.parseInt(setting.substring(setting.indexOf('=') + 1));
        Optional<Gid> entry = port.gids().stream().filter(g -> g.index() == index).findFirst();
        if (entry.isPresent() && entry.get().type() != Gid.Type.ROCE_V1) {
            return Finding.info(
                    name(),
                    "%s uses index %d, %s: %s says so"
                            .formatted(Rdma.label(port), index, entry.get().address(), setting),
                    table(port));
        }
        return Finding.warning(
                name(),
                "%s: %s names %s"
                        .formatted(
                                Rdma.label(port),
                                setting,
                                entry.isPresent()
                                        ? "an entry for RoCE v1, which Telpher does not use"
                                        : "an entry that is free or not known"),
                setting + "; " + table(port),
                "unset it: indices change as addresses come and go, and the entry is found by its"
                        + " type and address",
                "telpher doctor --only gids");
    }

    private static String netdev(NicPort port) {
        return port.netdev().isEmpty() ? "INTERFACE" : port.netdev();
    }

    private static String table(NicPort port) {
        String entries =
                port.gids().stream()
                        .map(g -> "%d %s %s".formatted(g.index(), type(g.type()), g.address()))
                        .collect(Collectors.joining("; "));
        return "%s/%s/ports/%s/gids: %s"
                .formatted(
                        Pci.INFINIBAND,
                        Rdma.verbsName(port).split("/", 2)[0],
                        Rdma.verbsName(port).split("/", 2)[1],
                        entries.isEmpty() ? "(no entry in use)" : entries);
    }

    private static String type(Gid.Type type) {
        return switch (type) {
            case INFINIBAND -> "InfiniBand";
            case ROCE_V1 -> "RoCE v1";
            case ROCE_V2 -> "RoCE v2";
        };
    }
}

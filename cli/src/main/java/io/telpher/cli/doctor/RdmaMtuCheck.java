package io.telpher.cli.doctor;

import io.telpher.topology.NicPort;
import io.telpher.topology.NicPort.Fabric;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// How much data the packets of each active port carry. Both ends of a queue pair use the smaller
/// one's, so a port that differs from its neighbours is most likely forgotten.
final class RdmaMtuCheck implements Check {
    private static final int LARGEST = 4096;

    /// Bytes of headers that the kernel keeps free in a packet of RoCE.
    private static final int HEADERS = 96;

    @Override
    public String name() {
        return "rdma-mtu";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<Finding> found = new ArrayList<>();
        Map<Integer, List<String>> bySize = new TreeMap<>();
        Map<String, Integer> active = host.probes().rdma().activeMtus();
        for (NicPort port : Rdma.rails(host)) {
            int size = active.getOrDefault(Rdma.verbsName(port), 0);
            if (size > 0) {
                bySize.computeIfAbsent(size, s -> new ArrayList<>()).add(Rdma.label(port));
                found.add(port(host, port, size));
            }
        }
        if (bySize.size() > 1) {
            found.add(
                    Finding.warning(
                            name(),
                            "active ports differ in the size of their packets: two that are"
                                    + " connected use the smaller",
                            "ibv_query_port active_mtu: " + bySize,
                            "the same MTU on all interfaces, switches included (ip link set"
                                    + " INTERFACE mtu 9000)",
                            "telpher doctor --only rdma-mtu"));
        }
        if (found.isEmpty()) {
            found.add(
                    Finding.info(
                            name(),
                            "no port of an RDMA device can be asked",
                            "ibv_query_port active_mtu"));
        }
        return found;
    }

    private Finding port(Host host, NicPort port, int size) {
        String file = "/sys/class/net/" + port.netdev() + "/mtu";
        boolean roce = port.fabric() == Fabric.ROCE && !port.netdev().isEmpty();
        String evidence =
                "ibv_query_port active_mtu = " + size + (roce ? "; " + host.evidence(file) : "");
        String what = "%s: %d bytes of data in a packet".formatted(Rdma.label(port), size);
        long interfaceMtu = host.number(file).orElse(Long.MAX_VALUE);
        if (roce && size < LARGEST && interfaceMtu < LARGEST + HEADERS) {
            return Finding.info(
                    name(),
                    what
                            + "; 4096, which costs the least, needs an interface of 4192 or more,"
                            + " at both ends and in the switches",
                    evidence);
        }
        return Finding.info(name(), what, evidence);
    }
}

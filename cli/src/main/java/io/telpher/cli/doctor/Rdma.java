package io.telpher.cli.doctor;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.verbs.Verbs;
import io.telpher.internal.ffi.verbs.VerbsDevices;
import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.spi.Availability;
import io.telpher.topology.NicPort;
import io.telpher.topology.NicPort.Fabric;
import io.telpher.topology.Topology;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// RDMA devices as libibverbs sees them, beside what the kernel shows of them.
///
/// @param library whether it works, and why not
/// @param activeMtus bytes of data in a packet, by port (`mlx5_0/1`), as far as devices can be
///     opened
/// @param failures devices that cannot be opened, and why
record Rdma(Availability library, Map<String, Integer> activeMtus, Map<String, String> failures) {
    private static final String NCCL_INDEX = "NCCL_IB_GID_INDEX";
    private static final String OWN_INDEX = "TELPHER_IB_GID_INDEX";

    /// Opens every device and closes it again.
    static Rdma ask() {
        Availability library = Verbs.availability();
        Map<String, Integer> mtus = new TreeMap<>();
        Map<String, String> failures = new TreeMap<>();
        if (library instanceof Availability.Available) {
            for (VerbsDevices.Device device : VerbsDevices.list()) {
                try {
                    look(device.name(), mtus);
                } catch (TelpherException.NativeFailure e) {
                    failures.put(device.name(), String.valueOf(e.getMessage()));
                }
            }
        }
        return new Rdma(library, mtus, failures);
    }

    private static void look(String device, Map<String, Integer> mtus) {
        long context = VerbsDevices.open(device);
        try {
            for (int port = 1; port <= VerbsDevices.query(context).ports(); port++) {
                int mtu = VerbsPorts.query(context, port).activeMtu();
                mtus.put(device + "/" + port, VerbsPorts.mtuBytes(mtu));
            }
        } finally {
            int unused = VerbsDevices.close(context);
        }
    }

    /// @return the ports of RDMA devices, whatever state they are in
    static List<NicPort> ports(Host host) {
        return Topology.under(host.root()).ports().stream()
                .filter(
                        port ->
                                port.fabric() == Fabric.INFINIBAND
                                        || port.fabric() == Fabric.ROCE
                                        || port.fabric() == Fabric.OTHER_RDMA)
                .toList();
    }

    /// @return the ports that can carry transfers now
    static List<NicPort> rails(Host host) {
        return ports(host).stream()
                .filter(port -> port.fabric() != Fabric.OTHER_RDMA)
                .filter(port -> port.state() == NicPort.State.UP)
                .toList();
    }

    /// @return the port as verbs name it, `mlx5_0/1`
    static String verbsName(NicPort port) {
        int colon = port.name().indexOf(':');
        return colon < 0 ? port.name() + "/1" : port.name().replace(':', '/');
    }

    /// @return the port with its interface, for people
    static String label(NicPort port) {
        return verbsName(port) + (port.netdev().isEmpty() ? "" : " (" + port.netdev() + ")");
    }

    /// @return the variable that fixes the index of GIDs and its value; empty where none does
    static String fixedIndex(Host host) {
        for (String name : List.of(OWN_INDEX, NCCL_INDEX)) {
            String value = host.environment().getOrDefault(name, "").strip();
            if (value.matches("\\d{1,5}")) {
                return name + "=" + value;
            }
        }
        return "";
    }
}

package io.telpher.internal.device;

import io.telpher.Device;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.internal.observe.Log;
import io.telpher.topology.Gpu;
import io.telpher.topology.NumaNode;
import io.telpher.topology.Topology;
import java.util.Locale;
import java.util.Optional;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/// This machine's topology, and where memory that a device copies from and to lies best: on its own
/// NUMA node, so that no byte crosses the link between two.
public final class NumaPlacement {
    /// Devices and nodes do not come and go. Looked at when somebody asks.
    private static final class Here {
        static final Topology MACHINE = Topology.here();
    }

    private NumaPlacement() {}

    /// @return this machine, as it was when it was first asked for
    public static Topology machine() {
        return Here.MACHINE;
    }

    /// Has pages that are not there yet come from a device's node, where that has room and this
    /// process may use it. Memory elsewhere works just as well, slower.
    public static void prefer(Device device, long address, long bytes) {
        Topology machine = machine();
        int node = machine.numaNodes().size() < 2 ? -1 : nodeOf(machine, device);
        int result = node < 0 ? 0 : Memory.mbind(address, bytes, Memory.MPOL_PREFERRED, node);
        if (result < 0) {
            Log.debug(
                    "%d bytes for %s are not put on its NUMA node %d: mbind: %s"
                            .formatted(bytes, device, node, Errno.describe(result)),
                    null);
        }
    }

    /// @return the kernel's number of a device's node, -1 where the topology does not know
    static int nodeOf(Topology machine, Device device) {
        Gpu gpu = find(machine, device);
        Optional<NumaNode> node = gpu == null ? Optional.empty() : machine.numaNode(gpu);
        return node.map(NumaNode::numa).orElse(-1);
    }

    private static @Nullable Gpu find(Topology machine, Device device) {
        Gpu gpu = find(machine, device.uuid());
        return gpu != null ? gpu : at(machine, device.pciAddress());
    }

    /// @return the GPU with this UUID, or null where the topology does not know it: it knows no
    ///     slices of GPUs, and no UUIDs where only the kernel was asked
    public static @Nullable Gpu find(Topology machine, UUID uuid) {
        for (Gpu gpu : machine.gpus()) {
            if (gpu.uuid().toLowerCase(Locale.ROOT).endsWith(uuid.toString())) {
                return gpu;
            }
        }
        return null;
    }

    /// A slice is where its GPU is.
    private static @Nullable Gpu at(Topology machine, String pciAddress) {
        for (Gpu gpu : machine.gpus()) {
            if (gpu.pci().address().toString().equals(pciAddress)) {
                return gpu;
            }
        }
        return null;
    }
}

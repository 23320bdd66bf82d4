package io.telpher.cli.topo;

import io.telpher.cli.Json;
import io.telpher.internal.ffi.cuda.Cuda;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.Nvml;
import io.telpher.internal.ffi.cuda.NvmlDevices;
import io.telpher.spi.Availability;
import io.telpher.topology.Gpu;
import io.telpher.topology.Topology;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// What NVML and the CUDA driver say that GPUs can do with each other's memory. A claim:
/// `--measure` is the proof.
final class PeerAbilities {
    private PeerAbilities() {}

    /// What one GPU can do with the memory of another; a reason stands for "no".
    ///
    /// @param read why not, or null when it can
    /// @param write likewise
    /// @param atomics likewise
    record Pair(
            Gpu from,
            Gpu to,
            @Nullable String read,
            @Nullable String write,
            @Nullable String atomics) {
        String text() {
            return (read == null ? "r" : "-")
                    + (write == null ? "w" : "-")
                    + (atomics == null ? "a" : "-");
        }

        /// @return the reasons, each once
        String reasons() {
            Map<String, String> abilities = new LinkedHashMap<>();
            add(abilities, "read", read);
            add(abilities, "write", write);
            add(abilities, "atomics", atomics);
            List<String> all = new ArrayList<>();
            abilities.forEach((reason, names) -> all.add("no " + names + ": " + reason));
            return String.join("; ", all);
        }

        private static void add(
                Map<String, String> abilities, String name, @Nullable String reason) {
            if (reason != null) {
                abilities.merge(reason, name, (before, more) -> before + ", " + more);
            }
        }
    }

    /// A GPU as both drivers know it.
    ///
    /// @param nvml NVML's handle; negative without one
    /// @param cuda CUDA's number; negative where this process does not see the GPU
    private record Known(Gpu gpu, long nvml, int cuda) {}

    /// @return all ordered pairs of GPUs that at least one driver knows
    static List<Pair> of(Topology machine) {
        if (machine.gpus().size() < 2) {
            return List.of();
        }
        boolean nvml = Nvml.availability() instanceof Availability.Available;
        boolean cuda = Cuda.availability() instanceof Availability.Available;
        List<Known> all = new ArrayList<>();
        for (Gpu gpu : machine.gpus()) {
            String address = gpu.pci().address().toString();
            Known known =
                    new Known(
                            gpu,
                            nvml ? NvmlDevices.byPciBusId(address) : -1,
                            cuda ? CudaDevices.tryGetByPciBusId(address) : -1);
            if (known.nvml > 0 || known.cuda >= 0) {
                all.add(known);
            }
        }
        List<Pair> pairs = new ArrayList<>();
        for (Known from : all) {
            for (Known to : all) {
                if (from != to) {
                    pairs.add(pair(from, to));
                }
            }
        }
        return pairs;
    }

    private static Pair pair(Known from, Known to) {
        String access = access(from, to);
        return new Pair(
                from.gpu,
                to.gpu,
                first(access, status(from, to, NvmlDevices.NVML_P2P_CAPS_INDEX_READ)),
                first(access, status(from, to, NvmlDevices.NVML_P2P_CAPS_INDEX_WRITE)),
                first(
                        access,
                        first(
                                status(from, to, NvmlDevices.NVML_P2P_CAPS_INDEX_ATOMICS),
                                atomics(from, to))));
    }

    private static @Nullable String first(@Nullable String one, @Nullable String other) {
        return one == null ? other : one;
    }

    private static boolean seen(Known from, Known to) {
        return from.cuda >= 0 && to.cuda >= 0;
    }

    private static @Nullable String access(Known from, Known to) {
        if (!seen(from, to)) {
            return from.nvml > 0 && to.nvml > 0
                    ? null
                    : "this process does not see both (CUDA_VISIBLE_DEVICES), and NVML is missing";
        }
        return CudaDevices.canAccessPeer(from.cuda, to.cuda)
                ? null
                : "the driver has no peer access between them (cuDeviceCanAccessPeer)";
    }

    private static @Nullable String atomics(Known from, Known to) {
        int attribute = CudaDevices.CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
        return !seen(from, to) || CudaDevices.peerAttribute(attribute, from.cuda, to.cuda) == 1
                ? null
                : "the link has none (CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)";
    }

    private static @Nullable String status(Known from, Known to, int capability) {
        if (from.nvml <= 0 || to.nvml <= 0) {
            return null;
        }
        int status = NvmlDevices.peerStatus(from.nvml, to.nvml, capability);
        if (status < 0) {
            return status == -Nvml.NVML_ERROR_NOT_SUPPORTED && seen(from, to)
                    ? null // CUDA has answered
                    : "nvmlDeviceGetP2PStatus: " + Nvml.errorString(status);
        }
        return switch (status) {
            case NvmlDevices.NVML_P2P_STATUS_OK -> null;
            case NvmlDevices.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED ->
                    "NVML: the chipset does not support it";
            case NvmlDevices.NVML_P2P_STATUS_GPU_NOT_SUPPORTED ->
                    "NVML: the driver does not support it on this product";
            case NvmlDevices.NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED ->
                    "NVML: not between these root complexes";
            case NvmlDevices.NVML_P2P_STATUS_DISABLED_BY_REGKEY ->
                    "NVML: turned off by the driver's settings (NVreg_RegistryDwords)";
            case NvmlDevices.NVML_P2P_STATUS_NOT_SUPPORTED -> "NVML: not supported";
            default -> "NVML: status " + status;
        };
    }

    /// Prints nothing where there are no two GPUs.
    static void print(List<Pair> pairs, boolean json, PrintWriter out) {
        if (json) {
            pairs.forEach(pair -> out.println(Json.object(fields(pair))));
            return;
        }
        if (pairs.isEmpty()) {
            return;
        }
        out.println();
        out.println(
                "What the GPU of a row can do with the memory of a column's, by the drivers'"
                        + " word: r read, w write, a atomics");
        PairTable table = new PairTable();
        Set<String> reasons = new LinkedHashSet<>();
        for (Pair pair : pairs) {
            table.put(pair.from.label(), pair.to.label(), pair.text());
            String why = pair.reasons();
            if (!why.isEmpty()) {
                reasons.add("%s to %s: %s".formatted(pair.from.label(), pair.to.label(), why));
            }
        }
        table.print(out);
        reasons.forEach(out::println);
    }

    private static Map<String, @Nullable Object> fields(Pair pair) {
        Map<String, @Nullable Object> fields = new LinkedHashMap<>();
        fields.put("kind", "peer");
        fields.put("from", pair.from.id());
        fields.put("to", pair.to.id());
        fields.put("read", pair.read == null);
        fields.put("write", pair.write == null);
        fields.put("atomics", pair.atomics == null);
        fields.put("reason", pair.reasons().isEmpty() ? null : pair.reasons());
        return fields;
    }
}

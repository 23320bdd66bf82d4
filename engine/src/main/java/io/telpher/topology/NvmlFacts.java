package io.telpher.topology;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.Nvml;
import io.telpher.internal.ffi.cuda.NvmlDevices;
import io.telpher.internal.ffi.cuda.NvmlLinks;
import io.telpher.spi.Availability;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/// What NVML knows of the GPUs. Makes no context on any, and sees all of the machine or container,
/// whatever `CUDA_VISIBLE_DEVICES` says: distances do not depend on who may use what.
final class NvmlFacts implements GpuFacts {
    /// A link that carries data from chip to chip.
    private static final int C2C_ACTIVE = 1;

    /// From NVML's number of an NVLink's version to the generation: 2.2 and 3.1 have their own.
    private static final int[] GENERATIONS = {0, 1, 2, 2, 3, 3, 4, 5};

    private final List<Fact> gpus = new ArrayList<>();
    private final List<String> failures = new ArrayList<>();

    NvmlFacts() {
        switch (Nvml.availability()) {
            case Availability.Missing missing ->
                    failures.add(
                            "NVML, which knows GPUs and NVLinks, is missing: "
                                    + missing.reason()
                                    + "; "
                                    + missing.remedy());
            case Availability.Available available -> {
                int count = NvmlDevices.count();
                for (int index = 0; index < count; index++) {
                    add(index);
                }
            }
        }
    }

    private void add(int index) {
        long device = NvmlDevices.byIndex(index);
        if (device < 0) {
            failures.add(
                    "NVML does not show GPU %d: %s"
                            .formatted(index, Nvml.errorString((int) device)));
            return;
        }
        try {
            gpus.add(
                    new Fact(
                            PciAddress.parse(NvmlDevices.pciBusId(device)),
                            index,
                            NvmlDevices.uuid(device),
                            NvmlDevices.name(device),
                            Math.max(0, NvmlDevices.computeCapability(device)),
                            links(device),
                            c2c(device)));
        } catch (TelpherException.NativeFailure | IllegalArgumentException e) {
            failures.add("NVML does not show GPU %d: %s".formatted(index, e.getMessage()));
        }
    }

    private static List<NvLinkFact> links(long device) {
        List<NvLinkFact> links = new ArrayList<>();
        for (int link = 0; link < NvmlLinks.NVML_NVLINK_MAX_LINKS; link++) {
            int state = NvmlLinks.state(device, link);
            if (state < 0) {
                continue; // this GPU has no such link
            }
            boolean up = state == 1;
            if (up && !forPeers(device, link)) {
                continue;
            }
            String remote = up ? NvmlLinks.remotePciBusId(device, link) : null;
            links.add(
                    new NvLinkFact(
                            up,
                            generation(NvmlLinks.version(device, link)),
                            address(remote),
                            kind(NvmlLinks.remoteType(device, link))));
        }
        return links;
    }

    /// Links to other devices' memory; the rest is nothing that paths lead over.
    private static boolean forPeers(long device, int link) {
        return NvmlLinks.capability(device, link, NvmlLinks.NVML_NVLINK_CAP_P2P_SUPPORTED) == 1;
    }

    /// A virtual machine that has no switches shows them as `FFFFFFFF:FF:FF.F` (seen with two
    /// H200).
    static @Nullable PciAddress address(@Nullable String text) {
        try {
            return text != null && PciAddress.matches(text) ? PciAddress.parse(text) : null;
        } catch (IllegalArgumentException e) {
            return null;
        }
    }

    private static int generation(int version) {
        return version >= 0 && version < GENERATIONS.length ? GENERATIONS[version] : 0;
    }

    /// What nobody knows is a switch: a virtual machine hides those.
    private static NvLink.Kind kind(int type) {
        return switch (type) {
            case NvmlLinks.NVML_NVLINK_DEVICE_TYPE_GPU -> NvLink.Kind.GPU;
            case NvmlLinks.NVML_NVLINK_DEVICE_TYPE_IBMNPU -> NvLink.Kind.CPU;
            default -> NvLink.Kind.SWITCH;
        };
    }

    private static @Nullable C2c c2c(long device) {
        long links = NvmlDevices.field(device, NvmlDevices.NVML_FI_DEV_C2C_LINK_COUNT, 0);
        int active = 0;
        long megabytes = 0;
        for (int link = 0; link < links; link++) {
            long state =
                    NvmlDevices.field(device, NvmlDevices.NVML_FI_DEV_C2C_LINK_GET_STATUS, link);
            if (state == C2C_ACTIVE) {
                active++;
                megabytes =
                        Math.max(
                                megabytes,
                                NvmlDevices.field(
                                        device, NvmlDevices.NVML_FI_DEV_C2C_LINK_GET_MAX_BW, link));
            }
        }
        return active == 0 || megabytes <= 0
                ? null
                : new C2c(active, Math.clamp(megabytes, 1, Integer.MAX_VALUE));
    }

    @Override
    public List<Fact> gpus() {
        return List.copyOf(gpus);
    }

    @Override
    public Optional<String> missing() {
        return failures.isEmpty() ? Optional.empty() : Optional.of(String.join("; ", failures));
    }
}

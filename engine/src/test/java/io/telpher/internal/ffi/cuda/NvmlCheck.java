package io.telpher.internal.ffi.cuda;

import static io.telpher.internal.ffi.cuda.CudaCheck.same;
import static io.telpher.internal.ffi.cuda.CudaCheck.step;

/// The part of [CudaCheck] that asks NVML.
final class NvmlCheck {
    private NvmlCheck() {}

    static void run() {
        step("NVML versions", () -> Nvml.driverVersion() + ", CUDA " + Nvml.cudaVersion());
        for (int i = 0; i < NvmlDevices.count(); i++) {
            long device = NvmlDevices.byIndex(i);
            String gpu = "NVML " + i + " ";
            step(
                    gpu + "identity",
                    () -> {
                        String uuid = NvmlDevices.uuid(device);
                        String address = NvmlDevices.pciBusId(device);
                        same(NvmlDevices.byUuid(uuid), device);
                        same(NvmlDevices.byPciBusId(address), device);
                        return NvmlDevices.name(device)
                                + " "
                                + uuid
                                + " "
                                + address
                                + " /dev/nvidia"
                                + NvmlDevices.minorNumber(device)
                                + " sm_"
                                + NvmlDevices.computeCapability(device);
                    });
            step(
                    gpu + "PCIe generation, width, most of both",
                    () ->
                            "%d x%d, %d x%d"
                                    .formatted(
                                            NvmlDevices.pcieGeneration(device),
                                            NvmlDevices.pcieWidth(device),
                                            NvmlDevices.pcieMaxGeneration(device),
                                            NvmlDevices.pcieMaxWidth(device)));
            step(
                    gpu + "BAR1, ECC, MIG, fabric, C2C links",
                    () ->
                            "%s %d %d (most %d) %s %d"
                                    .formatted(
                                            NvmlDevices.bar1(device),
                                            NvmlDevices.eccMode(device),
                                            NvmlDevices.migMode(device),
                                            NvmlDevices.maxMigCount(device),
                                            NvmlDevices.fabric(device),
                                            NvmlDevices.field(
                                                    device,
                                                    NvmlDevices.NVML_FI_DEV_C2C_LINK_COUNT,
                                                    0)));
            for (int j = 0; j < NvmlDevices.count(); j++) {
                long other = NvmlDevices.byIndex(j);
                if (i != j) {
                    step(
                            gpu + "to " + j + ": ancestor, P2P read, write, NVLink, atomics",
                            () ->
                                    "%d, %d %d %d %d"
                                            .formatted(
                                                    NvmlDevices.commonAncestor(device, other),
                                                    NvmlDevices.peerStatus(device, other, 0),
                                                    NvmlDevices.peerStatus(device, other, 1),
                                                    NvmlDevices.peerStatus(device, other, 2),
                                                    NvmlDevices.peerStatus(device, other, 3)));
                }
            }
            for (int j = 0;
                    j < NvmlLinks.NVML_NVLINK_MAX_LINKS && NvmlLinks.state(device, j) >= 0;
                    j++) {
                int link = j;
                step(
                        gpu + "link " + j + ": state, version, MB/s, remote, atomics, CRC errors",
                        () ->
                                "%d, %d, %d, %s (type %d), %d, %d"
                                        .formatted(
                                                NvmlLinks.state(device, link),
                                                NvmlLinks.version(device, link),
                                                NvmlLinks.speed(device, link),
                                                NvmlLinks.remotePciBusId(device, link),
                                                NvmlLinks.remoteType(device, link),
                                                NvmlLinks.capability(device, link, 2),
                                                NvmlLinks.errorCount(device, link, 2)));
            }
        }
    }
}

package io.telpher.cli.doctor;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.Cuda;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.Nvml;
import io.telpher.internal.ffi.cuda.NvmlDevices;
import io.telpher.internal.ffi.cuda.NvmlLinks;
import io.telpher.internal.ffi.cuda.Nvrtc;
import io.telpher.internal.ffi.hip.Hip;
import io.telpher.spi.Availability;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// What NVML and CUDA say of a GPU. Zero stands for what they do not say.
///
/// @param label `GPU0`, NVML's number
/// @param name the product's name
/// @param uuid with `GPU-` in front
/// @param address on the PCI bus, as the kernel writes it
/// @param generation of the PCIe link now
/// @param maxGeneration that GPU and slot allow
/// @param width lanes of the PCIe link now
/// @param maxWidth lanes that GPU and slot allow
/// @param linksUp NVLinks that are up
/// @param linksDown numbers of NVLinks that are not
/// @param linkErrors error counters of NVLinks that are not zero, such as `link 3 replay`
/// @param countersTold whether NVML tells the error counters
/// @param bar1 bytes of the window that PCIe devices reach
/// @param memory bytes; 0 where this process does not see the GPU
/// @param mig whether it is divided into MIG instances
/// @param fabric its part in a fabric of NVSwitches, or null
/// @param dmaBuf 1 where its memory can be a dma-buf, 0 where not; -1 unknown
/// @param fabricHandles likewise for handles that other hosts of an NVLink domain can open
record GpuState(
        String label,
        String name,
        String uuid,
        String address,
        int generation,
        int maxGeneration,
        int width,
        int maxWidth,
        int linksUp,
        List<Integer> linksDown,
        Map<String, Long> linkErrors,
        boolean countersTold,
        long bar1,
        long memory,
        boolean mig,
        NvmlDevices.@Nullable Fabric fabric,
        int dmaBuf,
        int fabricHandles) {
    static final String CUDA = "CUDA driver";
    static final String NVML = "NVML";
    static final String NVRTC = "NVRTC";
    static final String HIP = "HIP";

    /// Not the CRC of data: on H200 it grows by what error correction mends, at the full rate,
    /// while nothing is sent again.
    private static final List<Map.Entry<String, Integer>> ERRORS =
            List.of(
                    Map.entry("replay", NvmlLinks.NVML_NVLINK_ERROR_DL_REPLAY),
                    Map.entry("recovery", NvmlLinks.NVML_NVLINK_ERROR_DL_RECOVERY),
                    Map.entry("CRC of flits", NvmlLinks.NVML_NVLINK_ERROR_DL_CRC_FLIT));

    /// @return the name for people
    String title() {
        return label + " (" + name + ", " + address + ")";
    }

    /// Asks the drivers of this machine.
    static Probes.Gpus ask() {
        Map<String, Availability> software = new LinkedHashMap<>();
        software.put(NVML, Nvml.availability());
        software.put(CUDA, Cuda.availability());
        software.put(NVRTC, Nvrtc.availability());
        software.put(HIP, Hip.availability());
        List<GpuState> gpus = new ArrayList<>();
        List<String> failures = new ArrayList<>();
        boolean works = Nvml.availability() instanceof Availability.Available;
        int count = works ? NvmlDevices.count() : 0;
        for (int index = 0; index < count; index++) {
            long device = NvmlDevices.byIndex(index);
            try {
                if (device < 0) {
                    failures.add("GPU" + index + ": " + Nvml.errorString((int) device));
                } else {
                    gpus.add(of(index, device));
                }
            } catch (TelpherException.NativeFailure e) {
                failures.add("GPU" + index + ": " + e.getMessage());
            }
        }
        return new Probes.Gpus(software, List.copyOf(gpus), List.copyOf(failures));
    }

    private static GpuState of(int index, long device) {
        String address = kernelAddress(NvmlDevices.pciBusId(device));
        int visible =
                Cuda.availability() instanceof Availability.Available
                        ? CudaDevices.tryGetByPciBusId(address)
                        : -1;
        int up = 0;
        List<Integer> down = new ArrayList<>();
        Map<String, Long> errors = new LinkedHashMap<>();
        boolean told = false;
        for (int link = 0; link < NvmlLinks.NVML_NVLINK_MAX_LINKS; link++) {
            int state = NvmlLinks.state(device, link);
            if (state < 0) {
                continue; // this GPU has no such link
            }
            if (state == 0) {
                down.add(link);
                continue;
            }
            up++;
            for (Map.Entry<String, Integer> kind : ERRORS) {
                long errorCount = NvmlLinks.errorCount(device, link, kind.getValue());
                told |= errorCount >= 0;
                if (errorCount > 0) {
                    errors.put("link " + link + " " + kind.getKey(), errorCount);
                }
            }
        }
        NvmlDevices.Bar1 bar1 = NvmlDevices.bar1(device);
        return new GpuState(
                "GPU" + index,
                NvmlDevices.name(device),
                NvmlDevices.uuid(device),
                address,
                Math.max(0, NvmlDevices.pcieGeneration(device)),
                Math.max(0, NvmlDevices.pcieMaxGeneration(device)),
                Math.max(0, NvmlDevices.pcieWidth(device)),
                Math.max(0, NvmlDevices.pcieMaxWidth(device)),
                up,
                List.copyOf(down),
                errors,
                told,
                bar1 == null ? 0 : bar1.total(),
                visible < 0 ? 0 : CudaDevices.totalMemory(visible),
                NvmlDevices.migMode(device) == 1,
                NvmlDevices.fabric(device),
                attribute(visible, CudaDevices.CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
                attribute(visible, CudaDevices.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED));
    }

    private static int attribute(int visible, int attribute) {
        return visible < 0 ? -1 : Math.max(-1, CudaDevices.tryAttribute(visible, attribute));
    }

    /// NVML writes four more digits of domain.
    private static String kernelAddress(String nvml) {
        return nvml.replaceFirst("^0000(?=[0-9A-Fa-f]{4}:)", "").toLowerCase(Locale.ROOT);
    }
}

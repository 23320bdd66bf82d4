package io.telpher.cli.doctor;

import io.telpher.internal.ffi.cuda.NvmlDevices;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/// NVLinks: whether they are up and without errors, and whether those of NVSwitches are set up.
final class NvLinkCheck implements Check {
    private static final String CHANNELS = "/dev/nvidia-caps-imex-channels";

    /// Boards that are soldered to each other, by NVML's names: "A100-SXM4-80GB", "H100 80GB HBM3",
    /// "H200"; cards are "H100 PCIe" and "H200 NVL".
    private static final Pattern SOCKETED =
            Pattern.compile("SXM|\\b(?:G?H|G?B)[1-9]00\\b(?!.*(?:PCIe|NVL))");

    @Override
    public String name() {
        return "nvlink";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<GpuState> gpus = host.probes().gpus().gpus();
        List<Finding> found = new ArrayList<>();
        boolean switched = false;
        for (GpuState gpu : gpus) {
            if (gpu.linksUp() > 0 || !gpu.linksDown().isEmpty()) {
                found.add(links(gpu, shouldBeLinked(host, gpus, gpu)));
                found.add(errors(gpu));
            }
            NvmlDevices.Fabric fabric = gpu.fabric();
            if (fabric != null
                    && fabric.state() != NvmlDevices.NVML_GPU_FABRIC_STATE_NOT_SUPPORTED) {
                switched = true;
                found.add(fabric(gpu, fabric));
            }
        }
        if (found.isEmpty()) {
            return List.of(
                    Finding.info(
                            name(),
                            gpus.isEmpty() ? "no GPU" : "no GPU has NVLinks",
                            "NVML: %d GPUs".formatted(gpus.size())));
        }
        if (switched) {
            found.add(channels(host, gpus));
        }
        return found;
    }

    /// Without a bridge the links of a PCIe card are all down, and a GPU that is divided has none.
    private static boolean shouldBeLinked(Host host, List<GpuState> gpus, GpuState gpu) {
        return !gpu.mig()
                && (SOCKETED.matcher(gpu.name()).find()
                        || gpus.stream().anyMatch(other -> other.linksUp() > 0)
                        || Pci.all(host).stream().anyMatch(Pci::isNvSwitch));
    }

    private Finding links(GpuState gpu, boolean shouldBeLinked) {
        String evidence =
                "nvmlDeviceGetNvLinkState(%s): %d up%s"
                        .formatted(
                                gpu.address(),
                                gpu.linksUp(),
                                gpu.linksDown().isEmpty() ? "" : ", down: " + gpu.linksDown());
        if (gpu.linksDown().isEmpty()) {
            return Finding.info(
                    name(), gpu.label() + ": all " + gpu.linksUp() + " NVLinks are up", evidence);
        }
        if (gpu.linksUp() == 0 && !shouldBeLinked) {
            return Finding.info(
                    name(),
                    gpu.label()
                            + ": none of its NVLinks is connected (a bridge or NVSwitch is missing)",
                    evidence);
        }
        int all = gpu.linksUp() + gpu.linksDown().size();
        return Finding.warning(
                name(),
                gpu.linksUp() == 0
                        ? "%s: all %d NVLinks are down, though this machine connects GPUs by them"
                                .formatted(gpu.label(), all)
                        : "%s: %d of %d NVLinks are down"
                                .formatted(gpu.label(), gpu.linksDown().size(), all),
                evidence,
                "fine where the board connects no more; else see dmesg for Xid 74, restart"
                        + " nvidia-fabricmanager, reset the GPUs (nvidia-smi -r), seat bridges anew",
                "nvidia-smi nvlink -s");
    }

    private Finding errors(GpuState gpu) {
        if (gpu.linkErrors().isEmpty()) {
            return Finding.info(
                    name(),
                    gpu.label()
                            + (gpu.countersTold()
                                    ? ": no errors on its NVLinks"
                                    : ": NVML does not tell the errors of its NVLinks (nvidia-smi"
                                            + " nvlink -e may)"),
                    "nvmlDeviceGetNvLinkErrorCounter(" + gpu.address() + ")");
        }
        return Finding.warning(
                name(),
                gpu.label() + ": errors on its NVLinks, which cost throughput while they go on",
                "nvmlDeviceGetNvLinkErrorCounter(%s): %s"
                        .formatted(
                                gpu.address(),
                                gpu.linkErrors().entrySet().stream()
                                        .map(NvLinkCheck::text)
                                        .collect(Collectors.joining(", "))),
                "nvidia-smi nvlink -re sets them to zero; where they come back under load, it is the"
                        + " cable, bridge or board",
                "telpher topo --measure, then nvidia-smi nvlink -e");
    }

    private static String text(Map.Entry<String, Long> counter) {
        return counter.getKey() + ": " + counter.getValue();
    }

    private Finding fabric(GpuState gpu, NvmlDevices.Fabric fabric) {
        String state =
                switch (fabric.state()) {
                    case NvmlDevices.NVML_GPU_FABRIC_STATE_NOT_STARTED -> "not started";
                    case NvmlDevices.NVML_GPU_FABRIC_STATE_IN_PROGRESS -> "in progress";
                    case NvmlDevices.NVML_GPU_FABRIC_STATE_COMPLETED -> "completed";
                    default -> "state " + fabric.state();
                };
        String evidence =
                "nvmlDeviceGetGpuFabricInfoV(%s): %s, status %d, cluster %s, clique %d, health mask 0x%x"
                        .formatted(
                                gpu.address(),
                                state,
                                fabric.status(),
                                fabric.clusterUuid(),
                                fabric.cliqueId(),
                                fabric.healthMask());
        if (fabric.state() == NvmlDevices.NVML_GPU_FABRIC_STATE_COMPLETED && fabric.status() == 0) {
            return Finding.info(
                    name(), gpu.label() + " is registered with the NVSwitches' fabric", evidence);
        }
        return Finding.warning(
                name(),
                "%s is not registered with the NVSwitches' fabric (%s): NVLink does not work, CUDA"
                                .formatted(gpu.label(), state)
                        + " may not even start",
                evidence,
                "systemctl restart nvidia-fabricmanager, of the driver's very version; see"
                        + " /var/log/fabricmanager.log",
                "nvidia-smi -q | grep -A 4 Fabric shows Completed and Success");
    }

    /// IMEX passes handles of memory between the hosts of one NVLink domain.
    private Finding channels(Host host, List<GpuState> gpus) {
        List<String> channels = host.list(CHANNELS);
        boolean can = gpus.stream().anyMatch(gpu -> gpu.fabricHandles() == 1);
        return Finding.info(
                name(),
                "GPUs of other hosts are not reached over NVLink, with IMEX channels or without:"
                        + " Telpher has no fabric handles, it stages such bytes",
                "%s: %s; fabric handles: %s"
                        .formatted(
                                CHANNELS,
                                channels.isEmpty() ? "(none)" : String.join(", ", channels),
                                can ? "supported" : "not supported, or not known"));
    }
}

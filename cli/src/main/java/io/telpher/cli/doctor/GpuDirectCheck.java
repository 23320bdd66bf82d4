package io.telpher.cli.doctor;

import java.util.List;
import java.util.stream.Collectors;

/// Whether RDMA cards could reach memory of GPUs: by dma-buf, or by the older kernel module.
/// Telpher stages either way, so there is nothing to be remedied.
final class GpuDirectCheck implements Check {
    private static final String MODULE = "/sys/module/nvidia_peermem";

    @Override
    public String name() {
        return "gpudirect";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<GpuState> gpus = host.probes().gpus().gpus();
        List<String> cards = host.list(Pci.INFINIBAND);
        boolean module = host.exists(MODULE);
        boolean buffers = gpus.stream().anyMatch(gpu -> gpu.dmaBuf() == 1);
        String evidence =
                "%s: %s; %s; %s: %s"
                        .formatted(
                                MODULE,
                                module ? "there" : "(not there)",
                                dmaBufs(gpus),
                                Pci.INFINIBAND,
                                cards.isEmpty() ? "no device" : String.join(", ", cards));
        return List.of(Finding.info(name(), summary(gpus, cards, module, buffers), evidence));
    }

    private static String summary(
            List<GpuState> gpus, List<String> cards, boolean module, boolean buffers) {
        if (gpus.isEmpty() || cards.isEmpty()) {
            return "not needed: there are no " + (gpus.isEmpty() ? "GPUs" : "RDMA cards");
        }
        if (!module && !buffers) {
            return "RDMA cards cannot reach memory of GPUs here, which costs Telpher nothing: it"
                    + " stages through page-locked memory of the host";
        }
        return "RDMA cards could reach memory of GPUs by %s; Telpher does not use that, it stages"
                        .formatted(buffers ? "dma-buf" : "nvidia_peermem")
                + " through page-locked memory of the host";
    }

    /// @return whether memory of each GPU can be a dma-buf, as evidence
    static String dmaBufs(List<GpuState> gpus) {
        return "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: "
                + (gpus.isEmpty()
                        ? "no GPU"
                        : gpus.stream()
                                .map(GpuDirectCheck::dmaBuf)
                                .collect(Collectors.joining(", ")));
    }

    private static String dmaBuf(GpuState gpu) {
        return gpu.label()
                + switch (gpu.dmaBuf()) {
                    case 1 -> " yes";
                    case 0 -> " no";
                    default -> " not known";
                };
    }
}

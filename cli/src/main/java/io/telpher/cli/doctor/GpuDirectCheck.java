package io.telpher.cli.doctor;

import java.util.List;
import java.util.stream.Collectors;

/// Whether RDMA cards can reach memory of GPUs: by dma-buf, or by the older kernel module.
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
        if (!gpus.isEmpty() && !cards.isEmpty() && !module && !buffers) {
            return List.of(
                    Finding.warning(
                            name(),
                            "RDMA cards do not reach memory of GPUs: it is staged in host memory",
                            evidence,
                            "modprobe nvidia_peermem (it needs the card's own RDMA stack), or the"
                                    + " driver's open kernel modules with Linux 5.12 or newer, which"
                                    + " have dma-buf",
                            "telpher doctor --only gpudirect"));
        }
        return List.of(
                Finding.info(
                        name(),
                        gpus.isEmpty() || cards.isEmpty()
                                ? "not needed: there are no "
                                        + (gpus.isEmpty() ? "GPUs" : "RDMA cards")
                                : "RDMA cards reach memory of GPUs by "
                                        + (buffers ? "dma-buf" : "nvidia_peermem"),
                        evidence));
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

package io.telpher.cli.doctor;

import io.telpher.spi.Availability;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/// Drivers and libraries of GPUs: which there are, of which version, from which file.
final class GpuDriverCheck implements Check {
    private static final String KERNEL_MODULE = "/proc/driver/nvidia/version";

    @Override
    public String name() {
        return "gpu-driver";
    }

    @Override
    public List<Finding> examine(Host host) {
        boolean nvidia =
                host.exists(KERNEL_MODULE)
                        || Pci.gpus(host).stream().anyMatch(g -> g.vendor().equals(Pci.NVIDIA));
        List<Finding> found = new ArrayList<>();
        if (nvidia) {
            found.add(module(host));
        }
        Probes.Gpus gpus = host.probes().gpus();
        for (Map.Entry<String, Availability> one : gpus.software().entrySet()) {
            String software = one.getKey();
            switch (one.getValue()) {
                case Availability.Available available ->
                        found.add(
                                Finding.info(
                                        name(),
                                        software.equals(GpuState.HIP)
                                                ? "HIP: works; that Telpher works with it is unproven"
                                                : software + ": works",
                                        available.detail()));
                case Availability.Missing missing ->
                        found.add(
                                nvidia && !software.equals(GpuState.HIP)
                                        ? Finding.warning(
                                                name(),
                                                software + " is missing: " + without(software),
                                                missing.reason(),
                                                missing.remedy(),
                                                "telpher doctor --only " + name())
                                        : Finding.info(
                                                name(), software + ": not here", missing.reason()));
            }
        }
        for (String failure : gpus.failures()) {
            found.add(
                    Finding.warning(
                            name(),
                            "NVML does not show a GPU",
                            failure,
                            "in a container, give it this GPU; else see the kernel log (dmesg) for"
                                    + " Xid, and nvidia-smi",
                            "nvidia-smi -L"));
        }
        return found;
    }

    private Finding module(Host host) {
        return host.exists(KERNEL_MODULE)
                ? Finding.info(name(), "the kernel module is loaded", host.evidence(KERNEL_MODULE))
                : Finding.warning(
                        name(),
                        "there is a GPU of NVIDIA, but its kernel module is not loaded",
                        host.evidence(KERNEL_MODULE),
                        "modprobe nvidia; see dmesg where that fails (secure boot, nouveau, a"
                                + " kernel that the module was not built for)",
                        "cat " + KERNEL_MODULE);
    }

    private static String without(String software) {
        return switch (software) {
            case GpuState.CUDA -> "no memory of GPUs";
            case GpuState.NVRTC ->
                    "copy engines make all copies, which costs small ones and pieces";
            default -> "neither NVLinks nor the state of GPUs are known";
        };
    }
}

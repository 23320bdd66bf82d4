package io.telpher.cli.doctor;

import io.telpher.internal.ffi.linux.Errno;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/// The files of `/dev` by which the CUDA driver reaches GPUs, opened as it does: control groups can
/// refuse one that is there.
final class GpuDevicesCheck implements Check {
    private static final String GPUS = "/proc/driver/nvidia/gpus";
    private static final String CONTROL = "nvidiactl";
    private static final String UVM = "nvidia-uvm";
    private static final String VERIFY = "telpher doctor --only gpu-devices";

    @Override
    public String name() {
        return "gpu-devices";
    }

    @Override
    public List<Finding> examine(Host host) {
        List<String> files =
                host.list("/dev").stream()
                        .filter(f -> f.equals(CONTROL) || f.equals(UVM) || f.matches("nvidia\\d+"))
                        .toList();
        List<String> gpus = host.list(GPUS);
        String seen = "/dev: " + (files.isEmpty() ? "no nvidia*" : String.join(", ", files));
        if (files.isEmpty()) {
            return List.of(
                    gpus.isEmpty()
                            ? Finding.info(name(), "no GPU of NVIDIA in /dev", seen)
                            : Finding.warning(
                                    name(),
                                    "the machine has %d GPUs, none of them in /dev"
                                            .formatted(gpus.size()),
                                    seen + "; " + GPUS + ": " + String.join(", ", gpus),
                                    "in a container, give it GPUs (docker run --gpus all; resource"
                                            + " nvidia.com/gpu); else nvidia-modprobe -c 0 -u",
                                    VERIFY));
        }
        List<Finding> found = new ArrayList<>();
        for (String file : files) {
            Probes.Result result = host.probes().open("/dev/" + file);
            if (!result.worked()) {
                found.add(refused(host, file, result));
            }
        }
        if (!files.contains(UVM)) {
            found.add(
                    Finding.warning(
                            name(),
                            "/dev/nvidia-uvm is missing: CUDA does not start",
                            seen,
                            "modprobe nvidia_uvm && nvidia-modprobe -c 0 -u; in a container, start it"
                                    + " again after that",
                            VERIFY));
        }
        if (found.isEmpty()) {
            found.add(Finding.info(name(), "all can be opened", seen));
        }
        List<String> elsewhere = elsewhere(host, gpus, files);
        if (!elsewhere.isEmpty()) {
            found.add(
                    Finding.info(
                            name(),
                            "%d of %d GPUs of the machine are not for this container or user"
                                    .formatted(elsewhere.size(), gpus.size()),
                            GPUS + ": no /dev/nvidia* for " + String.join(", ", elsewhere)));
        }
        return found;
    }

    private Finding refused(Host host, String file, Probes.Result result) {
        boolean byGroup = result.error() == Errno.EPERM;
        return Finding.warning(
                name(),
                "/dev/%s is there, but %s"
                        .formatted(
                                file,
                                byGroup
                                        ? "the control group does not allow it"
                                        : "cannot be opened"),
                result + (byGroup ? "; " + allowed(host) : ""),
                byGroup
                        ? "start the container with this device (docker run --gpus or --device;"
                                + " DeviceAllow= in a systemd unit); systemctl daemon-reload takes"
                                + " devices from running containers that were not started so: start"
                                + " them again"
                        : result.error() == Errno.EACCES
                                ? "chmod 666 /dev/" + file + ", or add the user to its group"
                                : "see the kernel log (dmesg) for NVRM and Xid",
                VERIFY);
    }

    /// Version 1 of control groups has a list; version 2 a program that nobody can read.
    private static String allowed(Host host) {
        Optional<String> group =
                host.read("/proc/self/cgroup")
                        .orElse("")
                        .lines()
                        .filter(line -> line.contains(":devices:"))
                        .map(line -> line.substring(line.lastIndexOf(':') + 1))
                        .findFirst();
        for (String path : List.of(group.orElse(""), "")) {
            String list = "/sys/fs/cgroup/devices" + path + "/devices.list";
            if (host.exists(list)) {
                return host.evidence(list);
            }
        }
        return "control groups of version 2 do not show what they allow";
    }

    private static List<String> elsewhere(Host host, List<String> gpus, List<String> files) {
        return gpus.stream()
                .filter(
                        gpu ->
                                host.field(GPUS + "/" + gpu + "/information", "Device Minor")
                                        .map(minor -> !files.contains("nvidia" + minor))
                                        .orElse(false))
                .toList();
    }
}

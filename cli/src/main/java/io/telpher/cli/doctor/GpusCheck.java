package io.telpher.cli.doctor;

import io.telpher.spi.Availability;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Each GPU: its PCIe link (under load, where the idle one is below its maximum), the window onto
/// its memory, and whether it is divided.
final class GpusCheck implements Check {
    private static final String UNDER_LOAD =
            "telpher bench --memory cuda:pinned --sizes 64M, meanwhile nvidia-smi"
                    + " --query-gpu=pci.bus_id,pcie.link.gen.current,pcie.link.width.current"
                    + " --format=csv -l 1";

    private static final String VERIFY = "telpher doctor --only gpus -v";

    /// What boards without a resizable window have.
    private static final long SMALL = 256L << 20;

    @Override
    public String name() {
        return "gpus";
    }

    @Override
    public List<Finding> examine(Host host) {
        Probes.Gpus gpus = host.probes().gpus();
        if (gpus.gpus().isEmpty()) {
            String reason =
                    gpus.software().get(GpuState.NVML) instanceof Availability.Missing missing
                            ? missing.reason()
                            : "NVML: 0 GPUs";
            return List.of(Finding.info(name(), "NVML shows no GPU", reason));
        }
        List<GpuState> slow =
                gpus.gpus().stream()
                        .filter(gpu -> isBelow(gpu) && gpu.generation() > 0 && gpu.width() > 0)
                        .toList();
        Map<String, Probes.Loaded> loaded =
                slow.isEmpty() ? Map.of() : host.probes().underLoad(slow);
        List<Finding> found = new ArrayList<>();
        for (GpuState gpu : gpus.gpus()) {
            found.add(link(gpu, loaded.get(gpu.address())));
            found.add(window(gpu));
            if (gpu.mig()) {
                found.add(
                        Finding.advice(
                                name(),
                                gpu.label()
                                        + " is divided (MIG): a process sees one instance, there is"
                                        + " no NVLink and no peer access, bytes go by the host",
                                "nvmlDeviceGetMigMode(" + gpu.address() + ") = 1",
                                "where it need not be divided: nvidia-smi -i %s -mig 0, as root, when"
                                                .formatted(gpu.address())
                                        + " nobody uses it",
                                "telpher doctor --only gpus,nvlink"));
            }
        }
        return found;
    }

    private static boolean isBelow(GpuState gpu) {
        return isBelow(gpu.generation(), gpu.maxGeneration())
                || isBelow(gpu.width(), gpu.maxWidth());
    }

    /// What NVML does not say (0) is not below anything.
    private static boolean isBelow(int now, int most) {
        return now > 0 && now < most;
    }

    /// @param loaded how it was under load; null where that was not asked for
    private Finding link(GpuState gpu, Probes.@Nullable Loaded loaded) {
        String evidence =
                "NVML, %s: generation %s of %s, width %s of %s"
                        .formatted(
                                gpu.address(),
                                known(gpu.generation()),
                                known(gpu.maxGeneration()),
                                known(gpu.width()),
                                known(gpu.maxWidth()));
        if (loaded != null) {
            return loaded.failure() == null
                    ? loaded(gpu, loaded, evidence)
                    : idle(gpu, evidence + "; under load: not known, " + loaded.failure());
        }
        if (isBelow(gpu)) {
            return idle(gpu, evidence);
        }
        boolean known =
                gpu.generation() > 0
                        && gpu.maxGeneration() > 0
                        && gpu.width() > 0
                        && gpu.maxWidth() > 0;
        return Finding.info(
                name(),
                known
                        ? "%s: PCIe Gen%d x%d, which is its maximum"
                                .formatted(gpu.title(), gpu.generation(), gpu.width())
                        : gpu.title() + ": its PCIe link is not known in full",
                evidence);
    }

    private Finding loaded(GpuState gpu, Probes.Loaded loaded, String idle) {
        String evidence =
                "%s; under load: generation %d, width %d"
                        .formatted(idle, loaded.generation(), loaded.width());
        if (loaded.width() < gpu.maxWidth()) {
            return Finding.warning(
                    name(),
                    "%s uses %d of the %d lanes that it could, under load too"
                            .formatted(gpu.title(), loaded.width(), gpu.maxWidth()),
                    evidence,
                    "seat card and riser anew, use another slot, see whether the firmware splits"
                            + " its lanes (bifurcation)",
                    VERIFY);
        }
        if (loaded.generation() < gpu.maxGeneration()) {
            return Finding.warning(
                    name(),
                    "%s: PCIe Gen%d under load, though GPU and slot could Gen%d"
                            .formatted(gpu.title(), loaded.generation(), gpu.maxGeneration()),
                    evidence,
                    "set the slot's link speed to Auto or Gen%d in the firmware; a riser or cable may"
                                    .formatted(gpu.maxGeneration())
                            + " not be made for it",
                    VERIFY);
        }
        return Finding.info(
                name(),
                "%s: PCIe Gen%d x%d under load, which is its maximum"
                        .formatted(gpu.title(), loaded.generation(), loaded.width()),
                evidence);
    }

    /// What can be said of a link that nothing was sent over: lanes are rarely left out to save
    /// power, generations always are.
    private Finding idle(GpuState gpu, String evidence) {
        if (isBelow(gpu.width(), gpu.maxWidth())) {
            return Finding.warning(
                    name(),
                    "%s uses %d of the %d lanes that it could"
                            .formatted(gpu.title(), gpu.width(), gpu.maxWidth()),
                    evidence,
                    "look under load first (some save power by lanes); then seat card and riser"
                            + " anew, use another slot, see whether the firmware splits its lanes",
                    UNDER_LOAD);
        }
        return Finding.info(
                name(),
                "%s: PCIe Gen%d x%s now, Gen%d at most: idle links slow down by themselves; to"
                                .formatted(
                                        gpu.title(),
                                        gpu.generation(),
                                        known(gpu.width()),
                                        gpu.maxGeneration())
                        + " see it under load: "
                        + UNDER_LOAD,
                evidence);
    }

    private Finding window(GpuState gpu) {
        String evidence =
                "nvmlDeviceGetBAR1MemoryInfo(%s): %s; memory: %s"
                        .formatted(gpu.address(), size(gpu.bar1()), size(gpu.memory()));
        if (gpu.bar1() == 0) {
            return Finding.info(
                    name(), gpu.label() + ": its window onto memory (BAR1) is not known", evidence);
        }
        if (gpu.bar1() <= SMALL || gpu.bar1() < gpu.memory()) {
            // Traffic over NVLink does not need it.
            Finding.Severity severity =
                    gpu.linksUp() > 0 ? Finding.Severity.INFO : Finding.Severity.WARNING;
            return new Finding(
                    severity,
                    name(),
                    "%s shows %s of its memory to PCIe (BAR1): peers and RDMA reach no more of it"
                                    .formatted(gpu.label(), size(gpu.bar1()))
                            + " at a time",
                    evidence,
                    "turn on Above 4G Decoding and Resizable BAR in the firmware, where board and"
                            + " card have them",
                    "nvidia-smi -q -d MEMORY shows BAR1 as large as the memory");
        }
        return Finding.info(
                name(),
                gpu.label()
                        + (gpu.memory() == 0
                                ? ": PCIe reaches %s of its memory (BAR1); this process does not see"
                                                .formatted(size(gpu.bar1()))
                                        + " how much there is"
                                : ": all of its memory can be reached over PCIe"),
                evidence);
    }

    private static String known(int number) {
        return number == 0 ? "?" : Integer.toString(number);
    }

    private static String size(long bytes) {
        return bytes == 0
                ? "not known"
                : bytes < 1L << 30 ? (bytes >> 20) + " MiB" : (bytes >> 30) + " GiB";
    }
}

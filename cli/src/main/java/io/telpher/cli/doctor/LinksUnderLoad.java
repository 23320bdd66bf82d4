package io.telpher.cli.doctor;

import io.telpher.cli.doctor.Probes.Loaded;
import io.telpher.internal.ffi.cuda.Nvml;
import io.telpher.internal.ffi.cuda.NvmlDevices;
import java.io.IOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// Looks at PCIe links while bytes go over them. One second process copies to all the GPUs, one
/// after another, as loading the driver is what takes longest.
final class LinksUnderLoad {
    private static final long LOADED_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    private LinksUnderLoad() {}

    /// @param atMost after this no other GPU is begun with
    /// @return what was seen, by address
    static Map<String, Loaded> watch(List<GpuState> gpus, Duration atMost) {
        long end = System.nanoTime() + atMost.toNanos();
        Map<String, Loaded> seen = new HashMap<>();
        String untried;
        try (Helper helper = Helper.start()) {
            String[] unused = helper.answer();
            for (GpuState gpu : gpus) {
                if (System.nanoTime() - end >= 0) {
                    break;
                }
                seen.put(gpu.address(), load(helper, gpu));
            }
            untried = "not tried, the GPUs before it took " + atMost.toSeconds() + " s";
        } catch (IOException e) {
            untried = String.valueOf(e.getMessage());
        }
        for (GpuState gpu : gpus) {
            seen.putIfAbsent(gpu.address(), failed(untried));
        }
        return seen;
    }

    private static Loaded failed(String why) {
        return new Loaded(why, 0, 0);
    }

    private static Loaded load(Helper helper, GpuState gpu) throws IOException {
        long device = NvmlDevices.byPciBusId(gpu.address());
        if (device < 0) {
            return failed(Nvml.errorString((int) device));
        }
        String failure = failure("loading", helper.ask("load " + gpu.address()));
        if (failure != null) {
            return failed(failure);
        }
        Loaded seen = watch(device, gpu);
        // Copies that ended early have left the link idle.
        failure = failure("copied", helper.ask("unload"));
        return failure == null ? seen : failed(failure);
    }

    private static @Nullable String failure(String wanted, String[] answer) {
        return answer[0].equals(wanted)
                ? null
                : String.join(" ", Arrays.copyOfRange(answer, 1, answer.length));
    }

    /// A link takes some milliseconds to wake up.
    private static Loaded watch(long device, GpuState gpu) {
        int generation = 0;
        int width = 0;
        long end = System.nanoTime() + LOADED_NANOS;
        do {
            generation = Math.max(generation, NvmlDevices.pcieGeneration(device));
            width = Math.max(width, NvmlDevices.pcieWidth(device));
            if (generation >= gpu.maxGeneration() && width >= gpu.maxWidth()) {
                break;
            }
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(5));
        } while (System.nanoTime() - end < 0);
        return generation == 0 || width == 0
                ? failed("NVML did not tell the link's generation and width meanwhile")
                : new Loaded(null, generation, width);
    }
}

package io.telpher.internal.device;

import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.Setting;
import io.telpher.TelpherException;
import io.telpher.internal.device.cuda.CudaRuntime;
import io.telpher.internal.device.hip.HipRuntime;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Availability;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// The GPU runtimes of this process: CUDA first, then HIP.
public final class Runtimes {
    private static final List<GpuRuntime> ALL = List.of(CudaRuntime.INSTANCE, HipRuntime.INSTANCE);

    /// The queues of opened devices, for [#poll()].
    private static volatile CopyQueue[] queues = {};

    private Runtimes() {}

    /// @return whether this process has opened a device
    public static boolean isOpen() {
        return queues.length > 0;
    }

    /// @return whether this process has opened that device
    public static boolean isOpen(Device device) {
        GpuRuntime runtime = runtime(device);
        return runtime != null && runtime.isOpen(device);
    }

    /// Lets the copies of all devices move on: for those who wait for something that may depend on
    /// them. Never blocks; costs nothing while no device is open.
    public static void poll() {
        for (CopyQueue queue : queues) {
            try {
                int unused = queue.poll();
            } catch (RuntimeException e) {
                // Who waits here may have nothing to do with devices.
                Log.error("the queue of a device failed", e);
            }
        }
    }

    private static synchronized void note(CopyQueue queue) {
        for (CopyQueue known : queues) {
            if (known == queue) {
                return;
            }
        }
        CopyQueue[] more = Arrays.copyOf(queues, queues.length + 1);
        more[queues.length] = queue;
        queues = more;
    }

    /// @return the device that copies between host memory and memory of another process's device:
    ///     the same one where this process sees it, else one that reaches it, of those rather one
    ///     that this process uses; without any the first, which says why it does not; null where
    ///     there is none at all
    public static @Nullable Device copierFor(Device there) {
        GpuRuntime runtime = runtime(there);
        List<Device> devices = runtime == null ? List.of() : runtime.devices();
        return runtime == null
                ? null
                : copierFor(there, devices, by -> mayReach(runtime, by, there), runtime::isOpen);
    }

    static @Nullable Device copierFor(
            Device there,
            List<Device> devices,
            Predicate<Device> mayReach,
            Predicate<Device> isOpen) {
        if (devices.isEmpty() || devices.contains(there)) {
            return devices.isEmpty() ? null : there;
        }
        List<Device> reaching = devices.stream().filter(mayReach).toList();
        return reaching.stream()
                .filter(isOpen)
                .findFirst()
                .orElse(reaching.isEmpty() ? devices.getFirst() : reaching.getFirst());
    }

    private static boolean mayReach(GpuRuntime runtime, Device by, Device of) {
        try {
            return runtime.unreachable(by, of) == null;
        } catch (TelpherException e) {
            return false; // a switch that makes no sense: told when the device is prepared
        }
    }

    private static @Nullable GpuRuntime runtime(Device device) {
        for (GpuRuntime runtime : ALL) {
            if (runtime.name().equals(device.runtime())) {
                return runtime;
            }
        }
        return null;
    }

    /// @return the runtime that drives a device
    public static GpuRuntime of(Device device) {
        GpuRuntime runtime = runtime(device);
        if (runtime == null) {
            throw new TelpherException.Unsupported(
                    "%s: no runtime '%s' is known".formatted(device, device.runtime()));
        }
        return runtime;
    }

    /// See [GpuRuntime#unreachable], of devices of any runtimes.
    public static @Nullable String unreachable(Device by, Device of) {
        return by.runtime().equals(of.runtime())
                ? of(by).unreachable(by, of)
                : "%s is driven by %s, %s by %s".formatted(by, by.runtime(), of, of.runtime());
    }

    /// @return every runtime that Telpher knows, available or not
    public static List<GpuRuntime> all() {
        return ALL;
    }

    /// @return the devices that this process sees
    public static List<Device> devices() {
        List<Device> devices = new ArrayList<>();
        for (GpuRuntime runtime : ALL) {
            devices.addAll(runtime.devices());
        }
        return List.copyOf(devices);
    }

    /// Finds a device by what people call it: see [Device#of].
    public static Device find(String text) {
        String wanted = text.strip().toLowerCase(Locale.ROOT);
        for (GpuRuntime runtime : ALL) {
            List<Device> devices = runtime.devices();
            for (int i = 0; i < devices.size(); i++) {
                Device device = devices.get(i);
                String uuid = device.uuid().toString();
                if (wanted.equals(runtime.name() + ":" + i)
                        || wanted.equals(uuid)
                        || wanted.equals("gpu-" + uuid)
                        || wanted.equals("mig-" + uuid)
                        || wanted.equals(device.pciAddress().toLowerCase(Locale.ROOT))) {
                    return device;
                }
            }
        }
        throw new TelpherException.Unsupported(
                "no device '%s' here: %s".formatted(text, describe()));
    }

    /// What the variables that GPUs go by come to in any environment, for tools and people; opens
    /// nothing.
    ///
    /// @throws IllegalArgumentException when one of Telpher's own makes no sense: names it
    public static List<Setting> settings(Map<String, String> environment) {
        return CudaRuntime.settings(environment::get);
    }

    /// @return what is kept of trials, of all kinds of devices: see [GpuRuntime#keptTrials]
    public static List<GpuRuntime.KeptTrial> keptTrials() {
        return ALL.stream().flatMap(runtime -> runtime.keptTrials().stream()).toList();
    }

    /// @return the opened device
    public static Gpu open(Device device) {
        Gpu gpu = of(device).open(device);
        note(gpu.queue());
        return gpu;
    }

    /// Describes foreign memory: see [DeviceMemory#of].
    public static DeviceMemory describe(long address, long size) {
        GpuRuntime.Pointer pointer = inspect(address, size);
        if (pointer == null) {
            throw new TelpherException.Unsupported(
                    "0x%x is not memory of a device (%s); host memory is registered as a segment"
                            .formatted(address, describe()));
        }
        if (pointer.kind() != GpuRuntime.Kind.DEVICE) {
            throw new TelpherException.Unsupported(
                    "0x%x is %s host memory: register it as a segment"
                            .formatted(address, pointer.kind().name().toLowerCase(Locale.ROOT)));
        }
        long left = pointer.base() + pointer.size() - address;
        if (size > left) {
            throw new IndexOutOfBoundsException(
                    "%d bytes at 0x%x: its allocation ends after %d"
                            .formatted(size, address, left));
        }
        return new DeviceMemory(pointer.device(), address, size);
    }

    /// @return what some driver knows of memory, or null; see [GpuRuntime#inspect]
    public static GpuRuntime.@Nullable Pointer inspect(long address, long bytes) {
        for (GpuRuntime runtime : ALL) {
            GpuRuntime.Pointer pointer = runtime.inspect(address, bytes);
            if (pointer != null) {
                return pointer;
            }
        }
        return null;
    }

    /// @return what there is, for people
    public static String describe() {
        StringBuilder text = new StringBuilder();
        for (GpuRuntime runtime : ALL) {
            text.append(text.isEmpty() ? "" : "; ").append(runtime.name()).append(": ");
            switch (runtime.probe()) {
                case Availability.Available available -> {
                    text.append(available.detail());
                    for (Device device : runtime.devices()) {
                        text.append(", ").append(device);
                    }
                }
                case Availability.Missing missing ->
                        text.append(missing.reason())
                                .append(" (")
                                .append(missing.remedy())
                                .append(')');
            }
        }
        return text.toString();
    }
}

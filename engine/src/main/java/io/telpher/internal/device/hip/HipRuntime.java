package io.telpher.internal.device.hip;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.device.Pins;
import io.telpher.internal.ffi.hip.Hip;
import io.telpher.internal.ffi.hip.HipDevices;
import io.telpher.internal.ffi.hip.HipMemory;
import io.telpher.spi.Availability;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// AMD's HIP runtime, for this process. Unproven on hardware.
///
/// Memory of its devices is allocated, described, copied and staged; what HIP offers beyond that,
/// and nobody could try, is refused: memory of other processes and of other devices, and counters
/// in a device's memory. Their bytes go by frames.
public final class HipRuntime implements GpuRuntime {
    /// The one of this process.
    public static final HipRuntime INSTANCE = new HipRuntime();

    /// What the kernel's driver offers programs. Without it the library is not even opened: it
    /// brings a compiler, takes its time, and most machines have no such device.
    private static final Path DRIVER = Path.of("/dev/kfd");

    private final Map<Device, HipGpu> opened = new ConcurrentHashMap<>();
    private final Pins pins = new Pins();

    private HipRuntime() {}

    @Override
    public String name() {
        return "hip";
    }

    @Override
    public Availability probe() {
        return Seen.HERE.availability;
    }

    @Override
    public List<Device> devices() {
        return Seen.HERE.devices;
    }

    @Override
    public Gpu open(Device device) {
        int number = devices().indexOf(device);
        if (number < 0) {
            throw new TelpherException.Unsupported(
                    ("this process does not see %s: its devices are %s (HIP_VISIBLE_DEVICES and"
                                    + " ROCR_VISIBLE_DEVICES hide devices)")
                            .formatted(device, devices()));
        }
        return opened.computeIfAbsent(
                devices().get(number), known -> new HipGpu(known, new HipDevice(number), pins));
    }

    @Override
    public boolean isOpen(Device device) {
        return opened.containsKey(device);
    }

    /// What the driver says of other devices is not believed without a trial, and there is none.
    @Override
    public @Nullable String unreachable(Device by, Device of) {
        return of.equals(by)
                ? null
                : "copies between %s and %s are not tried, so not trusted: HIP has no trial"
                        .formatted(by, of);
    }

    /// Only asked for what [#unreachable] lets through: a device and itself.
    @Override
    public CompletableFuture<Trial> tried(Device one, Device other) {
        return CompletableFuture.completedFuture(Trial.NONE);
    }

    @Override
    public @Nullable Pointer inspect(long address, long bytes) {
        if (devices().isEmpty()) {
            return null;
        }
        HipMemory.Attributes found = HipMemory.describe(address);
        if (found == null || (found.type() == HipMemory.Type.OTHER && !found.managed())) {
            return null;
        }
        Kind kind =
                found.managed()
                        ? Kind.MANAGED
                        : found.type() == HipMemory.Type.DEVICE ? Kind.DEVICE : Kind.PINNED;
        Device owner = devices().get(Math.clamp(found.device(), 0, devices().size() - 1));
        return new Pointer(kind, owner, found.base(), found.bytes(), found.bufferId());
    }

    /// The runtime as it was found when somebody first asked.
    private record Seen(Availability availability, List<Device> devices) {
        static final Seen HERE = look();

        private static Seen look() {
            if (System.getProperty(Hip.LIBRARY_PROPERTY) == null && !Files.exists(DRIVER)) {
                return nothing(
                        "no AMD GPU: there is no " + DRIVER,
                        "modprobe amdgpu; in a container, give it /dev/kfd and /dev/dri");
            }
            if (!(Hip.availability() instanceof Availability.Available available)) {
                return new Seen(Hip.availability(), List.of());
            }
            try {
                return new Seen(available, list());
            } catch (TelpherException e) {
                return nothing(
                        available.detail() + ", which cannot name its devices: " + e.getMessage(),
                        "update ROCm to 5.2 or later, and see rocminfo");
            }
        }

        private static Seen nothing(String reason, String remedy) {
            return new Seen(new Availability.Missing(reason, remedy), List.of());
        }

        private static List<Device> list() {
            List<Device> all = new ArrayList<>();
            for (int i = 0; i < HipDevices.tryCount(); i++) {
                String address = HipDevices.pciBusId(i).toLowerCase(Locale.ROOT);
                Device device = new Device("hip", HipDevices.uuid(i), address, HipDevices.name(i));
                if (all.contains(device)) {
                    // Products without an identity have one in common.
                    UUID uuid =
                            UUID.nameUUIDFromBytes(
                                    (device.uuid() + address).getBytes(StandardCharsets.UTF_8));
                    device = new Device("hip", uuid, address, device.name());
                }
                all.add(device);
            }
            return List.copyOf(all);
        }
    }
}

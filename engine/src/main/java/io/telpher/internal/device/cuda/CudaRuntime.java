package io.telpher.internal.device.cuda;

import io.telpher.Device;
import io.telpher.Setting;
import io.telpher.TelpherException;
import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.device.Intermediates;
import io.telpher.internal.device.Pins;
import io.telpher.internal.ffi.cuda.Cuda;
import io.telpher.internal.ffi.cuda.CudaContexts;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaPointers;
import io.telpher.internal.ffi.cuda.Nvrtc;
import io.telpher.internal.ffi.linux.Environment;
import io.telpher.spi.Availability;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// The CUDA driver, for this process.
///
/// ```text
/// CudaRuntime ── CudaGpu, one per opened device
///                  ├─ CudaContext      its primary context
///                  ├─ Allocations      memory that can be given away
///                  ├─ Exports, Imports what others were given, and what others gave
///                  └─ CudaQueue        copies in the background
///                       └─ Lane        launches of one kind: EngineLane, KernelLane
///                            └─ Launch jobs that go out together
/// Pins, page-locked host memory, are of all devices.
/// ```
///
/// Devices are known by UUID: the driver's numbers follow `CUDA_VISIBLE_DEVICES`, and a slice
/// of a GPU (MIG) has a UUID of its own.
public final class CudaRuntime implements GpuRuntime {
    /// The one of this process.
    public static final CudaRuntime INSTANCE = new CudaRuntime();

    /// Guards `opened`; held while a context is made, which takes some 100 ms.
    private final ReentrantLock opening = new ReentrantLock();

    private volatile @Nullable List<Device> devices;

    /// By the driver's number; replaced, never changed.
    private volatile @Nullable CudaGpu[] opened = {};

    private final Pins pins = new Pins();

    private CudaRuntime() {}

    @Override
    public String name() {
        return "cuda";
    }

    @Override
    public Availability probe() {
        if (!(Cuda.availability() instanceof Availability.Available(String driver))) {
            return Cuda.availability();
        }
        return new Availability.Available(
                switch (Nvrtc.availability()) {
                    case Availability.Available(String nvrtc) -> driver + ", NVRTC " + nvrtc;
                    case Availability.Missing(String reason, String remedy) ->
                            "%s; copy engines only, without kernels: %s (%s)"
                                    .formatted(driver, reason, remedy);
                });
    }

    @Override
    public List<Device> devices() {
        List<Device> known = devices;
        if (known == null) {
            known = list();
            devices = known;
        }
        return known;
    }

    private static List<Device> list() {
        if (!(Cuda.availability() instanceof Availability.Available)) {
            return List.of();
        }
        List<Device> all = new ArrayList<>();
        for (int i = 0; i < CudaDevices.count(); i++) {
            int device = CudaDevices.get(i);
            all.add(
                    new Device(
                            "cuda",
                            CudaDevices.uuid(device),
                            CudaDevices.pciBusId(device).toLowerCase(Locale.ROOT),
                            CudaDevices.name(device)));
        }
        return List.copyOf(all);
    }

    @Override
    public CudaGpu open(Device device) {
        int number = devices().indexOf(device);
        if (number < 0) {
            throw new TelpherException.Unsupported(
                    "this process does not see %s: its devices are %s (CUDA_VISIBLE_DEVICES hides"
                                    .formatted(device, devices())
                            + " devices)");
        }
        return open(number);
    }

    /// What the variables that GPUs go by come to, for tools and people.
    ///
    /// @param environment gives a variable's value, or null
    /// @throws IllegalArgumentException when one of Telpher's own makes no sense: names it
    public static List<Setting> settings(Function<String, @Nullable String> environment) {
        return GpuSettings.inForce(environment);
    }

    @Override
    public boolean isOpen(Device device) {
        int number = devices().indexOf(device);
        return number >= 0 && opened(number) != null;
    }

    private CudaGpu open(int number) {
        CudaGpu known = opened(number);
        if (known != null) {
            return known;
        }
        opening.lock();
        try {
            known = opened(number);
            if (known == null) {
                known = make(number);
                @Nullable CudaGpu[] more = new @Nullable CudaGpu[devices().size()];
                System.arraycopy(opened, 0, more, 0, opened.length);
                more[number] = known;
                opened = more;
            }
            return known;
        } finally {
            opening.unlock();
        }
    }

    /// What fails leaves the device as it was.
    private CudaGpu make(int number) {
        // A variable that makes no sense is an error now, and not at some transfer.
        GpuSettings.check(Environment::getenv);
        CudaContext context = CudaContext.retain(device(number));
        boolean made = false;
        try {
            CudaGpu gpu = new CudaGpu(devices().get(number), context, pins);
            made = true;
            return gpu;
        } finally {
            if (!made) {
                CudaContexts.releasePrimary(device(number));
            }
        }
    }

    private static int device(int number) {
        return CudaDevices.get(number);
    }

    /// The opened device of the driver's number, or null.
    @Nullable CudaGpu opened(int number) {
        @Nullable CudaGpu[] all = opened;
        return number < all.length ? all[number] : null;
    }

    /// The driver's number of a device, or -1 where this process does not see it.
    int number(UUID uuid) {
        List<Device> all = devices();
        for (int i = 0; i < all.size(); i++) {
            if (all.get(i).uuid().equals(uuid)) {
                return i;
            }
        }
        return -1;
    }

    @Override
    public @Nullable String unreachable(Device by, Device of) {
        return PeerAccess.unreachable(by.uuid(), of.uuid());
    }

    @Override
    public CompletableFuture<Trial> tried(Device one, Device other) {
        return PeerAccess.tried(one.uuid(), other.uuid());
    }

    @Override
    public List<KeptTrial> keptTrials() {
        return Cuda.availability() instanceof Availability.Available ? PeerProbe.kept() : List.of();
    }

    @Override
    public Intermediates intermediates(Device one, Device other, boolean named) {
        return new IntermediateSearch(
                        devices(), this::isOpen, PeerAccess::unreachable, PeerAccess.limit())
                .between(one.uuid(), other.uuid(), named);
    }

    @Override
    public @Nullable Pointer inspect(long address, long bytes) {
        CudaContext any = anyContext();
        if (any == null) {
            return null;
        }
        long before = any.enter();
        try {
            CudaPointers.Attributes found = CudaPointers.describe(address);
            if (found.memoryType() == 0 && !found.managed()) {
                return null;
            }
            boolean device = found.memoryType() == CudaPointers.CU_MEMORYTYPE_DEVICE;
            Kind kind = found.managed() ? Kind.MANAGED : device ? Kind.DEVICE : Kind.PINNED;
            Device owner = devices().get(Math.clamp(found.device(), 0, devices().size() - 1));
            if (kind == Kind.DEVICE) {
                CudaMemory.Range range = Parts.at(open(found.device()).context(), address);
                long end = end(found, range, address + bytes);
                return new Pointer(kind, owner, range.base(), end - range.base(), found.bufferId());
            }
            return new Pointer(
                    kind, owner, found.rangeStart(), found.rangeBytes(), found.bufferId());
        } finally {
            any.exit(before);
        }
    }

    /// Where memory ends that may be mapped in parts, as PyTorch's expandable segments are. Parts
    /// that lie side by side in one reservation belong together; two allocations that happen to be
    /// neighbours do not.
    private long end(CudaPointers.Attributes first, CudaMemory.Range part, long wanted) {
        long end = part.base() + part.bytes();
        while (end < wanted) {
            CudaPointers.Attributes next = CudaPointers.describe(end);
            if (next.memoryType() != CudaPointers.CU_MEMORYTYPE_DEVICE
                    || next.device() != first.device()
                    || next.rangeStart() != first.rangeStart()) {
                break;
            }
            CudaMemory.Range range = Parts.at(open(next.device()).context(), end);
            end = range.base() + range.bytes();
        }
        return end;
    }

    /// A context that exists already. Where none does, nobody in this process can have memory
    /// of a device, and none is made to find that out.
    private @Nullable CudaContext anyContext() {
        for (CudaGpu gpu : opened) {
            if (gpu != null) {
                return gpu.context();
            }
        }
        for (int i = 0; i < devices().size(); i++) {
            if (CudaContexts.primaryState(device(i)).active()) {
                return open(i).context();
            }
        }
        return null;
    }
}

package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.Nvml;
import io.telpher.internal.ffi.cuda.NvmlDevices;
import io.telpher.spi.Availability;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/// Whether one device reaches another's memory: by the job's switches, by the driver's word, and by
/// trial. Makes no context. Thread-safe.
final class PeerAccess {
    private PeerAccess() {}

    /// What the job's switches say, NVML of slices, and the driver of devices that this process
    /// sees; of others only trying tells.
    ///
    /// @return a reason why not, or null
    static @Nullable String unreachable(UUID by, UUID of) {
        if (by.equals(of)) {
            return null;
        }
        // Before the limit: a topology knows GPUs, and no slices. And before any trial: a child
        // process would have to see both, and a process sees one slice.
        for (UUID device : List.of(by, of)) {
            if (isSlice(device)) {
                return "device %s is a MIG slice, and those reach no other device's memory"
                        .formatted(device);
            }
        }
        String limited = limit().refuses(by, of);
        int from = CudaRuntime.INSTANCE.number(by);
        int to = CudaRuntime.INSTANCE.number(of);
        if (limited != null || from < 0 || to < 0) {
            return limited;
        }
        int device = CudaDevices.get(from);
        int peer = CudaDevices.get(to);
        if (peer == device || CudaDevices.canAccessPeer(device, peer)) {
            return null;
        }
        return "the driver has no peer access between device %s and device %s (cuDeviceCanAccessPeer)"
                .formatted(by, of);
    }

    private static boolean isSlice(UUID device) {
        return Nvml.availability() instanceof Availability.Available
                && NvmlDevices.byUuid("MIG-" + device) >= 0;
    }

    /// See [GpuRuntime#tried].
    static CompletableFuture<GpuRuntime.Trial> tried(UUID one, UUID other) {
        Tuning tuning = Tuning.current();
        return tuning.probe() && !one.equals(other)
                ? PeerProbe.of(one, other, tuning.probeSeconds())
                : CompletableFuture.completedFuture(GpuRuntime.Trial.NONE);
    }

    /// The job's switches now.
    static PeerLimit limit() {
        try {
            return PeerLimit.current();
        } catch (IllegalArgumentException e) {
            throw new TelpherException.Unsupported(String.valueOf(e.getMessage()));
        }
    }
}

package io.telpher.internal.device.hip;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Pins;
import io.telpher.internal.ffi.hip.HipMemory;
import io.telpher.internal.ffi.hip.HipStreams;
import org.jspecify.annotations.Nullable;

/// One opened HIP device. It stays open until the process ends.
final class HipGpu implements Gpu {
    static final String NO_UPDATES =
            "counters in memory of an AMD GPU take a kernel, which Telpher does not have for HIP:"
                    + " keep the counter in host memory";

    /// As CUDA's.
    private static final Staging STAGING = new Staging(1 << 20, 16);

    private final Device device;
    private final HipDevice hip;
    private final Pins pins;

    /// For copies that their callers wait for.
    private final long stream;

    private final HipQueue queue;

    HipGpu(Device device, HipDevice hip, Pins pins) {
        this.device = device;
        this.hip = hip;
        this.pins = pins;
        int before = hip.enter();
        try {
            this.stream = HipStreams.create(HipStreams.hipStreamNonBlocking);
            this.queue = new HipQueue(hip);
        } finally {
            hip.exit(before);
        }
    }

    @Override
    public Device device() {
        return device;
    }

    @Override
    public Allocation allocate(long bytes) {
        if (bytes <= 0) {
            throw new IllegalArgumentException("cannot allocate " + bytes + " bytes");
        }
        int before = hip.enter();
        try {
            return new Allocated(HipMemory.malloc(bytes));
        } finally {
            hip.exit(before);
        }
    }

    private final class Allocated implements Allocation {
        private final long address;
        private boolean closed;

        Allocated(long address) {
            this.address = address;
        }

        @Override
        public long address() {
            return address;
        }

        @Override
        public boolean mayLinger() {
            return false;
        }

        @Override
        public synchronized void close() {
            if (closed) {
                return;
            }
            closed = true;
            int before = hip.enter();
            try {
                HipMemory.free(address);
            } finally {
                hip.exit(before);
            }
        }
    }

    @Override
    public Export export(long address, long bytes, int ways) {
        throw new TelpherException.Unsupported(
                "memory at 0x%x of %s is not given to other processes: HIP's IPC is not used"
                        .formatted(address, device));
    }

    @Override
    public Import open(long owner, byte[] record, int[] descriptors) {
        throw new TelpherException.Unsupported(
                "%s does not map memory of other processes: HIP's IPC is not used"
                        .formatted(device));
    }

    @Override
    public Import reach(Gpu other, long address, long bytes) {
        String reason = HipRuntime.INSTANCE.unreachable(device, other.device());
        if (reason != null) {
            throw new TelpherException.Unsupported(reason);
        }
        return new Direct(address, bytes);
    }

    /// Memory of this device: nothing was made for it that would have to go.
    private record Direct(long address, long size) implements Import {
        @Override
        public String path() {
            return "hip-direct";
        }

        @Override
        public void close() {}
    }

    @Override
    public Pin pin(long address, long bytes) {
        return pins.pin(new HipPinning(hip), address, bytes);
    }

    @Override
    public void copy(long to, long from, long bytes) {
        if (bytes == 0) {
            return;
        }
        int before = hip.enter();
        try {
            HipStreams.copy(to, from, bytes, stream);
            HipStreams.synchronize(stream);
        } finally {
            hip.exit(before);
        }
    }

    /// There is no word that a stream would write, so the caller waits.
    @Override
    public @Nullable Point point(long of) {
        int before = hip.enter();
        try {
            HipStreams.synchronize(of);
        } finally {
            hip.exit(before);
        }
        return null;
    }

    @Override
    public void update(long address, boolean add, long value) {
        throw new TelpherException.Unsupported(
                "0x%x of %s: %s".formatted(address, device, NO_UPDATES));
    }

    @Override
    public Staging staging() {
        return STAGING;
    }

    @Override
    public CopyQueue queue() {
        return queue;
    }
}

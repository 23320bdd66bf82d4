package io.telpher.internal.engine;

import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.memory.Release;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// Memory of one GPU: Telpher's own, or the caller's.
final class GpuMemory implements RegionMemory {
    private final DeviceMemory memory;
    private final Gpu gpu;
    private final Gpu.@Nullable Allocation own;

    /// How other GPUs of this process reach it.
    private final Map<Device, Gpu.Import> reached = new ConcurrentHashMap<>();

    /// Guarded by `this`.
    private boolean closed;

    private GpuMemory(Gpu gpu, DeviceMemory memory, Gpu.@Nullable Allocation own) {
        this.gpu = gpu;
        this.memory = memory;
        this.own = own;
    }

    static GpuMemory allocate(Device device, long bytes) {
        Gpu gpu = Runtimes.open(device);
        Gpu.Allocation own = gpu.allocate(bytes);
        return new GpuMemory(gpu, new DeviceMemory(device, own.address(), bytes), own);
    }

    static GpuMemory of(DeviceMemory memory) {
        return new GpuMemory(Runtimes.open(memory.device()), memory, null);
    }

    @Override
    public long size() {
        return memory.size();
    }

    @Override
    public @Nullable MemorySegment host() {
        return null;
    }

    @Override
    public DeviceMemory device() {
        return memory;
    }

    @Override
    public int memfd() {
        return -1;
    }

    @Override
    public boolean mayLinger() {
        return own != null && own.mayLinger();
    }

    @Override
    public void copyOut(long at, MemorySegment into, long offset, long bytes) {
        if (into.isNative()) {
            MemorySegment to = into.asSlice(offset, bytes);
            gpu.copy(to.address(), memory.address() + at, bytes);
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment staging = arena.allocate(Math.max(1, bytes));
            gpu.copy(staging.address(), memory.address() + at, bytes);
            MemorySegment.copy(staging, 0, into, offset, bytes);
        }
    }

    @Override
    public void copyIn(long at, MemorySegment from, long offset, long bytes) {
        if (from.isNative()) {
            MemorySegment source = from.asSlice(offset, bytes);
            gpu.copy(memory.address() + at, source.address(), bytes);
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment staging = arena.allocate(Math.max(1, bytes));
            MemorySegment.copy(from, offset, staging, 0, bytes);
            gpu.copy(memory.address() + at, staging.address(), bytes);
        }
    }

    @Override
    public boolean update(long at, CounterUpdate.Kind kind, long value) {
        if ((memory.address() + at & 7) != 0) {
            return false;
        }
        gpu.update(memory.address() + at, kind == CounterUpdate.Kind.ADD, value);
        return true;
    }

    @Override
    public synchronized void prepare(Device by) {
        if (closed) {
            throw new TelpherException.Unsupported("the region is closed");
        }
        if (!by.equals(memory.device()) && !reached.containsKey(by)) {
            reached.put(by, Runtimes.open(by).reach(gpu, memory.address(), memory.size()));
        }
    }

    @Override
    public long address(Device by) {
        if (by.equals(memory.device())) {
            return memory.address();
        }
        Gpu.Import reach = reached.get(by);
        return reach == null ? 0 : reach.address();
    }

    @Override
    public synchronized void close() {
        closed = true;
        Release.each(
                () -> Release.all(reached.values(), Gpu.Import::close),
                reached::clear,
                () -> {
                    if (own != null) {
                        own.close();
                    }
                });
    }

    @Override
    public String text() {
        return (own == null ? "foreign memory of " : "memory of ") + memory.device();
    }
}

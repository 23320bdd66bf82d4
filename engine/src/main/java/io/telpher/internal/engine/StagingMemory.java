package io.telpher.internal.engine;

import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.NumaPlacement;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Memory;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Page-locked memory in which bytes of GPUs wait, in buffers of one size. GPUs of this process
/// copy from and to it by themselves. Not thread-safe: its owner's token guards it.
final class StagingMemory implements AutoCloseable {
    private final MemorySegment memory;
    private final Gpu.Pin pin;
    private final boolean own;
    private final MemorySegment[] buffers;
    private final int[] free;
    private int freeCount;

    private StagingMemory(MemorySegment memory, Gpu.Pin pin, boolean own, int bytes, int count) {
        this.memory = memory;
        this.pin = pin;
        this.own = own;
        this.buffers = new MemorySegment[count];
        this.free = new int[count];
        for (int i = 0; i < count; i++) {
            buffers[i] = memory.asSlice((long) i * bytes, bytes);
            free[freeCount++] = count - 1 - i;
        }
    }

    /// Memory of this process alone.
    ///
    /// @throws TelpherException when there is none, or it cannot be page-locked, with the reason
    static StagingMemory allocate(Gpu gpu, int bytes, int count) {
        long page = Memory.pageSize();
        long size = ((long) bytes * count + page - 1) / page * page;
        long address =
                Memory.mmap(
                        0,
                        size,
                        Memory.PROT_READ | Memory.PROT_WRITE,
                        Memory.MAP_PRIVATE | Memory.MAP_ANONYMOUS,
                        -1,
                        0);
        if (address < 0) {
            throw new TelpherException.Unsupported(
                    "%d bytes for staging: %s".formatted(size, Errno.describe((int) address)));
        }
        int unused = Memory.madvise(address, size, Memory.MADV_DONTFORK);
        NumaPlacement.prefer(gpu.device(), address, size);
        Gpu.Pin pin = null;
        try {
            pin = gpu.pin(address, size);
            return new StagingMemory(Memory.segment(address, size), pin, true, bytes, count);
        } finally {
            if (pin == null) {
                int ignored = Memory.munmap(address, size);
            }
        }
    }

    /// Memory of a lane, which outlives this.
    ///
    /// @throws TelpherException when it cannot be page-locked, with the reason
    static StagingMemory of(Gpu gpu, MemorySegment shared, int bytes) {
        int count = (int) (shared.byteSize() / bytes);
        // Of two sides the one that page-locks it first decides: both of its copies are as long.
        NumaPlacement.prefer(gpu.device(), shared.address(), shared.byteSize());
        return new StagingMemory(
                shared, gpu.pin(shared.address(), shared.byteSize()), false, bytes, count);
    }

    /// @return whether it is a lane's, and what lies there needs not be copied to be sent
    boolean isShared() {
        return !own;
    }

    /// @return whether this is the page-locked form of that memory
    boolean isOf(@Nullable MemorySegment other) {
        return memory.equals(other);
    }

    /// @return buffers that nobody has
    int free() {
        return freeCount;
    }

    /// @return bytes of a buffer
    int bytes() {
        return (int) buffers[0].byteSize();
    }

    /// Takes a buffer, if one is free.
    ///
    /// @return its number; -1 for none
    int take() {
        return freeCount == 0 ? -1 : free[--freeCount];
    }

    void give(int buffer) {
        free[freeCount++] = buffer;
    }

    MemorySegment buffer(int number) {
        return buffers[number];
    }

    /// Nobody copies from or to it any more.
    @Override
    public void close() {
        pin.close();
        if (own) {
            int unused = Memory.munmap(memory.address(), memory.byteSize());
        }
    }
}

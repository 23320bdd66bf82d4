package io.telpher.internal.engine;

import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.memory.SharedMemory;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import org.jspecify.annotations.Nullable;

/// Host memory: Telpher's own, which peers can map, or the caller's.
final class HostMemory implements RegionMemory {
    private static final VarHandle WORD = ValueLayout.JAVA_LONG.varHandle();

    private final MemorySegment segment;
    private final @Nullable SharedMemory shared;

    /// Held while GPUs copy from and to it; guarded by `this`, except for reading.
    private volatile Gpu.@Nullable Pin pin;

    /// Guarded by `this`: whoever prepares it late must not lock a stranger's pages.
    private boolean closed;

    HostMemory(MemorySegment segment, @Nullable SharedMemory shared) {
        this.segment = segment;
        this.shared = shared;
    }

    @Override
    public long size() {
        return segment.byteSize();
    }

    @Override
    public MemorySegment host() {
        return segment;
    }

    @Override
    public @Nullable DeviceMemory device() {
        return null;
    }

    @Override
    public int memfd() {
        return shared == null ? -1 : shared.memfd();
    }

    @Override
    public boolean mayLinger() {
        return shared != null;
    }

    @Override
    public void copyOut(long at, MemorySegment into, long offset, long bytes) {
        MemorySegment.copy(segment, at, into, offset, bytes);
    }

    @Override
    public void copyIn(long at, MemorySegment from, long offset, long bytes) {
        MemorySegment.copy(from, offset, segment, at, bytes);
    }

    @Override
    public boolean update(long at, CounterUpdate.Kind kind, long value) {
        if ((segment.address() + at & 7) != 0) {
            return false;
        }
        if (kind == CounterUpdate.Kind.ADD) {
            long unused = (long) WORD.getAndAdd(segment, at, value);
        } else {
            WORD.setRelease(segment, at, value);
        }
        return true;
    }

    /// Page-locks it, once for all GPUs.
    @Override
    public synchronized void prepare(Device by) {
        if (closed) {
            throw new TelpherException.Unsupported("the region is closed");
        }
        if (pin == null) {
            pin = Runtimes.open(by).pin(segment.address(), segment.byteSize());
        }
    }

    @Override
    public long address(Device by) {
        return pin == null ? 0 : segment.address();
    }

    @Override
    public synchronized void close() {
        closed = true;
        Gpu.Pin held = pin;
        pin = null;
        try {
            if (held != null) {
                held.close();
            }
        } finally {
            if (shared != null) {
                shared.close();
            }
        }
    }

    @Override
    public String text() {
        return shared == null ? "foreign memory" : "shared memory of " + shared.detail();
    }
}

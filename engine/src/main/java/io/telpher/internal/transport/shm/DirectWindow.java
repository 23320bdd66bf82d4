package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.spi.LocalRegion;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// A region whose bytes lie in this process's address space: mapped from the owner's memfd
/// (`mapped`), or the owner's own segment when both endpoints live here (`self`).
final class DirectWindow extends ShmWindow {
    /// Between two slices a copy looks whether it may go on.
    static final long SLICE = 1 << 20;

    /// For large copies the pauses between the slices would show.
    private static final long LARGE_SLICE = 4 << 20;

    /// From here on a copy is large.
    private static final long LARGE = 16 << 20;

    /// Sizes for which the C library copies faster than the JVM: 128 against 97 GB/s at 64 KiB and
    /// 62 against 43 at 4 MiB on an AMD EPYC; slower below and above.
    private static final long LIBC_FROM = 32 * 1024;

    private static final long LIBC_TO = 16 << 20;

    /// Not tied to an arena when it is a mapping: the announcement keeps it alive, and a check on
    /// each copy would cost as much as a small copy.
    private final MemorySegment target;

    /// The owner's region when it lives in this process, which page-locks its memory itself.
    private final @Nullable LocalRegion own;

    /// Held while devices copy from and to it; written under this.
    private volatile Gpu.@Nullable Pin pin;

    /// Guarded by this.
    private boolean unmapped;

    /// What is unmapped at the end; null for memory that belongs to the owner.
    private final @Nullable Mapping mapping;

    /// @param target the region's bytes
    /// @param own the owner's region when it lives in this process, else null
    /// @param mapping what is unmapped at the end, or null
    DirectWindow(
            OpenWindows owner,
            ShmLink link,
            String path,
            RemoteMemory memory,
            Access access,
            MemorySegment target,
            @Nullable LocalRegion own,
            @Nullable Mapping mapping) {
        super(owner, link, path, memory, access, target.byteSize());
        this.target = target;
        this.own = own;
        this.mapping = mapping;
    }

    @Override
    public long write(
            int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
        if (!writable || !isInside(offset, length)) {
            return DENIED;
        }
        return copy(local, at, target, offset, length, guard);
    }

    @Override
    public long read(
            int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
        if (!readable || !isInside(offset, length)) {
            return DENIED;
        }
        return copy(target, offset, local, at, length, guard);
    }

    /// Copies slice by slice. Between two slices the owner may have closed the region, and the JVM
    /// gets a chance to stop this thread for its own purposes.
    private long copy(
            MemorySegment from,
            long fromAt,
            MemorySegment to,
            long toAt,
            long length,
            Guard guard) {
        if (!isOpen()) {
            return STALE;
        }
        long slice = slice(length);
        long done = 0;
        while (true) {
            long bytes = Math.min(slice, length - done);
            if (length >= LIBC_FROM && length < LIBC_TO) {
                Memory.copy(from, fromAt + done, to, toAt + done, bytes);
            } else {
                MemorySegment.copy(from, fromAt + done, to, toAt + done, bytes);
            }
            done += bytes;
            boolean open = isOpen();
            if (done == length) {
                return open ? done : STALE; // the owner does not wait for who stands still
            }
            if (!open || !guard.goOn()) {
                return done;
            }
        }
    }

    /// @return bytes between two looks. Large slices use stores that bypass the cache, which pays
    ///     once the bytes would not stay in it anyway: 26 GB/s instead of 22 for 64 MiB
    private static long slice(long length) {
        return length >= LARGE ? LARGE_SLICE : SLICE;
    }

    /// Atomic instructions on the word itself: counters of several writers add up.
    @Override
    public boolean updatesCounters() {
        return writable;
    }

    /// An addition is a full fence, a store has release semantics, so the bytes written before by
    /// this thread are there when the new value is seen.
    @Override
    public int update(int ticket, long offset, CounterUpdate.Kind kind, long value) {
        if (!writable
                || !isInside(offset, Long.BYTES)
                || ((target.address() + offset) & (Long.BYTES - 1)) != 0) {
            return DENIED;
        }
        switch (kind) {
            case ADD -> {
                long unused = (long) Words.WORD.getAndAdd(target, offset, value);
            }
            case SET -> Words.WORD.setRelease(target, offset, value);
        }
        return isOpen() ? 0 : STALE;
    }

    @Override
    public synchronized void prepare(Device by) {
        LocalRegion region = own;
        if (unmapped) {
            throw new TelpherException.Unsupported("the window is closed");
        }
        if (region != null) {
            region.prepare(by);
        } else if (pin == null) {
            pin = Runtimes.open(by).pin(target.address(), target.byteSize());
        }
    }

    @Override
    public long address(Device by) {
        LocalRegion region = own;
        return region != null ? region.address(by) : pin == null ? 0 : target.address();
    }

    @Override
    synchronized void unmap() {
        unmapped = true;
        Gpu.Pin held = pin;
        pin = null;
        try {
            if (held != null) {
                held.close();
            }
        } finally {
            if (mapping != null) {
                mapping.close();
            }
        }
    }
}

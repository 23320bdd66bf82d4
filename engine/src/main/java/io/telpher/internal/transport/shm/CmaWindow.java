package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import java.lang.foreign.MemorySegment;
import java.util.Objects;

/// A region in the owner's private memory, reached through the kernel: one copy, made by
/// `process_vm_writev` or `process_vm_readv`. [ProcessMemory] makes sure that no other program than
/// the owner's gets a byte. The kernel copies bytes, it does not add: counters go to the owner as
/// frames.
final class CmaWindow extends ShmWindow {
    /// Between two slices a copy looks whether it may go on. A call costs more than that look:
    /// slices of 256 KiB reach 12.4 GB/s, or 23 into huge pages, and those of 1 MiB 13.4 and 26.6
    /// on an AMD EPYC.
    static final long SLICE = 1 << 20;

    private final ProcessMemory process;

    /// Of the region, in the owner's process.
    private final long address;

    /// @param address of the region in the owner's process
    CmaWindow(
            OpenWindows owner,
            ShmLink link,
            RemoteMemory memory,
            Access access,
            ProcessMemory process,
            long address,
            long size) {
        super(owner, link, "cma", memory, access, size);
        this.process = process;
        this.address = address;
    }

    @Override
    public long write(
            int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
        if (!writable || !isInside(offset, length)) {
            return DENIED;
        }
        return copy(Direction.WRITE, local, at, offset, length, guard);
    }

    @Override
    public long read(
            int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
        if (!readable || !isInside(offset, length)) {
            return DENIED;
        }
        return copy(Direction.READ, local, at, offset, length, guard);
    }

    /// Which way the bytes go.
    private enum Direction {
        WRITE,
        READ
    }

    /// Copies slice by slice. The kernel may move fewer bytes than asked for, when it meets a page
    /// that is not there: then the rest is tried again, which names the error or ends the copy.
    private long copy(
            Direction direction,
            MemorySegment local,
            long at,
            long offset,
            long length,
            Guard guard) {
        if (!isOpen()) {
            return STALE;
        }
        Objects.checkFromIndexSize(at, length, local.byteSize());
        long done = 0;
        while (done < length) {
            long bytes = Math.min(SLICE, length - done);
            long there = address + offset + done;
            long moved =
                    direction == Direction.WRITE
                            ? process.write(local, at + done, there, bytes)
                            : process.read(local, at + done, there, bytes);
            if (moved <= 0) {
                // With the process still there, its owner has freed memory that is registered.
                return done > 0 ? done : process.isThere() ? STALE : LOST;
            }
            done += moved;
            if (done < length && !(isOpen() && guard.goOn())) {
                break;
            }
        }
        return done;
    }

    @Override
    void unmap() {
        // Nothing is mapped.
    }
}

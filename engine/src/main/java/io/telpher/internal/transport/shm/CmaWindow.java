package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.CounterUpdate;
import io.telpher.RemoteMemory;

import java.lang.foreign.MemorySegment;

/// A region in the owner's private memory, reached by `process_vm_writev` and `process_vm_readv`:
/// one copy, made by the kernel.
///
/// The owner's process is named by its pid only, so before each slice the owner's cookie is read: a
/// process that has become another program meanwhile does not have it, and gets no byte.
final class CmaWindow extends ShmWindow {
    private final ProcessMemory process;
    private final long address;

    /// @param address of the region in the owner's process
    CmaWindow(
            ShmWindows owner,
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
        MemorySegment whole = local.asSlice(at, length);
        long slice = slice(length);
        long done = 0;
        while (done < length) {
            long bytes = Math.min(slice, length - done);
            long from = whole.address() + done;
            long to = address + offset + done;
            long moved =
                    direction == Direction.WRITE
                            ? process.write(whole, from, to, bytes)
                            : process.read(whole, from, to, bytes);
            if (moved <= 0) {
                return done > 0 ? done : LOST;
            }
            done += moved;
            if (done < length && !(isOpen() && guard.goOn())) {
                break;
            }
        }
        return done;
    }

    @Override
    public boolean updatesCounters() {
        return false;
    }

    @Override
    public int update(int ticket, long offset, CounterUpdate.Kind kind, long value) {
        return DENIED;
    }

    @Override
    void unmap() {
        // Nothing is mapped.
    }
}

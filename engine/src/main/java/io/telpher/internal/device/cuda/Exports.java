package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaIpc;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaPointers;
import io.telpher.internal.ffi.cuda.CudaVmm;
import io.telpher.internal.ffi.linux.Descriptors;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// What of one device's memory other processes were given. What the driver gives out for an
/// allocation is asked for once and counted; the key is the driver's number for the allocation,
/// so that an address that was freed and used again never stands for the old one. Thread-safe.
///
/// A handle or descriptor means the whole allocation: where the range lies in it is in the
/// record.
final class Exports {
    private static final byte[] NO_HANDLE = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];

    private final CudaContext context;
    private final UUID device;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<Key, Shared> shared = new HashMap<>();

    Exports(CudaContext context, UUID device) {
        this.context = context;
        this.device = device;
    }

    private record Key(long allocation, int way) {}

    /// What the driver gave out for an allocation.
    private static final class Shared {
        final Key key;
        final CudaMemory.Range range;
        final byte[] handle;
        final int descriptor;
        int users;

        Shared(Key key, CudaMemory.Range range, byte[] handle, int descriptor) {
            this.key = key;
            this.range = range;
            this.handle = handle;
            this.descriptor = descriptor;
        }
    }

    /// See [Gpu#export].
    Gpu.Export export(long address, long bytes, int ways) {
        lock.lock();
        try {
            long before = context.enter();
            try {
                CudaPointers.Attributes found = CudaPointers.describe(address);
                CudaMemory.Range range = range(found, address, bytes);
                Shared entry = share(found, range, ways);
                entry.users++;
                return new Exported(entry, address - entry.range.base(), bytes);
            } finally {
                context.exit(before);
            }
        } finally {
            lock.unlock();
        }
    }

    private CudaMemory.Range range(CudaPointers.Attributes found, long address, long bytes) {
        if (found.memoryType() != CudaPointers.CU_MEMORYTYPE_DEVICE
                || found.managed()
                || found.device() != context.device()) {
            throw new TelpherException.Unsupported(
                    "0x%x is not memory of device %s".formatted(address, device));
        }
        CudaMemory.Range range = CudaMemory.range(address);
        long left = range.base() + range.bytes() - address;
        if (bytes > left) {
            throw new TelpherException.Unsupported(
                    ("%d bytes at 0x%x go beyond their allocation, which ends after %d: what was"
                                    + " mapped in several parts is exported part by part")
                            .formatted(bytes, address, left));
        }
        if (found.bufferId() == 0) {
            throw new TelpherException.Unsupported(
                    "the driver has no number for the allocation of 0x%x".formatted(address));
        }
        return range;
    }

    private Shared share(CudaPointers.Attributes found, CudaMemory.Range range, int ways) {
        String refused = "";
        for (int way = Gpu.WAY_DESCRIPTOR; way <= Gpu.WAY_IPC; way++) {
            if ((ways & way) == 0) {
                continue;
            }
            Key key = new Key(found.bufferId(), way);
            @Nullable Shared known = shared.get(key);
            if (known != null) {
                return known;
            }
            Object made = way == Gpu.WAY_DESCRIPTOR ? byDescriptor(key, range) : byIpc(key, range);
            if (made instanceof Shared entry) {
                shared.put(key, entry);
                return entry;
            }
            refused += (refused.isEmpty() ? "" : "; ") + made;
        }
        throw new TelpherException.Unsupported(
                "memory at 0x%x of device %s cannot be given to another process: %s"
                        .formatted(
                                range.base(),
                                device,
                                refused.isEmpty() ? "the two share no way" : refused));
    }

    /// A [Shared], or the reason why not.
    private Object byDescriptor(Key key, CudaMemory.Range range) {
        long handle = CudaVmm.tryRetain(range.base());
        if (handle < 0) {
            return "no descriptor, since it was not made by cuMemCreate";
        }
        try {
            int types = CudaVmm.properties(handle).handleTypes();
            if ((types & CudaVmm.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0) {
                return "no descriptor, since its owner made it without that handle type";
            }
            int descriptor = CudaVmm.tryExportDescriptor(handle);
            return descriptor < 0
                    ? "no descriptor: " + CudaError.describe(descriptor)
                    : new Shared(key, range, NO_HANDLE, descriptor);
        } finally {
            CudaVmm.release(handle);
        }
    }

    private Object byIpc(Key key, CudaMemory.Range range) {
        byte[] handle = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];
        int result = CudaIpc.tryGetMemHandle(range.base(), handle);
        return result < 0
                ? "no IPC handle: " + CudaError.describe(result)
                : new Shared(key, range, handle, -1);
    }

    private final class Exported implements Gpu.Export {
        private final Shared entry;
        private final byte[] record;
        private boolean closed;

        Exported(Shared entry, long offset, long bytes) {
            this.entry = entry;
            this.record =
                    new ExportRecord(
                                    entry.key.way(),
                                    device,
                                    entry.key.allocation(),
                                    entry.range.bytes(),
                                    offset,
                                    bytes,
                                    entry.handle)
                            .toBytes();
        }

        @Override
        public int way() {
            return entry.key.way();
        }

        @Override
        public byte[] record() {
            return record.clone();
        }

        @Override
        public int descriptor() {
            return entry.descriptor;
        }

        @Override
        public void close() {
            lock.lock();
            try {
                if (closed) {
                    return;
                }
                closed = true;
                if (--entry.users == 0) {
                    shared.remove(entry.key);
                    if (entry.descriptor >= 0) {
                        int unused = Descriptors.close(entry.descriptor);
                    }
                }
            } finally {
                lock.unlock();
            }
        }
    }
}

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
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// What of one device's memory other processes were given. What the driver gives out for an
/// allocation is asked for once and counted. Thread-safe.
///
/// An address that was freed and used again never stands for the old memory: the key has the
/// driver's number for the allocation, and where it has one that for the memory behind a mapping,
/// which others may be put in the place of.
///
/// A handle or descriptor means a whole allocation: where the range lies in it is in the record.
final class Exports {
    private static final byte[] NO_HANDLE = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];

    /// Numbers for memory that is given out by descriptor, of all devices of this process.
    private static final AtomicLong NUMBERS = new AtomicLong();

    private final CudaContext context;
    private final UUID device;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<Key, Shared> shared = new HashMap<>();

    Exports(CudaContext context, UUID device) {
        this.context = context;
        this.device = device;
    }

    /// @param buffer the driver's number for the allocation, or for a reservation
    /// @param block its number for the memory that is mapped there, or 0
    private record Key(int way, long address, long buffer, long block) {
        static Key of(int way, CudaMemory.Range range) {
            long buffer = CudaPointers.describe(range.base()).bufferId();
            return new Key(way, range.base(), buffer, CudaPointers.memoryBlock(range.base()));
        }
    }

    /// What the driver gave out for an allocation.
    private static final class Shared {
        final Key key;
        final ExportRecord.Part part;
        final byte[] handle;
        final int descriptor;
        int users;

        Shared(Key key, ExportRecord.Part part, byte[] handle, int descriptor) {
            this.key = key;
            this.part = part;
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
                List<CudaMemory.Range> parts = parts(address, bytes);
                List<Shared> entries = share(parts, ways);
                boolean made = false;
                try {
                    Exported export =
                            new Exported(entries, address - parts.getFirst().base(), bytes);
                    made = true;
                    return export;
                } finally {
                    if (!made) {
                        entries.forEach(this::drop);
                    }
                }
            } finally {
                context.exit(before);
            }
        } finally {
            lock.unlock();
        }
    }

    private List<CudaMemory.Range> parts(long address, long bytes) {
        CudaPointers.Attributes found = CudaPointers.describe(address);
        if (found.memoryType() != CudaPointers.CU_MEMORYTYPE_DEVICE
                || found.managed()
                || found.device() != context.device()) {
            throw new TelpherException.Unsupported(
                    "0x%x is not memory of device %s".formatted(address, device));
        }
        List<CudaMemory.Range> parts;
        try {
            parts = Parts.of(context, address, bytes);
        } catch (TelpherException.NativeFailure e) {
            throw new TelpherException.Unsupported(
                    "not all of %d bytes at 0x%x is memory of device %s: %s"
                            .formatted(bytes, address, device, e.getMessage()));
        }
        if (parts.size() > ExportRecord.MOST_PARTS) {
            throw new TelpherException.Unsupported(
                    "it is mapped in %d parts, and other processes are given at most %d: register less of it as one region"
                            .formatted(parts.size(), ExportRecord.MOST_PARTS));
        }
        return parts;
    }

    /// Gives out all parts or none.
    private List<Shared> share(List<CudaMemory.Range> parts, int ways) {
        if (parts.size() > 1 && (ways & Gpu.WAY_DESCRIPTOR) == 0) {
            throw new TelpherException.Unsupported(
                    "it is mapped in %d parts, which takes the path cuda-cumem: name it in the option 'paths', too"
                            .formatted(parts.size()));
        }
        List<Shared> all = new ArrayList<>(parts.size());
        boolean complete = false;
        try {
            for (CudaMemory.Range part : parts) {
                Shared given = share(part, parts.size() > 1 ? ways & Gpu.WAY_DESCRIPTOR : ways);
                given.users++;
                all.add(given);
            }
            complete = true;
            return all;
        } catch (TelpherException e) {
            throw new TelpherException.Unsupported(
                    parts.size() == 1
                            ? String.valueOf(e.getMessage())
                            : "part %d of %d: %s"
                                    .formatted(all.size() + 1, parts.size(), e.getMessage()));
        } finally {
            if (!complete) {
                all.forEach(this::drop);
            }
        }
    }

    private Shared share(CudaMemory.Range range, int ways) {
        String refused = "";
        for (int way = Gpu.WAY_DESCRIPTOR; way <= Gpu.WAY_IPC; way++) {
            if ((ways & way) == 0) {
                continue;
            }
            Object found = way == Gpu.WAY_DESCRIPTOR ? byDescriptor(range) : byIpc(range);
            if (found instanceof Shared entry) {
                return entry;
            }
            refused += (refused.isEmpty() ? "" : "; ") + found;
        }
        throw new TelpherException.Unsupported(
                "memory at 0x%x of device %s cannot be given to another process: %s"
                        .formatted(range.base(), device, refused));
    }

    /// A [Shared], or the reason why not.
    private Object byDescriptor(CudaMemory.Range range) {
        long handle = CudaVmm.tryRetain(range.base());
        if (handle < 0) {
            return "no descriptor, since it was not made by cuMemCreate";
        }
        try {
            Key key = Key.of(Gpu.WAY_DESCRIPTOR, range);
            // Without the memory's own number another one may have taken its place: not shared.
            @Nullable Shared known = key.block() == 0 ? null : shared.get(key);
            if (known != null) {
                return known;
            }
            int types = CudaVmm.properties(handle).handleTypes();
            if ((types & CudaVmm.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0) {
                return "no descriptor, since its owner made it without that handle type";
            }
            int descriptor = CudaVmm.tryExportDescriptor(handle);
            if (descriptor < 0) {
                return "no descriptor: " + CudaError.describe(descriptor);
            }
            ExportRecord.Part part =
                    new ExportRecord.Part(NUMBERS.incrementAndGet(), range.bytes());
            return keep(new Shared(key, part, NO_HANDLE, descriptor));
        } finally {
            CudaVmm.release(handle);
        }
    }

    /// A [Shared], or the reason why not.
    private Object byIpc(CudaMemory.Range range) {
        Key key = Key.of(Gpu.WAY_IPC, range);
        if (key.buffer() == 0) {
            return "no IPC handle, since the driver has no number for the allocation";
        }
        @Nullable Shared known = shared.get(key);
        if (known != null) {
            return known;
        }
        byte[] handle = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];
        int result = CudaIpc.tryGetMemHandle(range.base(), handle);
        return result < 0
                ? "no IPC handle: " + CudaError.describe(result)
                : keep(
                        new Shared(
                                key,
                                new ExportRecord.Part(key.buffer(), range.bytes()),
                                handle,
                                -1));
    }

    private Shared keep(Shared made) {
        shared.put(made.key, made);
        return made;
    }

    /// One user less. Under the lock.
    private void drop(Shared entry) {
        if (--entry.users > 0) {
            return;
        }
        boolean unused = shared.remove(entry.key, entry);
        if (entry.descriptor >= 0) {
            int ignored = Descriptors.close(entry.descriptor);
        }
    }

    private final class Exported implements Gpu.Export {
        private final List<Shared> entries;
        private final byte[] record;
        private boolean closed;

        Exported(List<Shared> entries, long offset, long bytes) {
            this.entries = entries;
            this.record =
                    new ExportRecord(
                                    way(),
                                    device,
                                    entries.stream().map(entry -> entry.part).toList(),
                                    offset,
                                    bytes,
                                    entries.getFirst().handle)
                            .toBytes();
        }

        @Override
        public int way() {
            return entries.getFirst().key.way();
        }

        @Override
        public byte[] record() {
            return record.clone();
        }

        @Override
        public int[] descriptors() {
            return entries.stream()
                    .mapToInt(entry -> entry.descriptor)
                    .filter(descriptor -> descriptor >= 0)
                    .toArray();
        }

        @Override
        public void close() {
            lock.lock();
            try {
                if (!closed) {
                    closed = true;
                    entries.forEach(Exports.this::drop);
                }
            } finally {
                lock.unlock();
            }
        }
    }
}

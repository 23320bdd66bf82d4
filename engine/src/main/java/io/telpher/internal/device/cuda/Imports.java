package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaIpc;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaVmm;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;

/// Memory of other processes that one device reaches. One mapping for each allocation, shared and
/// counted, gone with its last user. Thread-safe.
final class Imports {
    private final CudaContext context;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<Key, Mapped> mapped = new HashMap<>();

    Imports(CudaContext context) {
        this.context = context;
    }

    private sealed interface Key {}

    /// Who owns it is known, not said by a peer: so none can name another's allocation and get
    /// it.
    private record Described(long owner, long allocation) implements Key {}

    /// The handle is the memory's name, whoever says it.
    private record Handled(ByteBuffer handle) implements Key {}

    private static final class Mapped {
        final Key key;
        final long address;
        final long bytes;

        /// The owner's number for it: a handle can come again for memory that was allocated
        /// later.
        final long allocation;

        int users;

        Mapped(Key key, long address, ExportRecord record) {
            this.key = key;
            this.address = address;
            this.bytes = record.allocationSize();
            this.allocation = record.allocation();
        }
    }

    /// See [Gpu#open].
    Gpu.Import open(long owner, ExportRecord record, int descriptor) {
        boolean described = record.way() == Gpu.WAY_DESCRIPTOR;
        Key key =
                described
                        ? new Described(owner, record.allocation())
                        : new Handled(ByteBuffer.wrap(record.handle()));
        lock.lock();
        try {
            Mapped found = mapped.get(key);
            if (found == null) {
                long before = context.enter();
                try {
                    long address = described ? map(record, descriptor) : openHandle(record);
                    found = new Mapped(key, address, record);
                } finally {
                    context.exit(before);
                }
                mapped.put(key, found);
            } else if (found.bytes != record.allocationSize()
                    || found.allocation != record.allocation()) {
                throw new TelpherException.Unsupported(
                        refusal(record)
                                + "it is open as allocation %d of %d bytes, not as %d of %d"
                                        .formatted(
                                                found.allocation,
                                                found.bytes,
                                                record.allocation(),
                                                record.allocationSize()));
            }
            found.users++;
            return new Imported(found, record);
        } finally {
            lock.unlock();
        }
    }

    private long map(ExportRecord record, int descriptor) {
        if (descriptor < 0) {
            throw new TelpherException.Unsupported(refusal(record) + "its descriptor is missing");
        }
        long handle = CudaVmm.tryImportDescriptor(descriptor);
        if (handle < 0) {
            throw new TelpherException.Unsupported(
                    refusal(record) + CudaError.describe((int) handle));
        }
        try {
            return Mapping.of(handle, record.allocationSize(), context.device());
        } catch (TelpherException.NativeFailure e) {
            throw new TelpherException.Unsupported(refusal(record) + e.getMessage());
        } finally {
            // The mapping keeps the memory.
            CudaVmm.release(handle);
        }
    }

    private long openHandle(ExportRecord record) {
        long address = CudaIpc.tryOpenMemHandle(record.handle());
        if (address < 0) {
            throw new TelpherException.Unsupported(
                    refusal(record) + CudaError.describe((int) address));
        }
        // What the peer says of the size is not believed: outside of it lies other memory.
        long real = CudaMemory.range(address).bytes();
        if (record.allocationSize() > real) {
            CudaIpc.closeMemHandle(address);
            throw new TelpherException.Unsupported(
                    refusal(record)
                            + "its owner speaks of %d bytes, there are %d"
                                    .formatted(record.allocationSize(), real));
        }
        return address;
    }

    private static String refusal(ExportRecord record) {
        return "memory of device %s in another process cannot be mapped: "
                .formatted(record.device());
    }

    /// Mappings there are.
    int size() {
        lock.lock();
        try {
            return mapped.size();
        } finally {
            lock.unlock();
        }
    }

    private void release(Mapped which) {
        if (--which.users > 0) {
            return;
        }
        mapped.remove(which.key);
        long before = context.enter();
        try {
            if (which.key instanceof Handled) {
                CudaIpc.closeMemHandle(which.address);
            } else {
                Mapping.undo(which.address, which.bytes);
            }
        } finally {
            context.exit(before);
        }
    }

    private final class Imported implements Gpu.Import {
        private final Mapped mapping;
        private final ExportRecord record;
        private boolean closed;

        Imported(Mapped mapping, ExportRecord record) {
            this.mapping = mapping;
            this.record = record;
        }

        @Override
        public long address() {
            return mapping.address + record.offset();
        }

        @Override
        public long size() {
            return record.size();
        }

        @Override
        public String path() {
            return record.way() == Gpu.WAY_IPC ? "cuda-ipc" : "cuda-cumem";
        }

        @Override
        public void close() {
            lock.lock();
            try {
                if (!closed) {
                    closed = true;
                    release(mapping);
                }
            } finally {
                lock.unlock();
            }
        }
    }
}

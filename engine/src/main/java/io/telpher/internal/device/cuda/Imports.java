package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaIpc;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaVmm;
import io.telpher.internal.memory.Release;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;

/// Memory of other processes that one device reaches. One mapping for each allocation, or for each
/// row of them, shared and counted, gone with its last user. Thread-safe.
final class Imports {
    private final CudaContext context;
    private final ReentrantLock lock = new ReentrantLock();
    private final Map<Key, Mapped> mapped = new HashMap<>();

    Imports(CudaContext context) {
        this.context = context;
    }

    private sealed interface Key {}

    /// Who owns it is known, not said by a peer: so none can name another's allocations and get
    /// them.
    private record Described(long owner, List<Long> allocations) implements Key {}

    /// The handle is the memory's name, whoever says it.
    private record Handled(ByteBuffer handle) implements Key {}

    private static final class Mapped {
        final Key key;
        final long address;

        /// As the owner numbers them: a handle can come again for memory that was allocated later.
        final List<ExportRecord.Part> parts;

        private final Runnable undo;
        int users;

        Mapped(Key key, long address, List<ExportRecord.Part> parts, Runnable undo) {
            this.key = key;
            this.address = address;
            this.parts = parts;
            this.undo = undo;
        }
    }

    /// See [Gpu#open].
    Gpu.Import open(long owner, ExportRecord record, int[] descriptors) {
        Key key =
                record.way() == Gpu.WAY_DESCRIPTOR
                        ? new Described(owner, allocations(record))
                        : new Handled(ByteBuffer.wrap(record.handle()));
        lock.lock();
        try {
            Mapped found = mapped.get(key);
            if (found == null) {
                long before = context.enter();
                try {
                    found =
                            key instanceof Described
                                    ? map(key, record, descriptors)
                                    : openHandle(key, record);
                } finally {
                    context.exit(before);
                }
                mapped.put(key, found);
            } else if (!found.parts.equals(record.parts())) {
                throw new TelpherException.Unsupported(
                        refusal(record)
                                + "it is open as %s, not as %s"
                                        .formatted(found.parts, record.parts()));
            }
            found.users++;
            return new Imported(found, record);
        } finally {
            lock.unlock();
        }
    }

    private static List<Long> allocations(ExportRecord record) {
        return record.parts().stream().map(ExportRecord.Part::allocation).toList();
    }

    private Mapped map(Key key, ExportRecord record, int[] descriptors) {
        if (descriptors.length != record.parts().size()) {
            throw new TelpherException.Unsupported(
                    refusal(record)
                            + "its descriptor is missing: of %d %d arrived (ulimit -n)"
                                    .formatted(record.parts().size(), descriptors.length));
        }
        try {
            Mapping made = mapHandles(record, descriptors);
            return new Mapped(key, made.address(), record.parts(), made::undo);
        } catch (TelpherException.NativeFailure e) {
            throw new TelpherException.Unsupported(refusal(record) + e.getMessage());
        }
    }

    private Mapping mapHandles(ExportRecord record, int[] descriptors) {
        List<Long> handles = new ArrayList<>(descriptors.length);
        Mapping made;
        try {
            for (int descriptor : descriptors) {
                long handle = CudaVmm.tryImportDescriptor(descriptor);
                if (handle < 0) {
                    throw new TelpherException.Unsupported(
                            refusal(record) + CudaError.describe((int) handle));
                }
                handles.add(handle);
            }
            List<Long> sizes = record.parts().stream().map(ExportRecord.Part::size).toList();
            made = Mapping.of(handles, sizes, context.device());
        } catch (Throwable e) {
            var unused = Release.after(e, () -> Release.all(handles, CudaVmm::release));
            throw e;
        }
        try {
            Release.all(handles, CudaVmm::release); // the mapping keeps the memory
        } catch (Throwable e) {
            var unused = Release.after(e, made::undo);
            throw e;
        }
        return made;
    }

    private Mapped openHandle(Key key, ExportRecord record) {
        long address = CudaIpc.tryOpenMemHandle(record.handle());
        if (address < 0) {
            throw new TelpherException.Unsupported(
                    refusal(record) + CudaError.describe((int) address));
        }
        Runnable undo = () -> CudaIpc.closeMemHandle(address);
        try {
            // What the peer says of the size is not believed: outside of it lies other memory.
            long real = CudaMemory.range(address).bytes();
            if (record.allocationSize() > real) {
                throw new TelpherException.Unsupported(
                        refusal(record)
                                + "its owner speaks of %d bytes, there are %d"
                                        .formatted(record.allocationSize(), real));
            }
        } catch (Throwable e) {
            var unused = Release.after(e, undo);
            throw e;
        }
        return new Mapped(key, address, record.parts(), undo);
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
            which.undo.run();
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

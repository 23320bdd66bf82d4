package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaPointers;
import io.telpher.internal.observe.Log;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.ReentrantLock;

/// Host memory that this process page-locked, for all its devices at once. Counted: whoever asks
/// for memory inside of what is locked already shares it. Thread-safe.
final class Pins {
    private static final int FLAGS = CudaMemory.CU_MEMHOSTREGISTER_PORTABLE;
    private static final Gpu.Pin SOMEBODY_ELSES = () -> {};

    private final ReentrantLock lock = new ReentrantLock();

    /// By first byte; they do not overlap, for the driver refuses that.
    private final TreeMap<Long, Range> ranges = new TreeMap<>();

    private static final class Range {
        final long address;
        final long bytes;
        int users = 1;

        Range(long address, long bytes) {
            this.address = address;
            this.bytes = bytes;
        }

        boolean covers(long from, long to) {
            return address <= from && to <= address + bytes;
        }
    }

    /// See [Gpu#pin].
    Gpu.Pin pin(CudaContext context, long address, long bytes) {
        lock.lock();
        try {
            Map.Entry<Long, Range> below = ranges.floorEntry(address);
            if (below != null && below.getValue().covers(address, address + bytes)) {
                below.getValue().users++;
                return new Pinned(context, below.getValue());
            }
            long before = context.enter();
            try {
                int result = CudaMemory.tryHostRegister(address, bytes, FLAGS);
                if (result == 0) {
                    Range range = new Range(address, bytes);
                    ranges.put(address, range);
                    return new Pinned(context, range);
                }
                if (result == -CudaError.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                        && isLocked(address)
                        && isLocked(address + bytes - 1)) {
                    return SOMEBODY_ELSES;
                }
                throw refusal(address, bytes, result);
            } finally {
                context.exit(before);
            }
        } finally {
            lock.unlock();
        }
    }

    private static boolean isLocked(long address) {
        return CudaPointers.describe(address).memoryType() == CudaPointers.CU_MEMORYTYPE_HOST;
    }

    private static TelpherException refusal(long address, long bytes, int result) {
        String what = "page-locking %d bytes at 0x%x: ".formatted(bytes, address);
        if (result == -CudaError.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
            return new TelpherException.Unsupported(
                    what
                            + "a part is locked already, by somebody else or by a range that overlaps");
        }
        return new TelpherException.Unsupported(
                what
                        + CudaError.describe(result)
                        + "; RLIMIT_MEMLOCK is "
                        + lockedLimit()
                        + " (ulimit -l; LimitMEMLOCK of the service)");
    }

    /// The soft limit, as the kernel writes it.
    private static String lockedLimit() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/limits"))) {
                if (line.startsWith("Max locked memory")) {
                    return line.substring("Max locked memory".length()).strip().split("\\s+")[0];
                }
            }
        } catch (IOException e) {
            return "unknown: " + e;
        }
        return "unknown";
    }

    private final class Pinned implements Gpu.Pin {
        private final CudaContext context;
        private final Range range;
        private boolean closed;

        Pinned(CudaContext context, Range range) {
            this.context = context;
            this.range = range;
        }

        /// With a context that is lost the driver refuses. The memory's owner must be able to
        /// give it back all the same.
        private void unregister() {
            try {
                long before = context.enter();
                try {
                    CudaMemory.hostUnregister(range.address);
                } finally {
                    context.exit(before);
                }
            } catch (TelpherException.NativeFailure e) {
                Log.warning("page-locked memory stays so", e);
            }
        }

        @Override
        public void close() {
            lock.lock();
            try {
                if (closed) {
                    return;
                }
                closed = true;
                if (--range.users > 0) {
                    return;
                }
                ranges.remove(range.address);
                unregister();
            } finally {
                lock.unlock();
            }
        }
    }
}

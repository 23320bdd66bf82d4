package io.telpher.internal.device.cuda;

import io.telpher.internal.ffi.cuda.CudaContexts;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaVmm;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.locks.ReentrantLock;

/// How one device comes to reach memory of other devices of this process. What was opened stays
/// open: it costs nothing, and other code may have come to rely on it. Thread-safe.
final class Peers {
    private final CudaContext context;
    private final ReentrantLock lock = new ReentrantLock();

    /// Contexts whose plain memory this one reaches.
    private final Set<Long> enabled = new HashSet<>();

    Peers(CudaContext context) {
        this.context = context;
    }

    /// Makes a range of the other device's memory reachable.
    void reach(CudaContext other, long address, long bytes) {
        lock.lock();
        try {
            long before = context.enter();
            try {
                long handle = CudaVmm.tryRetain(address);
                if (handle < 0) {
                    enable(other);
                } else {
                    CudaVmm.release(handle);
                    grant(other, address, bytes);
                }
            } finally {
                context.exit(before);
            }
        } finally {
            lock.unlock();
        }
    }

    private void enable(CudaContext other) {
        if (enabled.contains(other.handle())) {
            return;
        }
        int result = CudaContexts.tryEnablePeerAccess(other.handle());
        if (result != -CudaError.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) {
            CudaError.check(result, "cuCtxEnablePeerAccess", other.handle());
        }
        enabled.add(other.handle());
    }

    /// Virtual memory management gives access mapping by mapping.
    private void grant(CudaContext other, long address, long bytes) {
        for (CudaMemory.Range part : Parts.of(other, address, bytes)) {
            int result =
                    CudaVmm.trySetAccess(
                            part.base(),
                            part.bytes(),
                            context.device(),
                            CudaVmm.CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
            CudaError.check(result, "cuMemSetAccess", part.base(), part.bytes(), context.device());
        }
    }
}

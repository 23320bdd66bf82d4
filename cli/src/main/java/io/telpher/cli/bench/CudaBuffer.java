package io.telpher.cli.bench;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.CudaContexts;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.CudaMemory;

/// Memory of a GPU that Telpher knows nothing of, as another library would allocate it, in the
/// GPU's primary context.
final class CudaBuffer implements AutoCloseable {
    private final int device;
    private final long context;
    private final long address;

    /// @throws TelpherException when the driver refuses
    CudaBuffer(Device owner, long bytes) {
        device = number(owner);
        context = CudaContexts.retainPrimary(device);
        CudaContexts.pushCurrent(context);
        try {
            address = CudaMemory.alloc(bytes);
        } catch (RuntimeException e) {
            CudaContexts.popCurrent();
            CudaContexts.releasePrimary(device);
            throw e;
        }
        CudaContexts.popCurrent();
    }

    /// @return the driver's number for a device, which says nothing to another process
    static int number(Device wanted) {
        for (int ordinal = 0; ordinal < CudaDevices.count(); ordinal++) {
            int device = CudaDevices.get(ordinal);
            if (CudaDevices.uuid(device).equals(wanted.uuid())) {
                return device;
            }
        }
        throw new TelpherException.Unsupported("the CUDA driver does not list " + wanted);
    }

    long address() {
        return address;
    }

    /// The GPU's primary context.
    long context() {
        return context;
    }

    @Override
    public void close() {
        CudaContexts.pushCurrent(context);
        try {
            CudaMemory.free(address);
        } finally {
            CudaContexts.popCurrent();
            CudaContexts.releasePrimary(device);
        }
    }
}

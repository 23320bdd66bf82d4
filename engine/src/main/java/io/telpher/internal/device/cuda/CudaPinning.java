package io.telpher.internal.device.cuda;

import io.telpher.internal.device.Pins;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaPointers;

/// Page-locking by a context, for all devices.
record CudaPinning(CudaContext context) implements Pins.Driver {
    @Override
    public int tryLock(long address, long bytes) {
        long before = context.enter();
        try {
            return CudaMemory.tryHostRegister(
                    address, bytes, CudaMemory.CU_MEMHOSTREGISTER_PORTABLE);
        } finally {
            context.exit(before);
        }
    }

    @Override
    public void unlock(long address) {
        long before = context.enter();
        try {
            CudaMemory.hostUnregister(address);
        } finally {
            context.exit(before);
        }
    }

    @Override
    public boolean isLockedAlready(int result) {
        return result == -CudaError.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }

    @Override
    public boolean isLocked(long address) {
        long before = context.enter();
        try {
            return CudaPointers.describe(address).memoryType() == CudaPointers.CU_MEMORYTYPE_HOST;
        } finally {
            context.exit(before);
        }
    }

    @Override
    public String describe(int result) {
        return CudaError.describe(result);
    }
}

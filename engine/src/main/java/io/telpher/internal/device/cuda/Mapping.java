package io.telpher.internal.device.cuda;

import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaVmm;

/// Addresses for memory of virtual memory management. Needs a current context.
final class Mapping {
    private Mapping() {}

    /// Maps all of a handle's memory, for one device. Leaves nothing behind when it fails.
    ///
    /// @return where
    static long of(long handle, long size, int device) {
        long address = CudaVmm.reserve(size, 0);
        try {
            CudaVmm.map(address, size, handle);
            try {
                int result =
                        CudaVmm.trySetAccess(
                                address, size, device, CudaVmm.CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
                CudaError.check(result, "cuMemSetAccess", address, size, device);
                return address;
            } catch (RuntimeException e) {
                CudaVmm.unmap(address, size);
                throw e;
            }
        } catch (RuntimeException e) {
            CudaVmm.freeAddresses(address, size);
            throw e;
        }
    }

    static void undo(long address, long size) {
        CudaVmm.unmap(address, size);
        CudaVmm.freeAddresses(address, size);
    }
}

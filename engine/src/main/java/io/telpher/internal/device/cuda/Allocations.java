package io.telpher.internal.device.cuda;

import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaVmm;

/// Memory of one device. Virtual memory management where the device has it and nobody turned it
/// off: such memory goes to other processes as a descriptor, which the kernel counts, so that an
/// owner that frees it under somebody's import does no harm. Else plain memory.
final class Allocations {
    private final CudaContext context;
    private final boolean vmm;

    Allocations(CudaContext context, Tuning tuning) {
        this.context = context;
        this.vmm =
                tuning.cuMem()
                        && has(CudaDevices.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
                        && has(
                                CudaDevices
                                        .CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
    }

    private boolean has(int attribute) {
        return CudaDevices.tryAttribute(context.device(), attribute) > 0;
    }

    /// See [Gpu#allocate].
    Gpu.Allocation allocate(long bytes) {
        if (bytes <= 0) {
            throw new IllegalArgumentException("cannot allocate " + bytes + " bytes");
        }
        long before = context.enter();
        try {
            return vmm ? map(bytes) : new Plain(CudaMemory.alloc(bytes));
        } finally {
            context.exit(before);
        }
    }

    private Gpu.Allocation map(long bytes) {
        int device = context.device();
        CudaVmm.Properties properties =
                new CudaVmm.Properties(
                        CudaVmm.CU_MEM_LOCATION_TYPE_DEVICE,
                        device,
                        CudaVmm.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                        has(
                                CudaDevices
                                        .CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED));
        long granularity =
                CudaVmm.granularity(properties, CudaVmm.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
        long size = Math.ceilDiv(bytes, granularity) * granularity;
        long handle = CudaVmm.tryCreate(size, properties);
        if (handle < 0) {
            throw CudaError.failure((int) handle, "cuMemCreate", size, properties);
        }
        try {
            return new Mapped(Mapping.of(handle, size, device), size);
        } finally {
            // The mapping keeps the memory.
            CudaVmm.release(handle);
        }
    }

    private final class Mapped implements Gpu.Allocation {
        private final long address;
        private final long size;
        private boolean closed;

        Mapped(long address, long size) {
            this.address = address;
            this.size = size;
        }

        @Override
        public boolean mayLinger() {
            return true;
        }

        @Override
        public long address() {
            return address;
        }

        @Override
        public synchronized void close() {
            if (closed) {
                return;
            }
            closed = true;
            long before = context.enter();
            try {
                Mapping.undo(address, size);
            } finally {
                context.exit(before);
            }
        }
    }

    private final class Plain implements Gpu.Allocation {
        private final long address;
        private boolean closed;

        Plain(long address) {
            this.address = address;
        }

        @Override
        public boolean mayLinger() {
            return false;
        }

        @Override
        public long address() {
            return address;
        }

        @Override
        public synchronized void close() {
            if (closed) {
                return;
            }
            closed = true;
            long before = context.enter();
            try {
                CudaMemory.free(address);
            } finally {
                context.exit(before);
            }
        }
    }
}

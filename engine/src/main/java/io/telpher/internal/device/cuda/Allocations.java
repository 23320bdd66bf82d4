package io.telpher.internal.device.cuda;

import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.CudaDevices;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaMemory;
import io.telpher.internal.ffi.cuda.CudaVmm;
import java.util.List;

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
            if (vmm) {
                return map(bytes);
            }
            long address = CudaMemory.alloc(bytes);
            return new Allocated(address, false, () -> CudaMemory.free(address));
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
            Mapping mapping = Mapping.of(List.of(handle), List.of(size), device);
            return new Allocated(mapping.address(), true, mapping::undo);
        } finally {
            // The mapping keeps the memory.
            CudaVmm.release(handle);
        }
    }

    private final class Allocated implements Gpu.Allocation {
        private final long address;
        private final boolean lingers;
        private final Runnable free;
        private boolean closed;

        Allocated(long address, boolean lingers, Runnable free) {
            this.address = address;
            this.lingers = lingers;
            this.free = free;
        }

        @Override
        public long address() {
            return address;
        }

        @Override
        public boolean mayLinger() {
            return lingers;
        }

        @Override
        public synchronized void close() {
            if (closed) {
                return;
            }
            closed = true;
            long before = context.enter();
            try {
                free.run();
            } finally {
                context.exit(before);
            }
        }
    }
}

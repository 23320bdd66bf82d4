package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Virtual memory management: physical memory, addresses and access to them are three things. What
/// is made here can go to other processes as file descriptors, and to other hosts as fabric handles
/// where the driver grants them.
public final class CudaVmm {
    public static final int CU_MEM_LOCATION_TYPE_DEVICE = 1;
    public static final int CU_MEM_LOCATION_TYPE_HOST = 2;
    public static final int CU_MEM_LOCATION_TYPE_HOST_NUMA = 3;

    public static final int CU_MEM_HANDLE_TYPE_NONE = 0;
    public static final int CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1;
    public static final int CU_MEM_HANDLE_TYPE_FABRIC = 8;

    public static final int CU_MEM_ALLOCATION_TYPE_PINNED = 1;

    public static final int CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0;
    public static final int CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1;

    public static final int CU_MEM_ACCESS_FLAGS_PROT_NONE = 0;
    public static final int CU_MEM_ACCESS_FLAGS_PROT_READ = 1;
    public static final int CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3;

    public static final int CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD = 1;
    public static final int CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE = 1;

    /// Bytes of a fabric handle.
    public static final int FABRIC_HANDLE_BYTES = 64;

    /// ```text
    /// CUmemAllocationProp: 0 type   4 requestedHandleTypes   8 location.type   12 location.id
    /// 16 win32HandleMetaData   24 compressionType (1)   25 gpuDirectRDMACapable (1)
    /// 26 usage (2)   28 reserved   32 end
    /// CUmemAccessDesc: 0 location.type   4 location.id   8 flags   12 end
    /// ```
    static final int PROP_BYTES = 32;

    static final int PROP_TYPE = 0;
    static final int PROP_HANDLE_TYPES = 4;
    static final int PROP_LOCATION_TYPE = 8;
    static final int PROP_LOCATION_ID = 12;
    static final int PROP_GPU_DIRECT_RDMA = 25;

    static final int ACCESS_BYTES = 12;
    static final int ACCESS_LOCATION_TYPE = 0;
    static final int ACCESS_LOCATION_ID = 4;
    static final int ACCESS_FLAGS = 8;

    private static final FunctionDescriptor RANGE =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG);

    /// `CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp
    /// *prop, CUmemAllocationGranularity_flags option)`
    private static final MethodHandle GET_GRANULARITY =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS, JAVA_INT),
                    "cuMemGetAllocationGranularity");

    /// `CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const
    /// CUmemAllocationProp *prop, unsigned long long flags)`
    private static final MethodHandle CREATE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG),
                    "cuMemCreate");

    /// `CUresult cuMemRelease(CUmemGenericAllocationHandle handle)`
    private static final MethodHandle RELEASE =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "cuMemRelease");

    /// `CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr
    /// addr, unsigned long long flags)`
    private static final MethodHandle ADDRESS_RESERVE =
            Cuda.link(
                    FunctionDescriptor.of(
                            JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG),
                    "cuMemAddressReserve");

    /// `CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)`
    private static final MethodHandle ADDRESS_FREE = Cuda.link(RANGE, "cuMemAddressFree");

    /// `CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle
    /// handle, unsigned long long flags)`
    private static final MethodHandle MAP =
            Cuda.link(
                    FunctionDescriptor.of(
                            JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG),
                    "cuMemMap");

    /// `CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)`
    private static final MethodHandle UNMAP = Cuda.link(RANGE, "cuMemUnmap");

    /// `CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t
    /// count)`
    private static final MethodHandle SET_ACCESS =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG),
                    "cuMemSetAccess");

    /// `CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle
    /// handle, CUmemAllocationHandleType handleType, unsigned long long flags)`
    private static final MethodHandle EXPORT =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT, JAVA_LONG),
                    "cuMemExportToShareableHandle");

    /// `CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void
    /// *osHandle, CUmemAllocationHandleType shHandleType)`: a descriptor stands in the pointer
    /// itself, a fabric handle behind it
    private static final MethodHandle IMPORT =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT),
                    "cuMemImportFromShareableHandle");

    /// `CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)`
    private static final MethodHandle RETAIN =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG),
                    "cuMemRetainAllocationHandle");

    /// `CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
    /// CUmemGenericAllocationHandle handle)`
    private static final MethodHandle GET_PROPERTIES =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG),
                    "cuMemGetAllocationPropertiesFromHandle");

    /// `CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
    /// CUmemRangeHandleType handleType, unsigned long long flags)`
    private static final MethodHandle GET_RANGE_HANDLE =
            Cuda.link(
                    FunctionDescriptor.of(
                            JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG),
                    "cuMemGetHandleForAddressRange");

    private CudaVmm() {}

    /// Where physical memory is, and how it may be shared. Pinned, uncompressed.
    ///
    /// @param locationType [#CU_MEM_LOCATION_TYPE_DEVICE] or [#CU_MEM_LOCATION_TYPE_HOST_NUMA]
    /// @param location the device, or the NUMA node
    /// @param handleTypes `CU_MEM_HANDLE_TYPE_` bits; they cannot be added later
    /// @param gpuDirectRdma whether NICs may reach it; asked for where the device can do so
    public record Properties(
            int locationType, int location, int handleTypes, boolean gpuDirectRdma) {
        private void write(MemorySegment prop) {
            prop.asSlice(0, PROP_BYTES).fill((byte) 0);
            prop.set(JAVA_INT, PROP_TYPE, CU_MEM_ALLOCATION_TYPE_PINNED);
            prop.set(JAVA_INT, PROP_HANDLE_TYPES, handleTypes);
            prop.set(JAVA_INT, PROP_LOCATION_TYPE, locationType);
            prop.set(JAVA_INT, PROP_LOCATION_ID, location);
            prop.set(JAVA_BYTE, PROP_GPU_DIRECT_RDMA, (byte) (gpuDirectRdma ? 1 : 0));
        }
    }

    /// What sizes and alignments must be a multiple of; `option` is a `CU_MEM_ALLOC_GRANULARITY_`.
    public static long granularity(Properties properties, int option) {
        MemorySegment scratch = Scratch.current();
        properties.write(scratch);
        long out = scratch.address() + PROP_BYTES;
        try {
            int result = (int) GET_GRANULARITY.invokeExact(out, scratch, option);
            CudaError.check(result, "cuMemGetAllocationGranularity", properties, option);
            return scratch.get(JAVA_LONG, PROP_BYTES);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Makes physical memory and returns its handle, or minus the driver's code: a driver or
    /// container without fabric says [CudaError#CUDA_ERROR_NOT_PERMITTED] or
    /// [CudaError#CUDA_ERROR_NOT_SUPPORTED] to that handle type.
    public static long tryCreate(long bytes, Properties properties) {
        MemorySegment scratch = Scratch.current();
        properties.write(scratch);
        try {
            long out = scratch.address() + PROP_BYTES;
            int result = (int) CREATE.invokeExact(out, bytes, scratch, 0L);
            return result == CudaError.CUDA_SUCCESS ? scratch.get(JAVA_LONG, PROP_BYTES) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Gives the handle back; the memory lives on while it is mapped, exported or retained.
    public static void release(long handle) {
        try {
            int result = (int) RELEASE.invokeExact(handle);
            CudaError.check(result, "cuMemRelease", handle);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Reserves addresses; `alignment` 0 is the granularity.
    public static long reserve(long bytes, long alignment) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) ADDRESS_RESERVE.invokeExact(out, bytes, alignment, 0L, 0L);
            CudaError.check(result, "cuMemAddressReserve", bytes, alignment);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Gives a whole reservation back, with nothing mapped in it.
    public static void freeAddresses(long address, long bytes) {
        try {
            int result = (int) ADDRESS_FREE.invokeExact(address, bytes);
            CudaError.check(result, "cuMemAddressFree", address, bytes);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Puts all of a handle's memory at reserved addresses. Nobody may touch it before
    /// [#trySetAccess].
    public static void map(long address, long bytes, long handle) {
        try {
            int result = (int) MAP.invokeExact(address, bytes, 0L, handle, 0L);
            CudaError.check(result, "cuMemMap", address, bytes, handle);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Takes back whole mappings. Work that uses them must be done.
    public static void unmap(long address, long bytes) {
        try {
            int result = (int) UNMAP.invokeExact(address, bytes);
            CudaError.check(result, "cuMemUnmap", address, bytes);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Lets one device reach mapped addresses; `flags` are `CU_MEM_ACCESS_FLAGS_`. Others keep what
    /// they have. Returns 0 or minus the driver's code, as for a device that has no path to the
    /// memory.
    public static int trySetAccess(long address, long bytes, int device, int flags) {
        MemorySegment description = Scratch.current();
        description.set(JAVA_INT, ACCESS_LOCATION_TYPE, CU_MEM_LOCATION_TYPE_DEVICE);
        description.set(JAVA_INT, ACCESS_LOCATION_ID, device);
        description.set(JAVA_INT, ACCESS_FLAGS, flags);
        try {
            return -(int) SET_ACCESS.invokeExact(address, bytes, description, 1L);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// A file descriptor for a handle's memory, the caller's to close, or minus the driver's code.
    public static int tryExportDescriptor(long handle) {
        MemorySegment out = Scratch.current();
        int type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        try {
            int result = (int) EXPORT.invokeExact(out, handle, type, 0L);
            return result == CudaError.CUDA_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Writes the fabric handle of a handle's memory into `fabric` (64 bytes). Returns 0 or minus
    /// the driver's code. No path uses fabric handles so far.
    public static int tryExportFabric(long handle, byte[] fabric) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(FABRIC_HANDLE_BYTES, 8);
            int result = (int) EXPORT.invokeExact(out, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0L);
            if (result == CudaError.CUDA_SUCCESS) {
                MemorySegment.copy(out, JAVA_BYTE, 0, fabric, 0, FABRIC_HANDLE_BYTES);
            }
            return -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// A handle for what a descriptor of another process means, or minus the driver's code. The
    /// descriptor stays the caller's.
    public static long tryImportDescriptor(int descriptor) {
        return tryImport(descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    }

    /// A handle for what a fabric handle of another process means, or minus the driver's code.
    public static long tryImportFabric(byte[] fabric) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment struct = arena.allocate(FABRIC_HANDLE_BYTES, 8);
            MemorySegment.copy(fabric, 0, struct, JAVA_BYTE, 0, FABRIC_HANDLE_BYTES);
            return tryImport(struct.address(), CU_MEM_HANDLE_TYPE_FABRIC);
        }
    }

    private static long tryImport(long osHandle, int type) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) IMPORT.invokeExact(out, osHandle, type);
            return result == CudaError.CUDA_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The handle of the memory that is mapped at this address, to be released like one's own, or
    /// minus the driver's code for memory of another kind.
    public static long tryRetain(long address) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) RETAIN.invokeExact(out, address);
            return result == CudaError.CUDA_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    public static Properties properties(long handle) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_PROPERTIES.invokeExact(out, handle);
            CudaError.check(result, "cuMemGetAllocationPropertiesFromHandle", handle);
            return new Properties(
                    out.get(JAVA_INT, PROP_LOCATION_TYPE),
                    out.get(JAVA_INT, PROP_LOCATION_ID),
                    out.get(JAVA_INT, PROP_HANDLE_TYPES),
                    out.get(JAVA_BYTE, PROP_GPU_DIRECT_RDMA) != 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// A dma-buf descriptor of a range, page-aligned at both ends, the caller's to close, or minus
    /// the driver's code; `flags` are `CU_MEM_RANGE_FLAG_`.
    public static int tryDmaBuf(long address, long bytes, long flags) {
        MemorySegment out = Scratch.current();
        int type = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        try {
            int result = (int) GET_RANGE_HANDLE.invokeExact(out, address, bytes, type, flags);
            return result == CudaError.CUDA_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

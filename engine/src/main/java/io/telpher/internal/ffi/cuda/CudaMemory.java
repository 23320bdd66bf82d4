package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Device memory of `cuMemAlloc`, and pinned host memory: allocated here, or registered.
public final class CudaMemory {
    public static final int CU_MEMHOSTALLOC_PORTABLE = 1;
    public static final int CU_MEMHOSTALLOC_DEVICEMAP = 2;
    public static final int CU_MEMHOSTALLOC_WRITECOMBINED = 4;

    public static final int CU_MEMHOSTREGISTER_PORTABLE = 1;
    public static final int CU_MEMHOSTREGISTER_DEVICEMAP = 2;
    public static final int CU_MEMHOSTREGISTER_IOMEMORY = 4;
    public static final int CU_MEMHOSTREGISTER_READ_ONLY = 8;

    private static final FunctionDescriptor OF_ADDRESS = FunctionDescriptor.of(JAVA_INT, JAVA_LONG);

    /// `CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)`
    private static final MethodHandle ALLOC =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG), "cuMemAlloc_v2");

    /// `CUresult cuMemFree_v2(CUdeviceptr dptr)`
    private static final MethodHandle FREE = Cuda.link(OF_ADDRESS, "cuMemFree_v2");

    /// `CUresult cuMemGetInfo_v2(size_t *free, size_t *total)`
    private static final MethodHandle GET_INFO =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG), "cuMemGetInfo_v2");

    /// `CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)`
    private static final MethodHandle GET_ADDRESS_RANGE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG),
                    "cuMemGetAddressRange_v2");

    /// `CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)`
    private static final MethodHandle HOST_ALLOC =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT),
                    "cuMemHostAlloc");

    /// `CUresult cuMemFreeHost(void *p)`
    private static final MethodHandle FREE_HOST = Cuda.link(OF_ADDRESS, "cuMemFreeHost");

    /// `CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)`
    private static final MethodHandle HOST_REGISTER =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT),
                    "cuMemHostRegister_v2");

    /// `CUresult cuMemHostUnregister(void *p)`
    private static final MethodHandle HOST_UNREGISTER =
            Cuda.link(OF_ADDRESS, "cuMemHostUnregister");

    /// `CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)`
    private static final MethodHandle HOST_GET_DEVICE_POINTER =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT),
                    "cuMemHostGetDevicePointer_v2");

    private CudaMemory() {}

    /// A range of an allocation.
    ///
    /// @param base the first address
    /// @param bytes the size
    public record Range(long base, long bytes) {}

    /// What the current context's device has.
    ///
    /// @param free bytes that can still be allocated
    /// @param total bytes in all
    public record Info(long free, long total) {}

    /// Allocates on the current context's device; aligned to 256 bytes or more.
    public static long alloc(long bytes) {
        long address = tryAlloc(bytes);
        if (address < 0) {
            throw CudaError.failure((int) address, "cuMemAlloc", bytes);
        }
        return address;
    }

    /// The address, or minus the driver's code, mostly [CudaError#CUDA_ERROR_OUT_OF_MEMORY].
    public static long tryAlloc(long bytes) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) ALLOC.invokeExact(out, bytes);
            return result == CudaError.CUDA_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Frees what [#alloc] gave. Waits for work on the device.
    public static void free(long address) {
        try {
            int result = (int) FREE.invokeExact(address);
            CudaError.check(result, "cuMemFree", address);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    public static Info info() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_INFO.invokeExact(out, out.address() + 8);
            CudaError.check(result, "cuMemGetInfo");
            return new Info(out.get(JAVA_LONG, 0), out.get(JAVA_LONG, 8));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The allocation, or the mapping of virtual memory management, that this address lies in.
    public static Range range(long address) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_ADDRESS_RANGE.invokeExact(out, out.address() + 8, address);
            CudaError.check(result, "cuMemGetAddressRange", address);
            return new Range(out.get(JAVA_LONG, 0), out.get(JAVA_LONG, 8));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Allocates pinned host memory; `flags` are `CU_MEMHOSTALLOC_`.
    public static long hostAlloc(long bytes, int flags) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) HOST_ALLOC.invokeExact(out, bytes, flags);
            CudaError.check(result, "cuMemHostAlloc", bytes, flags);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Frees what [#hostAlloc] gave.
    public static void freeHost(long address) {
        try {
            int result = (int) FREE_HOST.invokeExact(address);
            CudaError.check(result, "cuMemFreeHost", address);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Pins host memory that exists already; `flags` are `CU_MEMHOSTREGISTER_`. The memory must
    /// stay mapped until [#hostUnregister]. Returns 0 or minus the driver's code.
    public static int tryHostRegister(long address, long bytes, int flags) {
        try {
            return -(int) HOST_REGISTER.invokeExact(address, bytes, flags);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Takes back [#tryHostRegister].
    public static void hostUnregister(long address) {
        try {
            int result = (int) HOST_UNREGISTER.invokeExact(address);
            CudaError.check(result, "cuMemHostUnregister", address);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The address at which kernels of the current context's device see pinned host memory.
    public static long hostDevicePointer(long address) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) HOST_GET_DEVICE_POINTER.invokeExact(out, address, 0);
            CudaError.check(result, "cuMemHostGetDevicePointer", address);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

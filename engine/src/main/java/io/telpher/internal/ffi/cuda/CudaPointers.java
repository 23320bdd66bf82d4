package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// What the driver knows of an address: whose memory it is, and how it can be shared. Needs a
/// current context, of any device.
public final class CudaPointers {
    public static final int CU_MEMORYTYPE_HOST = 1;
    public static final int CU_MEMORYTYPE_DEVICE = 2;

    public static final int CU_POINTER_ATTRIBUTE_CONTEXT = 1;
    public static final int CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;
    public static final int CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3;
    public static final int CU_POINTER_ATTRIBUTE_HOST_POINTER = 4;
    public static final int CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6;
    public static final int CU_POINTER_ATTRIBUTE_BUFFER_ID = 7;
    public static final int CU_POINTER_ATTRIBUTE_IS_MANAGED = 8;
    public static final int CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9;
    public static final int CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10;
    public static final int CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11;
    public static final int CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12;
    public static final int CU_POINTER_ATTRIBUTE_MAPPED = 13;
    public static final int CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14;
    public static final int CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15;
    public static final int CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16;
    public static final int CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17;
    public static final int CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18;
    public static final int CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19;
    public static final int CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20;

    /// What [#describe] asks for, in the order of [Attributes].
    private static final int[] DESCRIPTION = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_MAPPED,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,
    };

    /// `CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)`
    private static final MethodHandle GET_ATTRIBUTE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_LONG),
                    "cuPointerGetAttribute");

    /// `CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute
    /// *attributes, void **data, CUdeviceptr ptr)`
    private static final MethodHandle GET_ATTRIBUTES =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG),
                    "cuPointerGetAttributes");

    private CudaPointers() {}

    /// What the driver knows of one address. Attributes that do not apply are 0 or false.
    ///
    /// @param memoryType [#CU_MEMORYTYPE_HOST] for pinned host memory, [#CU_MEMORYTYPE_DEVICE], or
    ///     0 for memory that the driver does not know
    /// @param device the ordinal of the device that owns it, -2 where the driver does not know the
    ///     address
    /// @param context the context that it was allocated in; 0 for memory of no one context, such as
    ///     that of virtual memory management
    /// @param rangeStart where the allocation or mapping begins
    /// @param rangeBytes its size
    /// @param bufferId another for each allocation of the process's life, also at the same address
    /// @param managed whether it moves between host and devices by itself
    /// @param mapped whether there is memory behind the address
    /// @param legacyIpc whether `cuIpcGetMemHandle` works
    /// @param handleTypes `CU_MEM_HANDLE_TYPE_` bits that it can be exported as
    /// @param memoryPool the pool that it comes from
    /// @param devicePointer the address that the current context's device uses
    /// @param hostPointer the address that the CPU uses
    public record Attributes(
            int memoryType,
            int device,
            long context,
            long rangeStart,
            long rangeBytes,
            long bufferId,
            boolean managed,
            boolean mapped,
            boolean legacyIpc,
            int handleTypes,
            long memoryPool,
            long devicePointer,
            long hostPointer) {}

    /// Everything at once. An address that the driver does not know is no error: it is ordinary
    /// host memory, or nothing.
    public static Attributes describe(long address) {
        int count = DESCRIPTION.length;
        MemorySegment scratch = Scratch.current();
        long pointers = 8L * count;
        long values = 16L * count;
        for (int i = 0; i < count; i++) {
            scratch.set(JAVA_INT, 4L * i, DESCRIPTION[i]);
            scratch.set(JAVA_LONG, pointers + 8L * i, scratch.address() + values + 8L * i);
            // The driver writes as many bytes as the attribute has: one, four or eight.
            scratch.set(JAVA_LONG, values + 8L * i, 0);
        }
        try {
            int result =
                    (int)
                            GET_ATTRIBUTES.invokeExact(
                                    count, scratch, scratch.address() + pointers, address);
            CudaError.check(result, "cuPointerGetAttributes", address);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
        MemorySegment told = scratch.asSlice(values, 8L * count);
        return new Attributes(
                told.get(JAVA_INT, 0),
                told.get(JAVA_INT, 8),
                told.get(JAVA_LONG, 16),
                told.get(JAVA_LONG, 24),
                told.get(JAVA_LONG, 32),
                told.get(JAVA_LONG, 40),
                told.get(JAVA_INT, 48) != 0,
                told.get(JAVA_INT, 56) != 0,
                told.get(JAVA_INT, 64) != 0,
                told.get(JAVA_INT, 72),
                told.get(JAVA_LONG, 80),
                told.get(JAVA_LONG, 88),
                told.get(JAVA_LONG, 96));
    }

    /// A number that no other physical memory of the process has as long as this one exists; 0
    /// where the driver does not know it, or has no such numbers.
    public static long memoryBlock(long address) {
        MemorySegment out = Scratch.current();
        out.set(JAVA_LONG, 0, 0);
        try {
            int which = CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID;
            int result = (int) GET_ATTRIBUTE.invokeExact(out, which, address);
            return result == CudaError.CUDA_SUCCESS ? out.get(JAVA_LONG, 0) : 0;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// One attribute, as many low bytes as it has; throws for an address that the driver does not
    /// know, and for an attribute that it does not know.
    public static long attribute(long address, int attribute) {
        MemorySegment out = Scratch.current();
        out.set(JAVA_LONG, 0, 0);
        try {
            int result = (int) GET_ATTRIBUTE.invokeExact(out, attribute, address);
            CudaError.check(result, "cuPointerGetAttribute", attribute, address);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

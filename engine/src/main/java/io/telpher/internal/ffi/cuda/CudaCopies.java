package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Objects;

/// Copies and fills in stream order. Errors of the work itself show later, at the stream or an
/// event.
public final class CudaCopies {
    public static final int CU_MEMCPY_SRC_ACCESS_ORDER_STREAM = 1;
    public static final int CU_MEMCPY_SRC_ACCESS_ORDER_ANY = 3;
    public static final int CU_MEMCPY_FLAG_DEFAULT = 0;
    public static final int CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE = 1;

    /// `struct CUmemcpyAttributes_st`: the order of access, hints on both locations, flags
    static final int COPY_ATTRIBUTES_BYTES = 24;

    static final int COPY_SRC_ACCESS_ORDER = 0;
    static final int COPY_FLAGS = 20;

    /// `CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream
    /// hStream)`
    private static final MethodHandle MEMCPY =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG),
                    "cuMemcpyAsync");

    /// `CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr
    /// srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)`
    private static final MethodHandle MEMCPY_PEER =
            Cuda.link(
                    FunctionDescriptor.of(
                            JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG,
                            JAVA_LONG),
                    "cuMemcpyPeerAsync");

    /// `CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream
    /// hStream)`
    private static final MethodHandle MEMSET_D8 =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_BYTE, JAVA_LONG, JAVA_LONG),
                    "cuMemsetD8Async");

    /// `CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream
    /// hStream)`
    private static final MethodHandle MEMSET_D32 =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG),
                    "cuMemsetD32Async");

    private CudaCopies() {}

    /// Copies between any two addresses that the driver knows, of devices or pinned host memory.
    /// Pageable host memory works too, but may be copied before the call returns. Allocates
    /// nothing.
    public static void copy(long to, long from, long bytes, long stream) {
        try {
            int result = (int) MEMCPY.invokeExact(to, from, bytes, stream);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(result, "cuMemcpyAsync", to, from, bytes, stream);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Copies between devices that may not reach each other: the driver stages the bytes then.
    /// Allocates nothing.
    public static void copyPeer(
            long to, long toContext, long from, long fromContext, long bytes, long stream) {
        try {
            int result =
                    (int) MEMCPY_PEER.invokeExact(to, toContext, from, fromContext, bytes, stream);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(
                        result,
                        "cuMemcpyPeerAsync",
                        to,
                        toContext,
                        from,
                        fromContext,
                        bytes,
                        stream);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Whether the driver takes many copies in one call: CUDA 12.8 and later.
    public static boolean hasBatch() {
        return Cuda.has("cuMemcpyBatchAsync_v2") || Cuda.has("cuMemcpyBatchAsync");
    }

    /// Starts `count` copies that may run in any order among themselves, after what is in the
    /// stream and before what follows. The arrays hold a long for each copy and are read during the
    /// call only. The stream must be a created one, not 0.
    public static void copyBatch(
            MemorySegment to,
            MemorySegment from,
            MemorySegment bytes,
            long count,
            int flags,
            long stream) {
        Objects.checkFromIndexSize(0L, 8 * count, to.byteSize());
        Objects.checkFromIndexSize(0L, 8 * count, from.byteSize());
        Objects.checkFromIndexSize(0L, 8 * count, bytes.byteSize());
        MemorySegment attributes = Scratch.current();
        attributes.asSlice(0, COPY_ATTRIBUTES_BYTES + 16L).fill((byte) 0);
        attributes.set(JAVA_INT, COPY_SRC_ACCESS_ORDER, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
        attributes.set(JAVA_INT, COPY_FLAGS, flags);
        // Behind them, the index of the first copy that the attributes are for.
        long firstIndex = attributes.address() + COPY_ATTRIBUTES_BYTES;
        try {
            int result =
                    Batch.HAS_V2
                            ? (int)
                                    Batch.V2.invokeExact(
                                            to,
                                            from,
                                            bytes,
                                            count,
                                            attributes,
                                            firstIndex,
                                            1L,
                                            stream)
                            : (int)
                                    Batch.V1.invokeExact(
                                            to,
                                            from,
                                            bytes,
                                            count,
                                            attributes,
                                            firstIndex,
                                            1L,
                                            firstIndex + 8,
                                            stream);
            CudaError.check(result, "cuMemcpyBatchAsync", count, flags, stream);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Fills bytes.
    public static void fill(long to, byte value, long bytes, long stream) {
        try {
            int result = (int) MEMSET_D8.invokeExact(to, value, bytes, stream);
            CudaError.check(result, "cuMemsetD8Async", to, value, bytes, stream);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Fills `count` ints at an address that is a multiple of four.
    public static void fillInts(long to, int value, long count, long stream) {
        try {
            int result = (int) MEMSET_D32.invokeExact(to, value, count, stream);
            CudaError.check(result, "cuMemsetD32Async", to, value, count, stream);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Apart, since older drivers have neither.
    private static final class Batch {
        static final boolean HAS_V2 = Cuda.has("cuMemcpyBatchAsync_v2");

        /// `CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
        /// size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, CUstream
        /// hStream)`: CUDA 13
        static final MethodHandle V2 =
                Cuda.link(
                        FunctionDescriptor.of(
                                JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG,
                                JAVA_LONG, JAVA_LONG),
                        "cuMemcpyBatchAsync_v2");

        /// `CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t
        /// count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
        /// CUstream hStream)`: CUDA 12.8 and 12.9
        static final MethodHandle V1 =
                Cuda.link(
                        FunctionDescriptor.of(
                                JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG,
                                JAVA_LONG, JAVA_LONG, JAVA_LONG),
                        "cuMemcpyBatchAsync");
    }
}

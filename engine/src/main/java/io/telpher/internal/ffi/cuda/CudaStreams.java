package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Streams: queues of work on a device, and the words in memory that work writes and waits for.
/// Stream 0 is the default stream of the current context.
public final class CudaStreams {
    public static final int CU_STREAM_DEFAULT = 0;
    public static final int CU_STREAM_NON_BLOCKING = 1;

    public static final int CU_STREAM_WAIT_VALUE_GEQ = 0;
    public static final int CU_STREAM_WAIT_VALUE_EQ = 1;
    public static final int CU_STREAM_WAIT_VALUE_AND = 2;
    public static final int CU_STREAM_WAIT_VALUE_NOR = 3;
    public static final int CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30;

    public static final int CU_STREAM_WRITE_VALUE_DEFAULT = 0;
    public static final int CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 1;

    private static final FunctionDescriptor OF_STREAM = FunctionDescriptor.of(JAVA_INT, JAVA_LONG);
    private static final FunctionDescriptor VALUE_32 =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_INT);
    private static final FunctionDescriptor VALUE_64 =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT);

    /// `CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)`
    private static final MethodHandle CREATE_WITH_PRIORITY =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT),
                    "cuStreamCreateWithPriority");

    /// `CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)`
    private static final MethodHandle PRIORITY_RANGE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG),
                    "cuCtxGetStreamPriorityRange");

    /// `CUresult cuStreamDestroy_v2(CUstream hStream)`
    private static final MethodHandle DESTROY = Cuda.link(OF_STREAM, "cuStreamDestroy_v2");

    /// `CUresult cuStreamQuery(CUstream hStream)`
    private static final MethodHandle QUERY = Cuda.link(OF_STREAM, "cuStreamQuery");

    /// `CUresult cuStreamSynchronize(CUstream hStream)`
    private static final MethodHandle SYNCHRONIZE = Cuda.link(OF_STREAM, "cuStreamSynchronize");

    /// `CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)`
    private static final MethodHandle WAIT_EVENT =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT),
                    "cuStreamWaitEvent");

    /// `CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)`
    private static final MethodHandle GET_CTX =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS), "cuStreamGetCtx");

    /// `CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
    /// unsigned int flags)`: unlike the first version it needs no module parameter of the driver
    private static final MethodHandle WRITE_VALUE_32 =
            Cuda.link(VALUE_32, "cuStreamWriteValue32_v2", "cuStreamWriteValue32");

    /// `CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
    /// unsigned int flags)`
    private static final MethodHandle WRITE_VALUE_64 =
            Cuda.link(VALUE_64, "cuStreamWriteValue64_v2", "cuStreamWriteValue64");

    /// `CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
    /// unsigned int flags)`
    private static final MethodHandle WAIT_VALUE_32 =
            Cuda.link(VALUE_32, "cuStreamWaitValue32_v2", "cuStreamWaitValue32");

    /// `CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
    /// unsigned int flags)`
    private static final MethodHandle WAIT_VALUE_64 =
            Cuda.link(VALUE_64, "cuStreamWaitValue64_v2", "cuStreamWaitValue64");

    /// `CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)`
    private static final MethodHandle IS_CAPTURING =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS), "cuStreamIsCapturing");

    private CudaStreams() {}

    /// What priorities the current context's device has. Smaller numbers go first.
    ///
    /// @param least the largest number
    /// @param greatest the smallest, mostly a negative one
    public record Priorities(int least, int greatest) {}

    public static Priorities priorities() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) PRIORITY_RANGE.invokeExact(out, out.address() + 4);
            CudaError.check(result, "cuCtxGetStreamPriorityRange");
            return new Priorities(out.get(JAVA_INT, 0), out.get(JAVA_INT, 4));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Makes a stream in the current context. With [#CU_STREAM_NON_BLOCKING] it does not wait for
    /// the default stream. Priorities out of range are moved into it.
    public static long create(int flags, int priority) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) CREATE_WITH_PRIORITY.invokeExact(out, flags, priority);
            CudaError.check(result, "cuStreamCreateWithPriority", flags, priority);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Destroys the stream; its work still runs to its end.
    public static void destroy(long stream) {
        try {
            int result = (int) DESTROY.invokeExact(stream);
            CudaError.check(result, "cuStreamDestroy", stream);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// 0 when all work is done, `-CUDA_ERROR_NOT_READY` while not, else minus the code of what went
    /// wrong. Allocates nothing.
    public static int query(long stream) {
        try {
            return -(int) QUERY.invokeExact(stream);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Blocks until all work is done.
    public static void synchronize(long stream) {
        try {
            int result = (int) SYNCHRONIZE.invokeExact(stream);
            CudaError.check(result, "cuStreamSynchronize", stream);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Lets the stream's further work wait for an event, which may be of another stream, device or
    /// process.
    public static void waitEvent(long stream, long event) {
        try {
            int result = (int) WAIT_EVENT.invokeExact(stream, event, 0);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(result, "cuStreamWaitEvent", stream, event);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The context that the stream belongs to.
    public static long context(long stream) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_CTX.invokeExact(stream, out);
            CudaError.check(result, "cuStreamGetCtx", stream);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Whether the stream records a graph instead of running what is put into it.
    public static boolean isCapturing(long stream) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) IS_CAPTURING.invokeExact(stream, out);
            CudaError.check(result, "cuStreamIsCapturing", stream);
            return out.get(JAVA_INT, 0) != 0;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Writes an aligned int once all earlier work is done and visible; `flags` are
    /// `CU_STREAM_WRITE_VALUE_`. Allocates nothing.
    public static void writeValue32(long stream, long address, int value, int flags) {
        try {
            int result = (int) WRITE_VALUE_32.invokeExact(stream, address, value, flags);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(
                        result, "cuStreamWriteValue32", stream, address, value, flags);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Writes an aligned long once all earlier work is done and visible; `flags` are
    /// `CU_STREAM_WRITE_VALUE_`. Allocates nothing.
    public static void writeValue64(long stream, long address, long value, int flags) {
        try {
            int result = (int) WRITE_VALUE_64.invokeExact(stream, address, value, flags);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(
                        result, "cuStreamWriteValue64", stream, address, value, flags);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Lets the stream's further work wait until an aligned int compares as `flags`
    /// (`CU_STREAM_WAIT_VALUE_`) say. Allocates nothing.
    public static void waitValue32(long stream, long address, int value, int flags) {
        try {
            int result = (int) WAIT_VALUE_32.invokeExact(stream, address, value, flags);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(
                        result, "cuStreamWaitValue32", stream, address, value, flags);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Lets the stream's further work wait until an aligned long compares as `flags`
    /// (`CU_STREAM_WAIT_VALUE_`) say. Allocates nothing.
    public static void waitValue64(long stream, long address, long value, int flags) {
        try {
            int result = (int) WAIT_VALUE_64.invokeExact(stream, address, value, flags);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(
                        result, "cuStreamWaitValue64", stream, address, value, flags);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

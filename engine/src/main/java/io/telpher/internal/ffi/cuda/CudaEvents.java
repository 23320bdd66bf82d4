package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Events: marks in streams. One that was never recorded counts as done.
public final class CudaEvents {
    public static final int CU_EVENT_DEFAULT = 0;
    public static final int CU_EVENT_BLOCKING_SYNC = 1;
    public static final int CU_EVENT_DISABLE_TIMING = 2;
    public static final int CU_EVENT_INTERPROCESS = 4;

    private static final FunctionDescriptor OF_EVENT = FunctionDescriptor.of(JAVA_INT, JAVA_LONG);

    /// `CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)`
    private static final MethodHandle CREATE =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT), "cuEventCreate");

    /// `CUresult cuEventRecord(CUevent hEvent, CUstream hStream)`
    private static final MethodHandle RECORD =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG), "cuEventRecord");

    /// `CUresult cuEventQuery(CUevent hEvent)`
    private static final MethodHandle QUERY = Cuda.link(OF_EVENT, "cuEventQuery");

    /// `CUresult cuEventSynchronize(CUevent hEvent)`
    private static final MethodHandle SYNCHRONIZE = Cuda.link(OF_EVENT, "cuEventSynchronize");

    /// `CUresult cuEventDestroy_v2(CUevent hEvent)`
    private static final MethodHandle DESTROY = Cuda.link(OF_EVENT, "cuEventDestroy_v2");

    /// `CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)`
    private static final MethodHandle ELAPSED_TIME =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG),
                    "cuEventElapsedTime_v2",
                    "cuEventElapsedTime");

    private CudaEvents() {}

    /// Makes an event in the current context. [#CU_EVENT_INTERPROCESS] needs
    /// [#CU_EVENT_DISABLE_TIMING] too.
    public static long create(int flags) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) CREATE.invokeExact(out, flags);
            CudaError.check(result, "cuEventCreate", flags);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Moves the event to the present end of the stream. Allocates nothing.
    public static void record(long event, long stream) {
        try {
            int result = (int) RECORD.invokeExact(event, stream);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(result, "cuEventRecord", event, stream);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// 0 when the work before the event is done, `-CUDA_ERROR_NOT_READY` while not, else minus the
    /// code of what went wrong. Allocates nothing.
    public static int query(long event) {
        try {
            return -(int) QUERY.invokeExact(event);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Blocks until the work before the event is done.
    public static void synchronize(long event) {
        try {
            int result = (int) SYNCHRONIZE.invokeExact(event);
            CudaError.check(result, "cuEventSynchronize", event);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Milliseconds on the device between two events that keep time and are done.
    public static float elapsedMillis(long start, long end) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) ELAPSED_TIME.invokeExact(out, start, end);
            CudaError.check(result, "cuEventElapsedTime", start, end);
            return out.get(JAVA_FLOAT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Destroys the event; what waits for it goes on waiting.
    public static void destroy(long event) {
        try {
            int result = (int) DESTROY.invokeExact(event);
            CudaError.check(result, "cuEventDestroy", event);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

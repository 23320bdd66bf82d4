package io.telpher.internal.ffi.hip;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Streams, queues of work on a device; events, marks in them; and the copies that they make.
public final class HipStreams {
    public static final int hipStreamNonBlocking = 1;
    public static final int hipEventDisableTiming = 2;

    /// The runtime sees by the addresses where the bytes lie.
    public static final int hipMemcpyDefault = 4;

    private static final FunctionDescriptor CREATE =
            FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT);
    private static final FunctionDescriptor OF_HANDLE = FunctionDescriptor.of(JAVA_INT, JAVA_LONG);

    /// `hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags)`
    private static final MethodHandle STREAM_CREATE = Hip.link(CREATE, "hipStreamCreateWithFlags");

    /// `hipError_t hipStreamSynchronize(hipStream_t stream)`
    private static final MethodHandle STREAM_SYNCHRONIZE =
            Hip.link(OF_HANDLE, "hipStreamSynchronize");

    /// `hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags)`
    private static final MethodHandle EVENT_CREATE = Hip.link(CREATE, "hipEventCreateWithFlags");

    /// `hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)`
    private static final MethodHandle EVENT_RECORD =
            Hip.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG), "hipEventRecord");

    /// `hipError_t hipEventQuery(hipEvent_t event)`
    private static final MethodHandle EVENT_QUERY = Hip.link(OF_HANDLE, "hipEventQuery");

    /// `hipError_t hipMemcpyAsync(void* dst, const void* src, size_t sizeBytes, hipMemcpyKind kind,
    /// hipStream_t stream)`
    private static final MethodHandle MEMCPY_ASYNC =
            Hip.link(
                    FunctionDescriptor.of(
                            JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG),
                    "hipMemcpyAsync");

    private HipStreams() {}

    /// Makes a stream of the calling thread's device. With [#hipStreamNonBlocking] it does not wait
    /// for the default stream.
    public static long create(int flags) {
        return create(STREAM_CREATE, "hipStreamCreateWithFlags", flags);
    }

    /// Makes an event of the calling thread's device.
    public static long createEvent(int flags) {
        return create(EVENT_CREATE, "hipEventCreateWithFlags", flags);
    }

    /// Blocks until all work of the stream is done.
    public static void synchronize(long stream) {
        try {
            int result = (int) STREAM_SYNCHRONIZE.invokeExact(stream);
            if (result != HipError.hipSuccess) {
                HipError.check(result, "hipStreamSynchronize", stream);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Moves the event to the present end of the stream.
    public static void record(long event, long stream) {
        try {
            int result = (int) EVENT_RECORD.invokeExact(event, stream);
            if (result != HipError.hipSuccess) {
                HipError.check(result, "hipEventRecord", event, stream);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// 0 when the work before the event is done, `-hipErrorNotReady` while not, else minus the code
    /// of what went wrong.
    public static int query(long event) {
        try {
            return HipError.minus((int) EVENT_QUERY.invokeExact(event));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Begins a copy. Memory of the host that is not page-locked may be copied before this returns.
    public static void copy(long to, long from, long bytes, long stream) {
        try {
            int result = (int) MEMCPY_ASYNC.invokeExact(to, from, bytes, hipMemcpyDefault, stream);
            if (result != HipError.hipSuccess) {
                HipError.check(result, "hipMemcpyAsync", to, from, bytes, hipMemcpyDefault, stream);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static long create(MethodHandle function, String call, int flags) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) function.invokeExact(out, flags);
            HipError.check(result, call, flags);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Primary contexts, the calling thread's current context, and peer access between contexts.
///
/// A primary context is shared by all of the process (PyTorch and the CUDA runtime use it too) and
/// counted: it takes hundreds of MiB of the GPU, from the first retain to the last release.
public final class CudaContexts {
    public static final int CU_CTX_SCHED_AUTO = 0;
    public static final int CU_CTX_SCHED_SPIN = 1;
    public static final int CU_CTX_SCHED_YIELD = 2;
    public static final int CU_CTX_SCHED_BLOCKING_SYNC = 4;

    private static final FunctionDescriptor OF_POINTER = FunctionDescriptor.of(JAVA_INT, ADDRESS);
    private static final FunctionDescriptor OF_CONTEXT = FunctionDescriptor.of(JAVA_INT, JAVA_LONG);

    /// `CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)`
    private static final MethodHandle PRIMARY_RETAIN =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT), "cuDevicePrimaryCtxRetain");

    /// `CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)`
    private static final MethodHandle PRIMARY_RELEASE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT),
                    "cuDevicePrimaryCtxRelease_v2",
                    "cuDevicePrimaryCtxRelease");

    /// `CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)`
    private static final MethodHandle PRIMARY_GET_STATE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_LONG),
                    "cuDevicePrimaryCtxGetState");

    /// `CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)`
    private static final MethodHandle PRIMARY_SET_FLAGS =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT),
                    "cuDevicePrimaryCtxSetFlags_v2",
                    "cuDevicePrimaryCtxSetFlags");

    /// `CUresult cuCtxSetCurrent(CUcontext ctx)`
    private static final MethodHandle SET_CURRENT = Cuda.link(OF_CONTEXT, "cuCtxSetCurrent");

    /// `CUresult cuCtxGetCurrent(CUcontext *pctx)`
    private static final MethodHandle GET_CURRENT = Cuda.link(OF_POINTER, "cuCtxGetCurrent");

    /// `CUresult cuCtxPushCurrent_v2(CUcontext ctx)`
    private static final MethodHandle PUSH_CURRENT = Cuda.link(OF_CONTEXT, "cuCtxPushCurrent_v2");

    /// `CUresult cuCtxPopCurrent_v2(CUcontext *pctx)`
    private static final MethodHandle POP_CURRENT = Cuda.link(OF_POINTER, "cuCtxPopCurrent_v2");

    /// `CUresult cuCtxGetDevice(CUdevice *device)`
    private static final MethodHandle GET_DEVICE = Cuda.link(OF_POINTER, "cuCtxGetDevice");

    /// `CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)`
    private static final MethodHandle ENABLE_PEER_ACCESS =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT), "cuCtxEnablePeerAccess");

    /// `CUresult cuCtxDisablePeerAccess(CUcontext peerContext)`
    private static final MethodHandle DISABLE_PEER_ACCESS =
            Cuda.link(OF_CONTEXT, "cuCtxDisablePeerAccess");

    private CudaContexts() {}

    /// The state of a device's primary context.
    ///
    /// @param flags its `CU_CTX_` flags
    /// @param active whether anybody in this process retains it
    public record State(int flags, boolean active) {}

    /// Retains the device's primary context and makes it where nobody did before; it does not
    /// become current.
    public static long retainPrimary(int device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) PRIMARY_RETAIN.invokeExact(out, device);
            CudaError.check(result, "cuDevicePrimaryCtxRetain", device);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Gives back one retain. The last one destroys the context with all that is in it.
    public static void releasePrimary(int device) {
        try {
            int result = (int) PRIMARY_RELEASE.invokeExact(device);
            CudaError.check(result, "cuDevicePrimaryCtxRelease", device);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    public static State primaryState(int device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) PRIMARY_GET_STATE.invokeExact(device, out, out.address() + 4);
            CudaError.check(result, "cuDevicePrimaryCtxGetState", device);
            return new State(out.get(JAVA_INT, 0), out.get(JAVA_INT, 4) != 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Sets the `CU_CTX_` flags of the device's primary context, active or not.
    public static void setPrimaryFlags(int device, int flags) {
        try {
            int result = (int) PRIMARY_SET_FLAGS.invokeExact(device, flags);
            CudaError.check(result, "cuDevicePrimaryCtxSetFlags", device, flags);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Makes the context the calling thread's; 0 for none. Allocates nothing.
    public static void setCurrent(long context) {
        try {
            int result = (int) SET_CURRENT.invokeExact(context);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(result, "cuCtxSetCurrent", context);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The calling thread's context, 0 for none. Allocates nothing.
    public static long current() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_CURRENT.invokeExact(out);
            if (result != CudaError.CUDA_SUCCESS) {
                throw CudaError.failure(result, "cuCtxGetCurrent");
            }
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    public static void pushCurrent(long context) {
        try {
            int result = (int) PUSH_CURRENT.invokeExact(context);
            CudaError.check(result, "cuCtxPushCurrent", context);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Takes the calling thread's context off its stack and returns it.
    public static long popCurrent() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) POP_CURRENT.invokeExact(out);
            CudaError.check(result, "cuCtxPopCurrent");
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The device of the calling thread's context.
    public static int currentDevice() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_DEVICE.invokeExact(out);
            CudaError.check(result, "cuCtxGetDevice");
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Lets the current context reach the memory of a context on another device, in this direction
    /// only. Returns 0 or minus the driver's code;
    /// [CudaError#CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED] means that somebody in this process did
    /// so before.
    public static int tryEnablePeerAccess(long peerContext) {
        try {
            return -(int) ENABLE_PEER_ACCESS.invokeExact(peerContext, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Takes back [#tryEnablePeerAccess]. Returns 0 or minus the driver's code.
    public static int tryDisablePeerAccess(long peerContext) {
        try {
            return -(int) DISABLE_PEER_ACCESS.invokeExact(peerContext);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

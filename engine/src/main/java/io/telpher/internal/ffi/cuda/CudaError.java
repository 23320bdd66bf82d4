package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Results of the driver API that callers decide by, and the driver's own names and texts for all.
///
/// The methods take a `CUresult`, or the minus `CUresult` that a `try` method returned: only the
/// magnitude counts.
public final class CudaError {
    public static final int CUDA_SUCCESS = 0;
    public static final int CUDA_ERROR_INVALID_VALUE = 1;
    public static final int CUDA_ERROR_OUT_OF_MEMORY = 2;
    public static final int CUDA_ERROR_NOT_INITIALIZED = 3;
    public static final int CUDA_ERROR_DEINITIALIZED = 4;
    public static final int CUDA_ERROR_STUB_LIBRARY = 34;
    public static final int CUDA_ERROR_DEVICE_UNAVAILABLE = 46;
    public static final int CUDA_ERROR_NO_DEVICE = 100;
    public static final int CUDA_ERROR_INVALID_DEVICE = 101;
    public static final int CUDA_ERROR_INVALID_IMAGE = 200;
    public static final int CUDA_ERROR_INVALID_CONTEXT = 201;
    public static final int CUDA_ERROR_ALREADY_MAPPED = 208;
    public static final int CUDA_ERROR_NO_BINARY_FOR_GPU = 209;
    public static final int CUDA_ERROR_ECC_UNCORRECTABLE = 214;
    public static final int CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217;
    public static final int CUDA_ERROR_INVALID_PTX = 218;
    public static final int CUDA_ERROR_NVLINK_UNCORRECTABLE = 220;
    public static final int CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222;
    public static final int CUDA_ERROR_OPERATING_SYSTEM = 304;
    public static final int CUDA_ERROR_INVALID_HANDLE = 400;
    public static final int CUDA_ERROR_NOT_FOUND = 500;
    public static final int CUDA_ERROR_NOT_READY = 600;
    public static final int CUDA_ERROR_ILLEGAL_ADDRESS = 700;
    public static final int CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701;
    public static final int CUDA_ERROR_LAUNCH_TIMEOUT = 702;
    public static final int CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704;
    public static final int CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705;
    public static final int CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708;
    public static final int CUDA_ERROR_CONTEXT_IS_DESTROYED = 709;
    public static final int CUDA_ERROR_ASSERT = 710;
    public static final int CUDA_ERROR_TOO_MANY_PEERS = 711;
    public static final int CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712;
    public static final int CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713;
    public static final int CUDA_ERROR_HARDWARE_STACK_ERROR = 714;
    public static final int CUDA_ERROR_ILLEGAL_INSTRUCTION = 715;
    public static final int CUDA_ERROR_MISALIGNED_ADDRESS = 716;
    public static final int CUDA_ERROR_INVALID_ADDRESS_SPACE = 717;
    public static final int CUDA_ERROR_INVALID_PC = 718;
    public static final int CUDA_ERROR_LAUNCH_FAILED = 719;
    public static final int CUDA_ERROR_NOT_PERMITTED = 800;
    public static final int CUDA_ERROR_NOT_SUPPORTED = 801;
    public static final int CUDA_ERROR_SYSTEM_NOT_READY = 802;
    public static final int CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803;
    public static final int CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804;
    public static final int CUDA_ERROR_EXTERNAL_DEVICE = 911;
    public static final int CUDA_ERROR_UNKNOWN = 999;

    private static final FunctionDescriptor TEXT =
            FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS);

    /// `CUresult cuGetErrorName(CUresult error, const char **pStr)`
    private static final MethodHandle GET_ERROR_NAME = Cuda.link(TEXT, "cuGetErrorName");

    /// `CUresult cuGetErrorString(CUresult error, const char **pStr)`
    private static final MethodHandle GET_ERROR_STRING = Cuda.link(TEXT, "cuGetErrorString");

    private CudaError() {}

    /// The driver's name for it, such as `CUDA_ERROR_NOT_READY`; `CUDA error 4711` for a number
    /// that it does not know.
    public static String name(int result) {
        String name = text(GET_ERROR_NAME, result);
        return name.isEmpty() ? "CUDA error " + Math.abs(result) : name;
    }

    /// Name, number and explanation, such as `CUDA_ERROR_NOT_READY (600, device not ready)`.
    public static String describe(int result) {
        String text = text(GET_ERROR_STRING, result);
        int code = Math.abs(result);
        return name(result) + " (" + (text.isEmpty() ? code : code + ", " + text) + ")";
    }

    /// Whether the context is lost with this error: everything that follows in it fails the same
    /// way, and its memory is gone.
    public static boolean isSticky(int result) {
        return switch (Math.abs(result)) {
            case CUDA_ERROR_ECC_UNCORRECTABLE,
                    CUDA_ERROR_NVLINK_UNCORRECTABLE,
                    CUDA_ERROR_ILLEGAL_ADDRESS,
                    CUDA_ERROR_LAUNCH_TIMEOUT,
                    CUDA_ERROR_CONTEXT_IS_DESTROYED,
                    CUDA_ERROR_ASSERT,
                    CUDA_ERROR_HARDWARE_STACK_ERROR,
                    CUDA_ERROR_ILLEGAL_INSTRUCTION,
                    CUDA_ERROR_MISALIGNED_ADDRESS,
                    CUDA_ERROR_INVALID_ADDRESS_SPACE,
                    CUDA_ERROR_INVALID_PC,
                    CUDA_ERROR_LAUNCH_FAILED,
                    CUDA_ERROR_EXTERNAL_DEVICE ->
                    true;
            default -> false;
        };
    }

    /// Whether nothing that was given to the context runs any more: it is lost, or gone with its
    /// streams.
    public static boolean isEnd(int result) {
        return isSticky(result)
                || switch (Math.abs(result)) {
                    case CUDA_ERROR_DEINITIALIZED,
                            CUDA_ERROR_INVALID_CONTEXT,
                            CUDA_ERROR_INVALID_HANDLE ->
                            true;
                    default -> false;
                };
    }

    /// Throws unless the call succeeded.
    ///
    /// @param call the function's name in C
    /// @param arguments what it was called with; large numbers are shown as addresses
    public static void check(int result, String call, Object... arguments) {
        if (result != CUDA_SUCCESS) {
            throw failure(result, call, arguments);
        }
    }

    /// What [#check] throws.
    public static TelpherException.NativeFailure failure(
            int result, String call, Object... arguments) {
        return new TelpherException.NativeFailure(
                call, Math.abs(result), NativeLibrary.arguments(arguments), describe(result));
    }

    private static String text(MethodHandle function, int result) {
        // Not the scratch memory: what failed may still stand there.
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(ADDRESS);
            int told = (int) function.invokeExact(Math.abs(result), out);
            return told == CUDA_SUCCESS ? NativeLibrary.string(out.get(ADDRESS, 0)) : "";
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

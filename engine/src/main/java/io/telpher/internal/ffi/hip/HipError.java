package io.telpher.internal.ffi.hip;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Results of the runtime that callers decide by, and its own names and texts for all. The methods
/// take a `hipError_t`, or the minus `hipError_t` that a `try` method returned.
///
/// The runtime keeps a thread's last error for `hipGetLastError`, where other code of the thread
/// (PyTorch, say) looks after its own calls. So what fails here, or is only not ready, is taken
/// from there at once.
public final class HipError {
    public static final int hipSuccess = 0;
    public static final int hipErrorInvalidValue = 1;
    public static final int hipErrorOutOfMemory = 2;
    public static final int hipErrorNoDevice = 100;
    public static final int hipErrorInvalidDevice = 101;
    public static final int hipErrorNotReady = 600;
    public static final int hipErrorHostMemoryAlreadyRegistered = 712;

    private static final FunctionDescriptor TEXT = FunctionDescriptor.of(ADDRESS, JAVA_INT);

    /// `const char* hipGetErrorName(hipError_t hip_error)`
    private static final MethodHandle GET_ERROR_NAME = Hip.link(TEXT, "hipGetErrorName");

    /// `const char* hipGetErrorString(hipError_t hipError)`
    private static final MethodHandle GET_ERROR_STRING = Hip.link(TEXT, "hipGetErrorString");

    /// `hipError_t hipGetLastError(void)`
    private static final MethodHandle GET_LAST_ERROR =
            Hip.link(FunctionDescriptor.of(JAVA_INT), "hipGetLastError");

    private HipError() {}

    /// Name, number and text, such as `hipErrorNotReady (600, device not ready)`.
    public static String describe(int result) {
        int code = Math.abs(result);
        return text(GET_ERROR_NAME, code) + " (" + code + ", " + text(GET_ERROR_STRING, code) + ")";
    }

    /// Throws unless the call succeeded.
    ///
    /// @param call the function's name in C
    /// @param arguments what it was called with; large numbers are shown as addresses
    public static void check(int result, String call, Object... arguments) {
        if (result != hipSuccess) {
            throw failure(minus(result), call, arguments);
        }
    }

    /// What [#check] throws.
    public static TelpherException.NativeFailure failure(
            int result, String call, Object... arguments) {
        return new TelpherException.NativeFailure(
                call, Math.abs(result), NativeLibrary.arguments(arguments), describe(result));
    }

    /// What a `try` method returns for a result.
    static int minus(int result) {
        if (result != hipSuccess) {
            try {
                int unused = (int) GET_LAST_ERROR.invokeExact();
            } catch (Throwable t) {
                throw NativeLibrary.unexpected(t);
            }
        }
        return -result;
    }

    private static String text(MethodHandle function, int code) {
        try {
            return NativeLibrary.string((MemorySegment) function.invokeExact(code));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

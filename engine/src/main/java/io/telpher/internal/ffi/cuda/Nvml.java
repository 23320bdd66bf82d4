package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import io.telpher.spi.Availability;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;

/// NVML as a whole: opened and initialised at the first question about it, for the life of the
/// process. It sees every GPU of the machine or container, whatever `CUDA_VISIBLE_DEVICES` says,
/// and makes no context. System property `telpher.nvml.library` names another file than
/// `libnvidia-ml.so.1`.
///
/// Most of NVML depends on the GPU and the driver, so its numbers come as in a `try` method: the
/// value, or minus NVML's code. A function that this NVML lacks answers
/// [#NVML_ERROR_FUNCTION_NOT_FOUND], as NVML itself does for what its driver lacks.
public final class Nvml {
    /// The property that names the library's file.
    public static final String LIBRARY_PROPERTY = "telpher.nvml.library";

    public static final int NVML_SUCCESS = 0;
    public static final int NVML_ERROR_UNINITIALIZED = 1;
    public static final int NVML_ERROR_INVALID_ARGUMENT = 2;
    public static final int NVML_ERROR_NOT_SUPPORTED = 3;
    public static final int NVML_ERROR_NO_PERMISSION = 4;
    public static final int NVML_ERROR_NOT_FOUND = 6;
    public static final int NVML_ERROR_DRIVER_NOT_LOADED = 9;
    public static final int NVML_ERROR_FUNCTION_NOT_FOUND = 13;
    public static final int NVML_ERROR_GPU_IS_LOST = 15;
    public static final int NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18;
    public static final int NVML_ERROR_UNKNOWN = 999;

    private static final int TEXT_BYTES = 128;
    private static final NativeLibrary LIBRARY =
            NativeLibrary.open(
                    "NVML",
                    LIBRARY_PROPERTY,
                    List.of("libnvidia-ml.so.1"),
                    "install the NVIDIA driver; in a container, give it the GPUs with driver"
                            + " capability 'utility'");

    private static final FunctionDescriptor TEXT =
            FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT);
    private static final FunctionDescriptor NUMBER = FunctionDescriptor.of(JAVA_INT, ADDRESS);

    /// `nvmlReturn_t nvmlInit_v2(void)`
    private static final MethodHandle INIT = link(FunctionDescriptor.of(JAVA_INT), "nvmlInit_v2");

    /// `const char *nvmlErrorString(nvmlReturn_t result)`
    private static final MethodHandle ERROR_STRING =
            LIBRARY.link(FunctionDescriptor.of(ADDRESS, JAVA_INT), "nvmlErrorString");

    /// `nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)`
    private static final MethodHandle DRIVER_VERSION = link(TEXT, "nvmlSystemGetDriverVersion");

    /// `nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)`
    private static final MethodHandle NVML_VERSION = link(TEXT, "nvmlSystemGetNVMLVersion");

    /// `nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)`
    private static final MethodHandle CUDA_DRIVER_VERSION =
            link(NUMBER, "nvmlSystemGetCudaDriverVersion_v2");

    private Nvml() {}

    /// Whether NVML works; initialises it. Any thread, no exception.
    public static Availability availability() {
        return Started.RESULT;
    }

    /// Whether NVML has this function.
    public static boolean has(String symbol) {
        return LIBRARY.has(symbol);
    }

    /// NVML's text for a result, or for minus a result, such as `Not Supported`.
    public static String errorString(int result) {
        try {
            return NativeLibrary.string((MemorySegment) ERROR_STRING.invokeExact(Math.abs(result)));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The version of the kernel's driver, such as `580.82.07`.
    public static String driverVersion() {
        MemorySegment out = Scratch.current();
        try {
            check((int) DRIVER_VERSION.invokeExact(out, TEXT_BYTES), "nvmlSystemGetDriverVersion");
            return out.getString(0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The library's version, such as `13.580.82.07`.
    public static String version() {
        MemorySegment out = Scratch.current();
        try {
            check((int) NVML_VERSION.invokeExact(out, TEXT_BYTES), "nvmlSystemGetNVMLVersion");
            return out.getString(0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The newest CUDA version that the driver supports (1000 * major + 10 * minor), or minus
    /// NVML's code.
    public static int cudaVersion() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) CUDA_DRIVER_VERSION.invokeExact(out);
            return result == NVML_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Throws unless the call succeeded.
    static void check(int result, String call, Object... arguments) {
        if (result != NVML_SUCCESS) {
            throw new TelpherException.NativeFailure(
                    call,
                    result,
                    NativeLibrary.arguments(arguments),
                    errorString(result) + " (" + result + ")");
        }
    }

    static MethodHandle link(FunctionDescriptor descriptor, String symbol) {
        return LIBRARY.link(NVML_ERROR_FUNCTION_NOT_FOUND, descriptor, symbol);
    }

    private static Availability start() {
        if (!(LIBRARY.availability() instanceof Availability.Available(String path))) {
            return LIBRARY.availability();
        }
        int result;
        try {
            result = (int) INIT.invokeExact();
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
        if (result != NVML_SUCCESS) {
            String remedy =
                    switch (result) {
                        case NVML_ERROR_DRIVER_NOT_LOADED ->
                                "load the kernel module (modprobe nvidia); in a container, give it"
                                        + " the GPUs";
                        case NVML_ERROR_LIB_RM_VERSION_MISMATCH ->
                                "the kernel module is of another version: restart after the"
                                        + " driver's update";
                        default -> "see nvidia-smi and the kernel log";
                    };
            return new Availability.Missing(
                    "nvmlInit of " + path + " says " + errorString(result) + " (" + result + ")",
                    remedy);
        }
        return new Availability.Available("NVML " + version() + " (" + path + ")");
    }

    /// Apart, since it calls what is linked by then.
    private static final class Started {
        static final Availability RESULT = start();
    }
}

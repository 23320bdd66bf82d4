package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import io.telpher.spi.Availability;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.List;

/// The CUDA driver as a whole: opened and initialised at the first question about it, without a
/// context on any GPU. System property `telpher.cuda.library` names another file than
/// `libcuda.so.1`.
public final class Cuda {
    /// The property that names the library's file.
    public static final String LIBRARY_PROPERTY = "telpher.cuda.library";

    private static final String INSTALL =
            "install the NVIDIA driver; in a container, give it the GPUs (such as docker run --gpus"
                    + " all) with driver capability 'compute'";

    private static final NativeLibrary LIBRARY =
            NativeLibrary.open("CUDA driver", LIBRARY_PROPERTY, List.of("libcuda.so.1"), INSTALL);

    /// `CUresult cuInit(unsigned int Flags)`
    private static final MethodHandle INIT =
            link(FunctionDescriptor.of(JAVA_INT, JAVA_INT), "cuInit");

    /// `CUresult cuDriverGetVersion(int *driverVersion)`
    private static final MethodHandle DRIVER_GET_VERSION =
            link(FunctionDescriptor.of(JAVA_INT, ADDRESS), "cuDriverGetVersion");

    private Cuda() {}

    /// Whether the driver works and sees a device; initialises it. Any thread, no exception; the
    /// first call may take a second.
    public static Availability availability() {
        return Started.RESULT;
    }

    /// Whether the driver has this function.
    public static boolean has(String symbol) {
        return LIBRARY.has(symbol);
    }

    /// The newest CUDA version that the driver supports: 1000 * major + 10 * minor.
    public static int driverVersion() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) DRIVER_GET_VERSION.invokeExact(out);
            CudaError.check(result, "cuDriverGetVersion");
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    static MethodHandle link(FunctionDescriptor descriptor, String... symbols) {
        return LIBRARY.link(descriptor, symbols);
    }

    private static int init() {
        try {
            return (int) INIT.invokeExact(0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static Availability start() {
        if (!(LIBRARY.availability() instanceof Availability.Available(String path))) {
            return LIBRARY.availability();
        }
        int result = init();
        if (result != CudaError.CUDA_SUCCESS) {
            return new Availability.Missing(
                    "cuInit of " + path + " says " + CudaError.describe(result), remedy(result));
        }
        int devices = CudaDevices.count();
        int version = driverVersion();
        if (devices == 0) {
            return new Availability.Missing(
                    "the CUDA driver (" + path + ") sees no device",
                    remedy(CudaError.CUDA_ERROR_NO_DEVICE));
        }
        return new Availability.Available(
                "CUDA %d.%d (%s), %d device%s"
                        .formatted(
                                version / 1000,
                                version % 1000 / 10,
                                path,
                                devices,
                                devices == 1 ? "" : "s"));
    }

    private static String remedy(int result) {
        return switch (result) {
            case CudaError.CUDA_ERROR_NO_DEVICE ->
                    "see what nvidia-smi -L lists and whether CUDA_VISIBLE_DEVICES hides it; in a"
                            + " container, give it the GPUs";
            case CudaError.CUDA_ERROR_STUB_LIBRARY ->
                    "this is the toolkit's stub, made for linking only: take it off"
                            + " LD_LIBRARY_PATH";
            case CudaError.CUDA_ERROR_SYSTEM_NOT_READY ->
                    "start nvidia-fabricmanager and see what nvidia-smi -q says of Fabric";
            case CudaError.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
                    CudaError.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE ->
                    "libcuda is of another version than the kernel module: restart after the"
                            + " driver's update, or take the compatibility package off"
                            + " LD_LIBRARY_PATH";
            default ->
                    "see nvidia-smi and the kernel log; modprobe nvidia_uvm loads a module that"
                            + " is often missing";
        };
    }

    /// Apart, since it calls what is linked by then.
    private static final class Started {
        static final Availability RESULT = start();
    }
}

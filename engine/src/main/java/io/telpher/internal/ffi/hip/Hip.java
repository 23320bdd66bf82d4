package io.telpher.internal.ffi.hip;

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

/// The HIP runtime as a whole: opened and initialised at the first question about it. Unproven, as
/// the package says. System property `telpher.hip.library` names another file than `libamdhip64`.
public final class Hip {
    /// The property that names the library's file.
    public static final String LIBRARY_PROPERTY = "telpher.hip.library";

    private static final NativeLibrary LIBRARY =
            NativeLibrary.open(
                    "HIP runtime",
                    LIBRARY_PROPERTY,
                    List.of(
                            "libamdhip64.so.7",
                            "libamdhip64.so.6",
                            "libamdhip64.so.5",
                            "libamdhip64.so",
                            "/opt/rocm/lib/libamdhip64.so"),
                    "install ROCm (Debian: libamdhip64-5)");

    /// `hipError_t hipInit(unsigned int flags)`
    private static final MethodHandle INIT =
            link(FunctionDescriptor.of(JAVA_INT, JAVA_INT), "hipInit");

    /// `hipError_t hipRuntimeGetVersion(int* runtimeVersion)`
    private static final MethodHandle RUNTIME_GET_VERSION =
            link(FunctionDescriptor.of(JAVA_INT, ADDRESS), "hipRuntimeGetVersion");

    private Hip() {}

    /// Whether the runtime works and sees a device; initialises it. Any thread, no exception.
    public static Availability availability() {
        return Started.RESULT;
    }

    /// Whether the runtime has this function.
    public static boolean has(String symbol) {
        return LIBRARY.has(symbol);
    }

    /// The runtime's version: 10,000,000 * major + 100,000 * minor + patch, as in 50221153.
    public static int runtimeVersion() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) RUNTIME_GET_VERSION.invokeExact(out);
            HipError.check(result, "hipRuntimeGetVersion");
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    static MethodHandle link(FunctionDescriptor descriptor, String symbol) {
        return LIBRARY.link(descriptor, symbol);
    }

    private static Availability start() {
        if (!(LIBRARY.availability() instanceof Availability.Available(String path))) {
            return LIBRARY.availability();
        }
        try {
            // ROCm 5 answers "invalid device" where there is none at all: the count tells better.
            int result = (int) INIT.invokeExact(0);
            int devices = HipDevices.tryCount();
            if (devices <= 0) {
                String said =
                        devices == 0 || devices == -HipError.hipErrorNoDevice
                                ? "sees no device"
                                : "says "
                                        + HipError.describe(
                                                result == HipError.hipSuccess ? devices : result);
                return new Availability.Missing(
                        "the HIP runtime (" + path + ") " + said,
                        "see rocminfo and whether this user may open /dev/kfd and /dev/dri");
            }
            int version = runtimeVersion();
            return new Availability.Available(
                    "HIP %d.%d (%s), %d device%s"
                            .formatted(
                                    version / 10_000_000,
                                    version / 100_000 % 100,
                                    path,
                                    devices,
                                    devices == 1 ? "" : "s"));
        } catch (TelpherException e) {
            return new Availability.Missing(
                    "the HIP runtime (" + path + ") fails: " + e.getMessage(), "see rocminfo");
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Apart, since it calls what is linked by then.
    private static final class Started {
        static final Availability RESULT = start();
    }
}

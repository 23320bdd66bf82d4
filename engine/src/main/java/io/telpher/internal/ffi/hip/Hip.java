package io.telpher.internal.ffi.hip;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import io.telpher.spi.Availability;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteOrder;
import java.util.List;
import java.util.UUID;

/// The HIP runtime: opened and initialised at the first question about it. Unproven, as the package
/// says.
public final class Hip {
    /// The property that names the library's file.
    public static final String LIBRARY_PROPERTY = "telpher.hip.library";

    public static final int hipSuccess = 0;
    public static final int hipErrorNoDevice = 100;
    public static final int hipErrorInvalidDevice = 101;

    private static final int PCI_BUS_ID_BYTES = 32;
    private static final ValueLayout.OfLong BIG_ENDIAN_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

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

    private static final FunctionDescriptor NUMBER = FunctionDescriptor.of(JAVA_INT, ADDRESS);
    private static final FunctionDescriptor ERROR_TEXT = FunctionDescriptor.of(ADDRESS, JAVA_INT);

    /// `hipError_t hipInit(unsigned int flags)`
    private static final MethodHandle INIT =
            link(FunctionDescriptor.of(JAVA_INT, JAVA_INT), "hipInit");

    /// `hipError_t hipRuntimeGetVersion(int *runtimeVersion)`
    private static final MethodHandle RUNTIME_GET_VERSION = link(NUMBER, "hipRuntimeGetVersion");

    /// `hipError_t hipGetDeviceCount(int *count)`
    private static final MethodHandle GET_DEVICE_COUNT = link(NUMBER, "hipGetDeviceCount");

    /// `hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device)`: ROCm 5.1 and later
    private static final MethodHandle DEVICE_GET_UUID =
            link(FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT), "hipDeviceGetUuid");

    /// `hipError_t hipDeviceGetPCIBusId(char *pciBusId, int len, int device)`
    private static final MethodHandle DEVICE_GET_PCI_BUS_ID =
            link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT),
                    "hipDeviceGetPCIBusId");

    /// `const char *hipGetErrorName(hipError_t hip_error)`
    private static final MethodHandle GET_ERROR_NAME = link(ERROR_TEXT, "hipGetErrorName");

    /// `const char *hipGetErrorString(hipError_t hipError)`
    private static final MethodHandle GET_ERROR_STRING = link(ERROR_TEXT, "hipGetErrorString");

    private Hip() {}

    /// Whether the runtime works and sees a device. Any thread, no exception.
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
            check((int) RUNTIME_GET_VERSION.invokeExact(out), "hipRuntimeGetVersion");
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// How many devices this process sees, or minus the runtime's code: without hardware it is
    /// [#hipErrorNoDevice].
    public static int tryDeviceCount() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_DEVICE_COUNT.invokeExact(out);
            return result == hipSuccess ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The device's identity: sixteen bytes of the driver.
    public static UUID uuid(int device) {
        MemorySegment out = Scratch.current();
        try {
            check((int) DEVICE_GET_UUID.invokeExact(out, device), "hipDeviceGetUuid", device);
            return new UUID(out.get(BIG_ENDIAN_LONG, 0), out.get(BIG_ENDIAN_LONG, 8));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The PCI address, such as `0000:03:00.0`.
    public static String pciBusId(int device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) DEVICE_GET_PCI_BUS_ID.invokeExact(out, PCI_BUS_ID_BYTES, device);
            check(result, "hipDeviceGetPCIBusId", device);
            return out.getString(0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Name, number and text of a result, or of minus a result.
    public static String describe(int result) {
        int code = Math.abs(result);
        return text(GET_ERROR_NAME, code) + " (" + code + ", " + text(GET_ERROR_STRING, code) + ")";
    }

    private static String text(MethodHandle function, int code) {
        try {
            return NativeLibrary.string((MemorySegment) function.invokeExact(code));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static void check(int result, String call, Object... arguments) {
        if (result != hipSuccess) {
            throw new TelpherException.NativeFailure(
                    NativeLibrary.call(call, arguments), result, describe(result));
        }
    }

    private static MethodHandle link(FunctionDescriptor descriptor, String symbol) {
        return LIBRARY.link(descriptor, symbol);
    }

    private static Availability start() {
        if (!(LIBRARY.availability() instanceof Availability.Available(String path))) {
            return LIBRARY.availability();
        }
        try {
            // ROCm 5 answers "invalid device" where there is none at all: the count tells better.
            int result = (int) INIT.invokeExact(0);
            int devices = tryDeviceCount();
            if (devices <= 0) {
                String said =
                        devices == 0 || devices == -hipErrorNoDevice
                                ? "sees no device"
                                : "says " + describe(result == hipSuccess ? devices : result);
                return new Availability.Missing(
                        "the HIP runtime (" + path + ") " + said,
                        "see rocminfo and whether this user may open /dev/kfd and /dev/dri");
            }
            return new Availability.Available(
                    "HIP " + runtimeVersion() + " (" + path + "), " + devices + " devices");
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Apart, since it calls what is linked by then.
    private static final class Started {
        static final Availability RESULT = start();
    }
}

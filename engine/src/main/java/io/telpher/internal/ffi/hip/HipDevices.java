package io.telpher.internal.ffi.hip;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteOrder;
import java.util.UUID;

/// The devices that this process sees (`HIP_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES`), numbered
/// from 0, and which of them is the calling thread's.
public final class HipDevices {
    private static final int NAME_BYTES = 256;
    private static final int PCI_BUS_ID_BYTES = 32;
    private static final ValueLayout.OfLong BIG_ENDIAN_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private static final FunctionDescriptor NUMBER = FunctionDescriptor.of(JAVA_INT, ADDRESS);
    private static final FunctionDescriptor TEXT =
            FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT);

    /// `hipError_t hipGetDeviceCount(int* count)`
    private static final MethodHandle GET_DEVICE_COUNT = Hip.link(NUMBER, "hipGetDeviceCount");

    /// `hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device)`: ROCm 5.1 and later
    private static final MethodHandle DEVICE_GET_UUID =
            Hip.link(FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT), "hipDeviceGetUuid");

    /// `hipError_t hipDeviceGetPCIBusId(char* pciBusId, int len, int device)`
    private static final MethodHandle DEVICE_GET_PCI_BUS_ID =
            Hip.link(TEXT, "hipDeviceGetPCIBusId");

    /// `hipError_t hipDeviceGetName(char* name, int len, hipDevice_t device)`
    private static final MethodHandle DEVICE_GET_NAME = Hip.link(TEXT, "hipDeviceGetName");

    /// `hipError_t hipGetDevice(int* deviceId)`
    private static final MethodHandle GET_DEVICE = Hip.link(NUMBER, "hipGetDevice");

    /// `hipError_t hipSetDevice(int deviceId)`
    private static final MethodHandle SET_DEVICE =
            Hip.link(FunctionDescriptor.of(JAVA_INT, JAVA_INT), "hipSetDevice");

    private HipDevices() {}

    /// How many devices this process sees, or minus the runtime's code: without hardware it is
    /// [HipError#hipErrorNoDevice].
    public static int tryCount() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_DEVICE_COUNT.invokeExact(out);
            return result == HipError.hipSuccess ? out.get(JAVA_INT, 0) : HipError.minus(result);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The device's sixteen bytes: hexadecimal digits, as behind `GPU-` in `rocminfo`. Products
    /// that have no identity all have the same.
    public static UUID uuid(int device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) DEVICE_GET_UUID.invokeExact(out, device);
            HipError.check(result, "hipDeviceGetUuid", device);
            return new UUID(out.get(BIG_ENDIAN_LONG, 0), out.get(BIG_ENDIAN_LONG, 8));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The PCI address, such as `0000:03:00.0`.
    public static String pciBusId(int device) {
        return text(DEVICE_GET_PCI_BUS_ID, "hipDeviceGetPCIBusId", PCI_BUS_ID_BYTES, device);
    }

    /// The product's name.
    public static String name(int device) {
        return text(DEVICE_GET_NAME, "hipDeviceGetName", NAME_BYTES, device);
    }

    /// The calling thread's device: what allocations and new streams belong to.
    public static int current() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_DEVICE.invokeExact(out);
            if (result != HipError.hipSuccess) {
                HipError.check(result, "hipGetDevice");
            }
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Makes a device the calling thread's.
    public static void setCurrent(int device) {
        try {
            int result = (int) SET_DEVICE.invokeExact(device);
            if (result != HipError.hipSuccess) {
                HipError.check(result, "hipSetDevice", device);
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static String text(MethodHandle function, String call, int capacity, int device) {
        MemorySegment out = Scratch.current().asSlice(0, capacity);
        try {
            int result = (int) function.invokeExact(out, capacity, device);
            HipError.check(result, call, device);
            return out.getString(0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

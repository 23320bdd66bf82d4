package io.telpher.internal.ffi.hip;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/// Device memory of `hipMalloc`, page-locked host memory, and what the runtime knows of an address.
public final class HipMemory {
    public static final int hipHostRegisterPortable = 1;

    public static final int HIP_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;
    public static final int HIP_POINTER_ATTRIBUTE_BUFFER_ID = 7;
    public static final int HIP_POINTER_ATTRIBUTE_IS_MANAGED = 8;
    public static final int HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9;
    public static final int HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11;
    public static final int HIP_POINTER_ATTRIBUTE_RANGE_SIZE = 12;

    /// The first version whose memory types are as CUDA's: all are one more than before.
    private static final int CUDA_TYPES_VERSION = 60_000_000;

    private static final FunctionDescriptor OF_ADDRESS = FunctionDescriptor.of(JAVA_INT, JAVA_LONG);

    /// `hipError_t hipMalloc(void** ptr, size_t size)`
    private static final MethodHandle MALLOC =
            Hip.link(FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG), "hipMalloc");

    /// `hipError_t hipFree(void* ptr)`
    private static final MethodHandle FREE = Hip.link(OF_ADDRESS, "hipFree");

    /// `hipError_t hipHostRegister(void* hostPtr, size_t sizeBytes, unsigned int flags)`
    private static final MethodHandle HOST_REGISTER =
            Hip.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT),
                    "hipHostRegister");

    /// `hipError_t hipHostUnregister(void* hostPtr)`
    private static final MethodHandle HOST_UNREGISTER = Hip.link(OF_ADDRESS, "hipHostUnregister");

    /// `hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute,
    /// hipDeviceptr_t ptr)`: ROCm 5.0 and later
    private static final MethodHandle POINTER_GET_ATTRIBUTE =
            Hip.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_LONG),
                    "hipPointerGetAttribute");

    private HipMemory() {}

    /// Whose memory an address is.
    public enum Type {
        HOST,
        DEVICE,
        OTHER
    }

    /// What the runtime knows of an address.
    ///
    /// @param type where it lies
    /// @param managed whether it moves between host and devices by itself
    /// @param device the number of the device that it was allocated or registered on
    /// @param base where the allocation begins
    /// @param bytes its size
    /// @param bufferId another for each allocation of the process's life; 0 where there is none
    public record Attributes(
            Type type, boolean managed, int device, long base, long bytes, long bufferId) {}

    /// Allocates on the calling thread's device.
    public static long malloc(long bytes) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) MALLOC.invokeExact(out, bytes);
            HipError.check(result, "hipMalloc", bytes);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Frees what [#malloc] gave. Waits for work on the device.
    public static void free(long address) {
        try {
            HipError.check((int) FREE.invokeExact(address), "hipFree", address);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Page-locks host memory, which must stay mapped until [#hostUnregister]. Returns 0 or minus
    /// the runtime's code.
    public static int tryHostRegister(long address, long bytes, int flags) {
        try {
            return HipError.minus((int) HOST_REGISTER.invokeExact(address, bytes, flags));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Takes back [#tryHostRegister].
    public static void hostUnregister(long address) {
        try {
            int result = (int) HOST_UNREGISTER.invokeExact(address);
            HipError.check(result, "hipHostUnregister", address);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// What the runtime knows of an address, or null: ordinary host memory, or nothing.
    public static @Nullable Attributes describe(long address) {
        MemorySegment out = Scratch.current();
        // The runtime writes as many bytes as the attribute has: one, four or eight.
        out.set(JAVA_LONG, 0, 0);
        int known = tryAttribute(out, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
        if (known == -HipError.hipErrorInvalidValue) {
            return null;
        }
        HipError.check(
                -known, "hipPointerGetAttribute", HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
        int number = out.get(JAVA_INT, 0) - (Hip.runtimeVersion() >= CUDA_TYPES_VERSION ? 1 : 0);
        if (number < 0) {
            return null;
        }
        return new Attributes(
                number == 0 ? Type.HOST : number == 1 ? Type.DEVICE : Type.OTHER,
                attribute(HIP_POINTER_ATTRIBUTE_IS_MANAGED, address) != 0,
                (int) attribute(HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address),
                attribute(HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR, address),
                attribute(HIP_POINTER_ATTRIBUTE_RANGE_SIZE, address),
                attribute(HIP_POINTER_ATTRIBUTE_BUFFER_ID, address));
    }

    private static long attribute(int attribute, long address) {
        MemorySegment out = Scratch.current();
        out.set(JAVA_LONG, 0, 0);
        int known = tryAttribute(out, attribute, address);
        HipError.check(-known, "hipPointerGetAttribute", attribute, address);
        return out.get(JAVA_LONG, 0);
    }

    private static int tryAttribute(MemorySegment out, int attribute, long address) {
        try {
            return HipError.minus((int) POINTER_GET_ATTRIBUTE.invokeExact(out, attribute, address));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

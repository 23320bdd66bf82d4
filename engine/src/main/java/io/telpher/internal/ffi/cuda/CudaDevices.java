package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.ByteOrder;
import java.util.UUID;

/// The devices that this process may see (`CUDA_VISIBLE_DEVICES`), and what they can do. Asking
/// makes no context.
public final class CudaDevices {
    public static final int CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16;
    public static final int CU_DEVICE_ATTRIBUTE_INTEGRATED = 18;
    public static final int CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33;
    public static final int CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34;
    public static final int CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40;
    public static final int CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41;
    public static final int CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50;
    public static final int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75;
    public static final int CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76;
    public static final int CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83;
    public static final int CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED = 86;
    public static final int CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88;
    public static final int CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91;
    public static final int CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES = 98;
    public static final int CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99;
    public static final int CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102;
    public static final int CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103;
    public static final int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110;
    public static final int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED = 116;
    public static final int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117;
    public static final int CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING = 118;
    public static final int CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS = 122;
    public static final int CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED = 124;
    public static final int CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED = 125;
    public static final int CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED = 128;
    public static final int CU_DEVICE_ATTRIBUTE_NUMA_ID = 131;
    public static final int CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID = 134;

    public static final int CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1;
    public static final int CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 2;
    public static final int CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3;

    private static final int NAME_BYTES = 256;
    private static final int PCI_BUS_ID_BYTES = 32;
    private static final ValueLayout.OfLong BIG_ENDIAN_LONG =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.BIG_ENDIAN);

    private static final FunctionDescriptor TEXT =
            FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT);
    private static final FunctionDescriptor OF_DEVICE =
            FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT);

    /// `CUresult cuDeviceGetCount(int *count)`
    private static final MethodHandle GET_COUNT =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, ADDRESS), "cuDeviceGetCount");

    /// `CUresult cuDeviceGet(CUdevice *device, int ordinal)`
    private static final MethodHandle GET = Cuda.link(OF_DEVICE, "cuDeviceGet");

    /// `CUresult cuDeviceGetName(char *name, int len, CUdevice dev)`
    private static final MethodHandle GET_NAME = Cuda.link(TEXT, "cuDeviceGetName");

    /// `CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)`: unlike the first version it tells
    /// MIG instances apart
    private static final MethodHandle GET_UUID =
            Cuda.link(OF_DEVICE, "cuDeviceGetUuid_v2", "cuDeviceGetUuid");

    /// `CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)`
    private static final MethodHandle GET_ATTRIBUTE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT),
                    "cuDeviceGetAttribute");

    /// `CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)`
    private static final MethodHandle GET_PCI_BUS_ID = Cuda.link(TEXT, "cuDeviceGetPCIBusId");

    /// `CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)`
    private static final MethodHandle GET_BY_PCI_BUS_ID =
            Cuda.link(FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS), "cuDeviceGetByPCIBusId");

    /// `CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)`
    private static final MethodHandle TOTAL_MEM = Cuda.link(OF_DEVICE, "cuDeviceTotalMem_v2");

    /// `CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)`
    private static final MethodHandle CAN_ACCESS_PEER =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT),
                    "cuDeviceCanAccessPeer");

    /// `CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice
    /// srcDevice, CUdevice dstDevice)`
    private static final MethodHandle GET_P2P_ATTRIBUTE =
            Cuda.link(
                    FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT, JAVA_INT),
                    "cuDeviceGetP2PAttribute");

    private CudaDevices() {}

    /// How many devices this process sees. Their ordinals say nothing to another process.
    public static int count() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_COUNT.invokeExact(out);
            CudaError.check(result, "cuDeviceGetCount");
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The device with this ordinal.
    public static int get(int ordinal) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET.invokeExact(out, ordinal);
            CudaError.check(result, "cuDeviceGet", ordinal);
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    public static String name(int device) {
        return text(GET_NAME, "cuDeviceGetName", NAME_BYTES, device);
    }

    /// The device's identity on every machine and in every process: of the GPU, or of the MIG
    /// instance. NVML and `CUDA_VISIBLE_DEVICES` write it with `GPU-` or `MIG-` in front.
    public static UUID uuid(int device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_UUID.invokeExact(out, device);
            CudaError.check(result, "cuDeviceGetUuid", device);
            return new UUID(out.get(BIG_ENDIAN_LONG, 0), out.get(BIG_ENDIAN_LONG, 8));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The value of a `CU_DEVICE_ATTRIBUTE_`.
    public static int attribute(int device, int attribute) {
        int value = tryAttribute(device, attribute);
        if (value < 0) {
            throw CudaError.failure(value, "cuDeviceGetAttribute", attribute, device);
        }
        return value;
    }

    /// The value, or minus the driver's code: older drivers do not know newer attributes. A
    /// negative value, which only the NUMA node of a machine without such has, counts as
    /// `CUDA_ERROR_INVALID_VALUE` too.
    public static int tryAttribute(int device, int attribute) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_ATTRIBUTE.invokeExact(out, attribute, device);
            if (result != CudaError.CUDA_SUCCESS) {
                return -result;
            }
            int value = out.get(JAVA_INT, 0);
            return value < 0 ? -CudaError.CUDA_ERROR_INVALID_VALUE : value;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The PCI address, such as `0000:1B:00.0`.
    public static String pciBusId(int device) {
        return text(GET_PCI_BUS_ID, "cuDeviceGetPCIBusId", PCI_BUS_ID_BYTES, device);
    }

    /// The device with this PCI address, or minus the driver's code when this process sees none.
    public static int tryGetByPciBusId(String pciBusId) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(JAVA_INT);
            int result = (int) GET_BY_PCI_BUS_ID.invokeExact(out, arena.allocateFrom(pciBusId));
            return result == CudaError.CUDA_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Bytes of memory.
    public static long totalMemory(int device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) TOTAL_MEM.invokeExact(out, device);
            CudaError.check(result, "cuDeviceTotalMem", device);
            return out.get(JAVA_LONG, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Whether contexts of `device` can map memory of `peer`. A claim of the driver, not a proof:
    /// on machines with a translating IOMMU it is known to be wrong.
    public static boolean canAccessPeer(int device, int peer) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) CAN_ACCESS_PEER.invokeExact(out, device, peer);
            CudaError.check(result, "cuDeviceCanAccessPeer", device, peer);
            return out.get(JAVA_INT, 0) != 0;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The value of a `CU_DEVICE_P2P_ATTRIBUTE_` of a link between two different devices.
    public static int peerAttribute(int attribute, int from, int to) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) GET_P2P_ATTRIBUTE.invokeExact(out, attribute, from, to);
            CudaError.check(result, "cuDeviceGetP2PAttribute", attribute, from, to);
            return out.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static String text(MethodHandle function, String call, int capacity, int device) {
        MemorySegment out = Scratch.current().asSlice(0, capacity);
        try {
            int result = (int) function.invokeExact(out, capacity, device);
            CudaError.check(result, call, device);
            return out.getString(0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

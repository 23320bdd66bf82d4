package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/// GPUs and MIG instances as NVML knows them. Handles are `long`s, good for the life of the
/// process. Numbers are the value, or minus NVML's code.
public final class NvmlDevices {
    public static final int NVML_TOPOLOGY_INTERNAL = 0;
    public static final int NVML_TOPOLOGY_SINGLE = 10;
    public static final int NVML_TOPOLOGY_MULTIPLE = 20;
    public static final int NVML_TOPOLOGY_HOSTBRIDGE = 30;
    public static final int NVML_TOPOLOGY_NODE = 40;
    public static final int NVML_TOPOLOGY_SYSTEM = 50;

    public static final int NVML_P2P_CAPS_INDEX_READ = 0;
    public static final int NVML_P2P_CAPS_INDEX_WRITE = 1;
    public static final int NVML_P2P_CAPS_INDEX_NVLINK = 2;
    public static final int NVML_P2P_CAPS_INDEX_ATOMICS = 3;
    public static final int NVML_P2P_CAPS_INDEX_PCI = 4;

    public static final int NVML_P2P_STATUS_OK = 0;
    public static final int NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1;
    public static final int NVML_P2P_STATUS_GPU_NOT_SUPPORTED = 2;
    public static final int NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED = 3;
    public static final int NVML_P2P_STATUS_DISABLED_BY_REGKEY = 4;
    public static final int NVML_P2P_STATUS_NOT_SUPPORTED = 5;
    public static final int NVML_P2P_STATUS_UNKNOWN = 6;

    public static final int NVML_GPU_FABRIC_STATE_NOT_SUPPORTED = 0;
    public static final int NVML_GPU_FABRIC_STATE_NOT_STARTED = 1;
    public static final int NVML_GPU_FABRIC_STATE_IN_PROGRESS = 2;
    public static final int NVML_GPU_FABRIC_STATE_COMPLETED = 3;

    public static final int NVML_FI_DEV_C2C_LINK_COUNT = 170;
    public static final int NVML_FI_DEV_C2C_LINK_GET_STATUS = 171;
    public static final int NVML_FI_DEV_C2C_LINK_GET_MAX_BW = 172;

    /// ```text
    /// nvmlPciInfo_t: 0 busIdLegacy (16)   16 domain   20 bus   24 device   28 pciDeviceId
    /// 32 pciSubSystemId   36 busId (32)   68 end
    /// nvmlBAR1Memory_t: 0 bar1Total (8)   8 bar1Free (8)   16 bar1Used (8)   24 end
    /// nvmlGpuFabricInfo_v2_t: 0 version   4 clusterUuid (16)   20 status   24 cliqueId
    /// 28 state (1)   32 healthMask   36 end
    /// nvmlFieldValue_t: 0 fieldId   4 scopeId   8 timestamp (8)   16 latencyUsec (8)
    /// 24 valueType   28 nvmlReturn   32 value (8)   40 end
    /// ```
    static final int PCI_BYTES = 68;

    static final int PCI_BUS_ID = 36;

    static final int BAR1_BYTES = 24;
    static final int BAR1_TOTAL = 0;
    static final int BAR1_FREE = 8;
    static final int BAR1_USED = 16;

    static final int FABRIC_BYTES = 36;
    static final int FABRIC_VERSION = 0;
    static final int FABRIC_CLUSTER_UUID = 4;
    static final int FABRIC_STATUS = 20;
    static final int FABRIC_CLIQUE_ID = 24;
    static final int FABRIC_STATE = 28;
    static final int FABRIC_HEALTH_MASK = 32;

    /// The size of the structure with the number of its version above it
    static final int FABRIC_V2 = FABRIC_BYTES | 2 << 24;

    static final int FIELD_BYTES = 40;
    static final int FIELD_ID = 0;
    static final int FIELD_SCOPE_ID = 4;
    static final int FIELD_VALUE_TYPE = 24;
    static final int FIELD_RETURN = 28;
    static final int FIELD_VALUE = 32;

    static final int NVML_VALUE_TYPE_DOUBLE = 0;
    static final int NVML_VALUE_TYPE_UNSIGNED_INT = 1;
    static final int NVML_VALUE_TYPE_SIGNED_INT = 5;
    static final int NVML_VALUE_TYPE_UNSIGNED_SHORT = 6;

    private static final int TEXT_BYTES = 128;
    private static final int CLUSTER_UUID_BYTES = 16;

    private static final FunctionDescriptor NUMBER =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS);
    private static final FunctionDescriptor BY_NAME =
            FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS);
    private static final FunctionDescriptor TEXT =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS, JAVA_INT);
    private static final FunctionDescriptor TWO_NUMBERS =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS, JAVA_LONG);

    /// `nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)`
    private static final MethodHandle COUNT =
            Nvml.link(FunctionDescriptor.of(JAVA_INT, ADDRESS), "nvmlDeviceGetCount_v2");

    /// `nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)`
    private static final MethodHandle BY_INDEX =
            Nvml.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS),
                    "nvmlDeviceGetHandleByIndex_v2");

    /// `nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)`
    private static final MethodHandle BY_UUID = Nvml.link(BY_NAME, "nvmlDeviceGetHandleByUUID");

    /// `nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)`
    private static final MethodHandle BY_PCI_BUS_ID =
            Nvml.link(BY_NAME, "nvmlDeviceGetHandleByPciBusId_v2");

    /// `nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)`
    private static final MethodHandle UUID = Nvml.link(TEXT, "nvmlDeviceGetUUID");

    /// `nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)`
    private static final MethodHandle NAME = Nvml.link(TEXT, "nvmlDeviceGetName");

    /// `nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)`
    private static final MethodHandle PCI_INFO = Nvml.link(NUMBER, "nvmlDeviceGetPciInfo_v3");

    /// `nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minorNumber)`
    private static final MethodHandle MINOR_NUMBER = Nvml.link(NUMBER, "nvmlDeviceGetMinorNumber");

    /// `nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int
    /// *currLinkGen)`
    private static final MethodHandle PCIE_GENERATION =
            Nvml.link(NUMBER, "nvmlDeviceGetCurrPcieLinkGeneration");

    /// `nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int
    /// *currLinkWidth)`
    private static final MethodHandle PCIE_WIDTH =
            Nvml.link(NUMBER, "nvmlDeviceGetCurrPcieLinkWidth");

    /// `nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int
    /// *maxLinkGen)`
    private static final MethodHandle PCIE_MAX_GENERATION =
            Nvml.link(NUMBER, "nvmlDeviceGetMaxPcieLinkGeneration");

    /// `nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int
    /// *maxLinkWidth)`
    private static final MethodHandle PCIE_MAX_WIDTH =
            Nvml.link(NUMBER, "nvmlDeviceGetMaxPcieLinkWidth");

    /// `nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t
    /// device2, nvmlGpuTopologyLevel_t *pathInfo)`
    private static final MethodHandle COMMON_ANCESTOR =
            Nvml.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, ADDRESS),
                    "nvmlDeviceGetTopologyCommonAncestor");

    /// `nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
    /// nvmlGpuP2PCapsIndex_t p2pIndex, nvmlGpuP2PStatus_t *p2pStatus)`
    private static final MethodHandle P2P_STATUS =
            Nvml.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT, ADDRESS),
                    "nvmlDeviceGetP2PStatus");

    /// `nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t
    /// *bar1Memory)`
    private static final MethodHandle BAR1 = Nvml.link(NUMBER, "nvmlDeviceGetBAR1MemoryInfo");

    /// `nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current,
    /// nvmlEnableState_t *pending)`
    private static final MethodHandle ECC_MODE = Nvml.link(TWO_NUMBERS, "nvmlDeviceGetEccMode");

    /// `nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode, unsigned
    /// int *pendingMode)`
    private static final MethodHandle MIG_MODE = Nvml.link(TWO_NUMBERS, "nvmlDeviceGetMigMode");

    /// `nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)`
    private static final MethodHandle MAX_MIG_COUNT =
            Nvml.link(NUMBER, "nvmlDeviceGetMaxMigDeviceCount");

    /// `nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
    /// nvmlDevice_t *migDevice)`
    private static final MethodHandle MIG_BY_INDEX =
            Nvml.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, ADDRESS),
                    "nvmlDeviceGetMigDeviceHandleByIndex");

    /// `nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice,
    /// nvmlDevice_t *device)`
    private static final MethodHandle MIG_PARENT =
            Nvml.link(NUMBER, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");

    /// `nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int
    /// *minor)`
    private static final MethodHandle COMPUTE_CAPABILITY =
            Nvml.link(TWO_NUMBERS, "nvmlDeviceGetCudaComputeCapability");

    /// `nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t
    /// *gpuFabricInfo)`
    private static final MethodHandle FABRIC_INFO =
            Nvml.link(NUMBER, "nvmlDeviceGetGpuFabricInfoV");

    /// `nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
    /// nvmlFieldValue_t *values)`
    private static final MethodHandle FIELD_VALUES =
            Nvml.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, ADDRESS),
                    "nvmlDeviceGetFieldValues");

    private NvmlDevices() {}

    /// The window of the GPU's memory that PCIe devices reach.
    ///
    /// @param total its bytes; as large as the memory where the BAR is resizable
    /// @param free not in use
    /// @param used in use
    public record Bar1(long total, long free, long used) {}

    /// The GPU's part in a fabric of NVSwitches.
    ///
    /// @param clusterUuid 32 hexadecimal digits: GPUs with the same cluster and clique reach each
    ///     other
    /// @param status NVML's code of the last registration, 0 when it went well
    /// @param cliqueId the clique
    /// @param state a `NVML_GPU_FABRIC_STATE_`
    /// @param healthMask `NVML_GPU_FABRIC_HEALTH_MASK_` fields
    public record Fabric(String clusterUuid, int status, int cliqueId, int state, int healthMask) {}

    public static int count() {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) COUNT.invokeExact(out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The GPU at this index, which other processes and CUDA count differently, or minus NVML's
    /// code ([Nvml#NVML_ERROR_NO_PERMISSION] for one that the container does not have).
    public static long byIndex(int index) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) BY_INDEX.invokeExact(index, out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The GPU or MIG instance with this UUID, `GPU-` or `MIG-` in front.
    public static long byUuid(String uuid) {
        return byName(BY_UUID, uuid);
    }

    /// The GPU with this PCI address, such as `0000:1b:00.0`.
    public static long byPciBusId(String pciBusId) {
        return byName(BY_PCI_BUS_ID, pciBusId);
    }

    /// The UUID, `GPU-` or `MIG-` in front.
    public static String uuid(long device) {
        return text(UUID, "nvmlDeviceGetUUID", device);
    }

    /// The product's name.
    public static String name(long device) {
        return text(NAME, "nvmlDeviceGetName", device);
    }

    /// The PCI address, such as `00000000:1B:00.0`: four more digits of domain than in sysfs.
    public static String pciBusId(long device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) PCI_INFO.invokeExact(device, out);
            Nvml.check(result, "nvmlDeviceGetPciInfo", device);
            return out.getString(PCI_BUS_ID);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The number N of `/dev/nvidiaN`.
    public static int minorNumber(long device) {
        return number(MINOR_NUMBER, device);
    }

    /// The PCIe generation of now: links of idle GPUs are slowed down.
    public static int pcieGeneration(long device) {
        return number(PCIE_GENERATION, device);
    }

    /// The lanes of now.
    public static int pcieWidth(long device) {
        return number(PCIE_WIDTH, device);
    }

    /// The generation that GPU and slot together allow.
    public static int pcieMaxGeneration(long device) {
        return number(PCIE_MAX_GENERATION, device);
    }

    /// The lanes that GPU and slot together allow.
    public static int pcieMaxWidth(long device) {
        return number(PCIE_MAX_WIDTH, device);
    }

    /// How far up two GPUs meet: a `NVML_TOPOLOGY_` value.
    public static int commonAncestor(long device, long other) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) COMMON_ANCESTOR.invokeExact(device, other, out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Whether `device` can do what `capability` (`NVML_P2P_CAPS_INDEX_`) says with `other`: a
    /// `NVML_P2P_STATUS_`.
    public static int peerStatus(long device, long other, int capability) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) P2P_STATUS.invokeExact(device, other, capability, out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The BAR1 window, or null where the GPU has none to tell of (a MIG instance, an integrated
    /// GPU).
    public static @Nullable Bar1 bar1(long device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) BAR1.invokeExact(device, out);
            return result != Nvml.NVML_SUCCESS
                    ? null
                    : new Bar1(
                            out.get(JAVA_LONG, BAR1_TOTAL),
                            out.get(JAVA_LONG, BAR1_FREE),
                            out.get(JAVA_LONG, BAR1_USED));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// 1 when memory errors are corrected, 0 when not.
    public static int eccMode(long device) {
        return firstOfTwo(ECC_MODE, device);
    }

    /// 1 when the GPU is divided into MIG instances, 0 when not.
    public static int migMode(long device) {
        return firstOfTwo(MIG_MODE, device);
    }

    /// How many MIG instances there may be at most; not every index below has one.
    public static int maxMigCount(long device) {
        return number(MAX_MIG_COUNT, device);
    }

    /// The MIG instance at this index, or minus NVML's code.
    public static long migByIndex(long device, int index) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) MIG_BY_INDEX.invokeExact(device, index, out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The GPU that a MIG instance is part of, or minus NVML's code.
    public static long migParent(long mig) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) MIG_PARENT.invokeExact(mig, out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The compute capability, 10 * major + minor, such as 90.
    public static int computeCapability(long device) {
        int major = firstOfTwo(COMPUTE_CAPABILITY, device);
        return major < 0 ? major : 10 * major + Scratch.current().get(JAVA_INT, 4);
    }

    /// The part in a fabric, or null where this NVML or GPU knows of none.
    public static @Nullable Fabric fabric(long device) {
        MemorySegment out = Scratch.current();
        out.asSlice(0, FABRIC_BYTES).fill((byte) 0);
        out.set(JAVA_INT, FABRIC_VERSION, FABRIC_V2);
        try {
            int result = (int) FABRIC_INFO.invokeExact(device, out);
            if (result != Nvml.NVML_SUCCESS) {
                return null;
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
        StringBuilder cluster = new StringBuilder();
        for (int i = 0; i < CLUSTER_UUID_BYTES; i++) {
            cluster.append("%02x".formatted(out.get(JAVA_BYTE, FABRIC_CLUSTER_UUID + i)));
        }
        return new Fabric(
                cluster.toString(),
                out.get(JAVA_INT, FABRIC_STATUS),
                out.get(JAVA_INT, FABRIC_CLIQUE_ID),
                out.get(JAVA_BYTE, FABRIC_STATE),
                out.get(JAVA_INT, FABRIC_HEALTH_MASK));
    }

    /// One of NVML's fields, `scope` a link's number where it is one of links. Fields of floating
    /// point are cut off.
    public static long field(long device, int field, int scope) {
        MemorySegment value = Scratch.current();
        value.asSlice(0, FIELD_BYTES).fill((byte) 0);
        value.set(JAVA_INT, FIELD_ID, field);
        value.set(JAVA_INT, FIELD_SCOPE_ID, scope);
        try {
            int result = (int) FIELD_VALUES.invokeExact(device, 1, value);
            int told = result == Nvml.NVML_SUCCESS ? value.get(JAVA_INT, FIELD_RETURN) : result;
            if (told != Nvml.NVML_SUCCESS) {
                return -told;
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
        long bits = value.get(JAVA_LONG, FIELD_VALUE);
        return switch (value.get(JAVA_INT, FIELD_VALUE_TYPE)) {
            case NVML_VALUE_TYPE_DOUBLE -> (long) Double.longBitsToDouble(bits);
            case NVML_VALUE_TYPE_UNSIGNED_INT -> bits & 0xffff_ffffL;
            case NVML_VALUE_TYPE_SIGNED_INT -> (int) bits;
            case NVML_VALUE_TYPE_UNSIGNED_SHORT -> bits & 0xffff;
            default -> bits;
        };
    }

    private static long byName(MethodHandle function, String name) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(JAVA_LONG);
            int result = (int) function.invokeExact(arena.allocateFrom(name), out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static String text(MethodHandle function, String call, long device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) function.invokeExact(device, out, TEXT_BYTES);
            Nvml.check(result, call, device);
            return out.getString(0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static int number(MethodHandle function, long device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) function.invokeExact(device, out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Leaves the second number four bytes behind the first in the scratch memory.
    private static int firstOfTwo(MethodHandle function, long device) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) function.invokeExact(device, out, out.address() + 4);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

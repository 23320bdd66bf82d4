package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/// The NVLinks of a GPU, numbered from 0. Numbers are the value, or minus NVML's code; a link that
/// the GPU does not have answers with an error.
public final class NvmlLinks {
    public static final int NVML_NVLINK_MAX_LINKS = 36;

    public static final int NVML_NVLINK_DEVICE_TYPE_GPU = 0;
    public static final int NVML_NVLINK_DEVICE_TYPE_IBMNPU = 1;
    public static final int NVML_NVLINK_DEVICE_TYPE_SWITCH = 2;
    public static final int NVML_NVLINK_DEVICE_TYPE_UNKNOWN = 0xff;

    public static final int NVML_NVLINK_CAP_P2P_SUPPORTED = 0;
    public static final int NVML_NVLINK_CAP_SYSMEM_ACCESS = 1;
    public static final int NVML_NVLINK_CAP_P2P_ATOMICS = 2;
    public static final int NVML_NVLINK_CAP_SYSMEM_ATOMICS = 3;
    public static final int NVML_NVLINK_CAP_VALID = 5;

    public static final int NVML_NVLINK_ERROR_DL_REPLAY = 0;
    public static final int NVML_NVLINK_ERROR_DL_RECOVERY = 1;
    public static final int NVML_NVLINK_ERROR_DL_CRC_FLIT = 2;
    public static final int NVML_NVLINK_ERROR_DL_CRC_DATA = 3;

    public static final int NVML_FI_DEV_NVLINK_GET_SPEED = 164;

    private static final FunctionDescriptor OF_LINK =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, ADDRESS);
    private static final FunctionDescriptor OF_LINK_AND_KIND =
            FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT, ADDRESS);

    /// `nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
    /// nvmlEnableState_t *isActive)`
    private static final MethodHandle STATE = Nvml.link(OF_LINK, "nvmlDeviceGetNvLinkState");

    /// `nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned
    /// int *version)`
    private static final MethodHandle VERSION = Nvml.link(OF_LINK, "nvmlDeviceGetNvLinkVersion");

    /// `nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
    /// nvmlPciInfo_t *pci)`
    private static final MethodHandle REMOTE_PCI =
            Nvml.link(OF_LINK, "nvmlDeviceGetNvLinkRemotePciInfo_v2");

    /// `nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
    /// nvmlIntNvLinkDeviceType_t *pNvLinkDeviceType)`
    private static final MethodHandle REMOTE_TYPE =
            Nvml.link(OF_LINK, "nvmlDeviceGetNvLinkRemoteDeviceType");

    /// `nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link,
    /// nvmlNvLinkCapability_t capability, unsigned int *capResult)`
    private static final MethodHandle CAPABILITY =
            Nvml.link(OF_LINK_AND_KIND, "nvmlDeviceGetNvLinkCapability");

    /// `nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link,
    /// nvmlNvLinkErrorCounter_t counter, unsigned long long *counterValue)`
    private static final MethodHandle ERROR_COUNTER =
            Nvml.link(OF_LINK_AND_KIND, "nvmlDeviceGetNvLinkErrorCounter");

    private NvmlLinks() {}

    /// 1 when the link is up, 0 when down.
    public static int state(long device, int link) {
        return number(STATE, device, link);
    }

    /// NVML's number of the link's generation: 2 is NVLink 2.0, 4 is 3.0, 6 is 4.0, 7 is 5.0.
    public static int version(long device, int link) {
        return number(VERSION, device, link);
    }

    /// The PCI address of the GPU or switch at the other end, or null where the driver does not
    /// tell it, as in most virtual machines.
    public static @Nullable String remotePciBusId(long device, int link) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) REMOTE_PCI.invokeExact(device, link, out);
            return result == Nvml.NVML_SUCCESS ? out.getString(NvmlDevices.PCI_BUS_ID) : null;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// What is at the other end: a `NVML_NVLINK_DEVICE_TYPE_`.
    public static int remoteType(long device, int link) {
        return number(REMOTE_TYPE, device, link);
    }

    /// 1 when the link can do this (`NVML_NVLINK_CAP_`), 0 when not.
    public static int capability(long device, int link, int capability) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) CAPABILITY.invokeExact(device, link, capability, out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// How often this error (`NVML_NVLINK_ERROR_`) happened.
    public static long errorCount(long device, int link, int error) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) ERROR_COUNTER.invokeExact(device, link, error, out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_LONG, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The link's rate in MB/s one way.
    public static long speed(long device, int link) {
        return NvmlDevices.field(device, NVML_FI_DEV_NVLINK_GET_SPEED, link);
    }

    private static int number(MethodHandle function, long device, int link) {
        MemorySegment out = Scratch.current();
        try {
            int result = (int) function.invokeExact(device, link, out);
            return result == Nvml.NVML_SUCCESS ? out.get(JAVA_INT, 0) : -result;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

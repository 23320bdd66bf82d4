package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import io.telpher.internal.ffi.linux.Errno;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
import java.util.List;

/// RDMA devices: which there are, and contexts of them. Any thread.
public final class VerbsDevices {
    public static final int IBV_NODE_CA = 1;
    public static final int IBV_NODE_RNIC = 4;
    public static final int IBV_NODE_USNIC = 5;
    public static final int IBV_NODE_USNIC_UDP = 6;
    public static final int IBV_NODE_UNSPECIFIED = 7;

    public static final int IBV_TRANSPORT_IB = 0;
    public static final int IBV_TRANSPORT_IWARP = 1;
    public static final int IBV_TRANSPORT_USNIC = 2;
    public static final int IBV_TRANSPORT_USNIC_UDP = 3;
    public static final int IBV_TRANSPORT_UNSPECIFIED = 4;

    /// ```text
    /// ibv_device:      16 node_type   20 transport_type   24 name   ...
    /// ibv_context:     0 device   8 ops (VerbsOperations)   264 cmd_fd   268 async_fd
    ///                  272 num_comp_vectors   ...
    /// ibv_device_attr: 0 fw_ver (64)   ...   80 max_mr_size   96 vendor_id   100 vendor_part_id
    ///                  108 max_qp   112 max_qp_wr   120 max_sge   132 max_cqe   136 max_mr
    ///                  144 max_qp_rd_atom   156 max_qp_init_rd_atom   227 phys_port_cnt   232 end
    /// ```
    static final int DEVICE_NODE_TYPE = 16;

    static final int DEVICE_TRANSPORT_TYPE = 20;
    static final int CONTEXT_ASYNC_FD = 268;
    static final int CONTEXT_NUM_COMP_VECTORS = 272;

    static final int ATTR_BYTES = 232;
    static final int ATTR_FW_VER = 0;
    static final int ATTR_FW_VER_BYTES = 64;
    static final int ATTR_MAX_MR_SIZE = 80;
    static final int ATTR_VENDOR_ID = 96;
    static final int ATTR_VENDOR_PART_ID = 100;
    static final int ATTR_MAX_QP = 108;
    static final int ATTR_MAX_QP_WR = 112;
    static final int ATTR_MAX_SGE = 120;
    static final int ATTR_MAX_CQE = 132;
    static final int ATTR_MAX_MR = 136;
    static final int ATTR_MAX_QP_RD_ATOM = 144;
    static final int ATTR_MAX_QP_INIT_RD_ATOM = 156;
    static final int ATTR_PHYS_PORT_CNT = 227;

    /// `struct ibv_device **ibv_get_device_list(int *num_devices)`
    private static final MethodHandle GET_DEVICE_LIST =
            Verbs.link(FunctionDescriptor.of(JAVA_LONG, ADDRESS), "ibv_get_device_list");

    /// `void ibv_free_device_list(struct ibv_device **list)`
    private static final MethodHandle FREE_DEVICE_LIST =
            Verbs.linkPlain(FunctionDescriptor.ofVoid(JAVA_LONG), "ibv_free_device_list");

    /// `const char *ibv_get_device_name(struct ibv_device *device)`
    private static final MethodHandle GET_DEVICE_NAME =
            Verbs.linkPlain(FunctionDescriptor.of(ADDRESS, JAVA_LONG), "ibv_get_device_name");

    /// `struct ibv_context *ibv_open_device(struct ibv_device *device)`
    private static final MethodHandle OPEN_DEVICE =
            Verbs.link(FunctionDescriptor.of(JAVA_LONG, JAVA_LONG), "ibv_open_device");

    /// `int ibv_close_device(struct ibv_context *context)`
    private static final MethodHandle CLOSE_DEVICE =
            Verbs.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "ibv_close_device");

    /// `int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)`
    private static final MethodHandle QUERY_DEVICE =
            Verbs.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS), "ibv_query_device");

    private VerbsDevices() {}

    /// A device that the library has a provider for.
    ///
    /// @param nodeType one of `IBV_NODE_`
    /// @param transportType one of `IBV_TRANSPORT_`: only [#IBV_TRANSPORT_IB] has RC queue pairs
    ///     that connect without a connection manager
    public record Device(String name, int nodeType, int transportType) {}

    /// What a device can do.
    ///
    /// @param maxMrSize bytes of one memory region
    /// @param maxQpWr outstanding requests of one queue of a queue pair
    /// @param maxSge pieces of one request
    /// @param maxCqe completions that one completion queue holds
    /// @param maxReadAtomic reads that one queue pair answers at a time
    /// @param maxInitReadAtomic reads that one queue pair has under way
    public record Attributes(
            String firmware,
            int vendorId,
            int vendorPartId,
            long maxMrSize,
            int maxQp,
            int maxQpWr,
            int maxSge,
            int maxCqe,
            int maxMr,
            int maxReadAtomic,
            int maxInitReadAtomic,
            int ports) {}

    /// All devices of this network namespace that the library has a provider for, in its order.
    public static List<Device> list() {
        List<Device> devices = new ArrayList<>();
        long list = deviceList();
        try {
            for (long device : pointers(list)) {
                MemorySegment struct = struct(device, DEVICE_TRANSPORT_TYPE + 4);
                devices.add(
                        new Device(
                                name(device),
                                struct.get(JAVA_INT, DEVICE_NODE_TYPE),
                                struct.get(JAVA_INT, DEVICE_TRANSPORT_TYPE)));
            }
        } finally {
            free(list);
        }
        return devices;
    }

    /// Opens the device of this name; ENODEV where there is none.
    ///
    /// @return its context, to be closed by [#close]
    public static long open(String name) {
        long list = deviceList();
        long context = -Errno.ENODEV;
        try {
            for (long device : pointers(list)) {
                if (name(device).equals(name)) {
                    MemorySegment state = Verbs.state();
                    context = Verbs.pointer((long) OPEN_DEVICE.invokeExact(state, device), state);
                    break;
                }
            }
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        } finally {
            free(list);
        }
        return Verbs.checked(context, "ibv_open_device", name);
    }

    /// Closes a context whose objects are all destroyed. Returns 0 or the errno.
    public static int close(long context) {
        try {
            MemorySegment state = Verbs.state();
            return Verbs.error((int) CLOSE_DEVICE.invokeExact(state, context), state);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    public static Attributes query(long context) {
        MemorySegment attr = Scratch.current();
        try {
            MemorySegment state = Verbs.state();
            int error = Verbs.error((int) QUERY_DEVICE.invokeExact(state, context, attr), state);
            Verbs.check(error, "ibv_query_device", context);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
        return new Attributes(
                attr.asSlice(ATTR_FW_VER, ATTR_FW_VER_BYTES).getString(0),
                attr.get(JAVA_INT, ATTR_VENDOR_ID),
                attr.get(JAVA_INT, ATTR_VENDOR_PART_ID),
                attr.get(JAVA_LONG, ATTR_MAX_MR_SIZE),
                attr.get(JAVA_INT, ATTR_MAX_QP),
                attr.get(JAVA_INT, ATTR_MAX_QP_WR),
                attr.get(JAVA_INT, ATTR_MAX_SGE),
                attr.get(JAVA_INT, ATTR_MAX_CQE),
                attr.get(JAVA_INT, ATTR_MAX_MR),
                attr.get(JAVA_INT, ATTR_MAX_QP_RD_ATOM),
                attr.get(JAVA_INT, ATTR_MAX_QP_INIT_RD_ATOM),
                attr.get(JAVA_BYTE, ATTR_PHYS_PORT_CNT) & 0xff);
    }

    /// The descriptor that is readable while [VerbsEvents] has an event. It belongs to the
    /// context.
    public static int asyncDescriptor(long context) {
        return struct(context, CONTEXT_ASYNC_FD + 4).get(JAVA_INT, CONTEXT_ASYNC_FD);
    }

    /// How many interrupts completion queues of a device may use, at least 1.
    public static int completionVectors(long context) {
        int vectors =
                struct(context, CONTEXT_NUM_COMP_VECTORS + 4)
                        .get(JAVA_INT, CONTEXT_NUM_COMP_VECTORS);
        return Math.max(1, vectors);
    }

    /// A structure of the library's, whose memory lives until the library frees it.
    static MemorySegment struct(long address, long bytes) {
        return MemorySegment.ofAddress(address).reinterpret(bytes);
    }

    private static long deviceList() {
        try {
            MemorySegment state = Verbs.state();
            long list = (long) GET_DEVICE_LIST.invokeExact(state, MemorySegment.NULL);
            return Verbs.checked(Verbs.pointer(list, state), "ibv_get_device_list");
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static void free(long list) {
        try {
            FREE_DEVICE_LIST.invokeExact(list);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The entries of a list that a null pointer ends.
    private static List<Long> pointers(long list) {
        List<Long> pointers = new ArrayList<>();
        for (long at = list; ; at += Long.BYTES) {
            long pointer = struct(at, Long.BYTES).get(JAVA_LONG, 0);
            if (pointer == 0) {
                return pointers;
            }
            pointers.add(pointer);
        }
    }

    private static String name(long device) {
        try {
            return NativeLibrary.string((MemorySegment) GET_DEVICE_NAME.invokeExact(device));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

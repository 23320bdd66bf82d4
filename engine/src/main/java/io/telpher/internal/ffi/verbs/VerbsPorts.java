package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.ArrayList;
import java.util.List;

/// Ports of devices and their GIDs. Any thread.
public final class VerbsPorts {
    public static final int IBV_PORT_DOWN = 1;
    public static final int IBV_PORT_INIT = 2;
    public static final int IBV_PORT_ARMED = 3;
    public static final int IBV_PORT_ACTIVE = 4;
    public static final int IBV_PORT_ACTIVE_DEFER = 5;

    public static final int IBV_LINK_LAYER_UNSPECIFIED = 0;
    public static final int IBV_LINK_LAYER_INFINIBAND = 1;
    public static final int IBV_LINK_LAYER_ETHERNET = 2;

    /// Flag of a port: packets must carry GIDs (a GRH), also within an InfiniBand subnet.
    public static final int IBV_QPF_GRH_REQUIRED = 1;

    public static final int IBV_GID_TYPE_IB = 0;
    public static final int IBV_GID_TYPE_ROCE_V1 = 1;
    public static final int IBV_GID_TYPE_ROCE_V2 = 2;

    public static final int IBV_MTU_256 = 1;
    public static final int IBV_MTU_512 = 2;
    public static final int IBV_MTU_1024 = 3;
    public static final int IBV_MTU_2048 = 4;
    public static final int IBV_MTU_4096 = 5;

    /// Bytes of a GID.
    public static final int GID_BYTES = 16;

    /// ```text
    /// ibv_port_attr: 0 state   4 max_mtu   8 active_mtu   12 gid_tbl_len   20 max_msg_sz
    ///   32 pkey_tbl_len (2)   34 lid (2)   36 sm_lid (2)   38 lmc (1)   40 sm_sl (1)
    ///   43 active_width (1)   44 active_speed (1)   45 phys_state (1)   46 link_layer (1)
    ///   47 flags (1)   52 end
    /// ibv_gid_entry: 0 gid (16)   16 gid_index   20 port_num   24 gid_type   28 ndev_ifindex
    ///   32 end
    /// ```
    static final int ATTR_BYTES = 52;

    static final int ATTR_STATE = 0;
    static final int ATTR_MAX_MTU = 4;
    static final int ATTR_ACTIVE_MTU = 8;
    static final int ATTR_GID_TBL_LEN = 12;
    static final int ATTR_MAX_MSG_SZ = 20;
    static final int ATTR_PKEY_TBL_LEN = 32;
    static final int ATTR_LID = 34;
    static final int ATTR_SM_LID = 36;
    static final int ATTR_LMC = 38;
    static final int ATTR_ACTIVE_WIDTH = 43;
    static final int ATTR_ACTIVE_SPEED = 44;
    static final int ATTR_PHYS_STATE = 45;
    static final int ATTR_LINK_LAYER = 46;
    static final int ATTR_FLAGS = 47;

    static final int GID_ENTRY_BYTES = 32;
    static final int GID_ENTRY_GID = 0;
    static final int GID_ENTRY_INDEX = 16;
    static final int GID_ENTRY_PORT = 20;
    static final int GID_ENTRY_TYPE = 24;
    static final int GID_ENTRY_IFINDEX = 28;

    /// The inline function of the header reaches a newer form through the context, which adds
    /// fields behind those that are read here.
    ///
    /// `int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct
    /// _compat_ibv_port_attr *port_attr)`
    private static final MethodHandle QUERY_PORT =
            Verbs.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_BYTE, ADDRESS),
                    "ibv_query_port");

    /// `int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
    /// struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)`
    private static final MethodHandle QUERY_GID_EX =
            Verbs.link(
                    FunctionDescriptor.of(
                            JAVA_INT, JAVA_LONG, JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT, JAVA_LONG),
                    "_ibv_query_gid_ex");

    /// `ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
    /// size_t max_entries, uint32_t flags, size_t entry_size)`
    private static final MethodHandle QUERY_GID_TABLE =
            Verbs.link(
                    FunctionDescriptor.of(
                            JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG, JAVA_INT, JAVA_LONG),
                    "_ibv_query_gid_table");

    private VerbsPorts() {}

    /// A port, as it is now.
    ///
    /// @param state one of `IBV_PORT_`
    /// @param maxMtu one of `IBV_MTU_`
    /// @param activeMtu one of `IBV_MTU_`: what the link carries; see [#mtuBytes]
    /// @param gids length of the GID table, most of whose entries are empty
    /// @param maxMessage bytes of one request
    /// @param lid its address in the InfiniBand subnet; 0 on Ethernet
    /// @param lmc how many low bits of the LID are free
    /// @param width code of the number of lanes: 1, 2, 4, 8 mean 1, 4, 8, 12 lanes, 16 means 2
    /// @param speed code of a lane's speed
    /// @param linkLayer one of `IBV_LINK_LAYER_`
    /// @param flags `IBV_QPF_` bits; 0 with libraries that do not tell
    public record Attributes(
            int state,
            int maxMtu,
            int activeMtu,
            int gids,
            int pkeys,
            int maxMessage,
            int lid,
            int smLid,
            int lmc,
            int width,
            int speed,
            int physicalState,
            int linkLayer,
            int flags) {}

    /// An entry of a port's GID table.
    ///
    /// @param gid 16 bytes; an IPv6 address, or an IPv4 address behind `::ffff:`, on RoCE
    /// @param index its place in the table, which the kernel changes as addresses come and go
    /// @param type one of `IBV_GID_TYPE_`
    /// @param ifindex of the network interface; 0 where there is none
    @SuppressWarnings("ArrayRecordComponent") // read once, from the library's memory
    public record Gid(int port, int index, int type, int ifindex, byte[] gid) {}

    /// @param port from 1
    public static Attributes query(long context, int port) {
        MemorySegment attr = Scratch.current();
        // Old libraries fill in less.
        attr.asSlice(0, ATTR_BYTES).fill((byte) 0);
        try {
            MemorySegment state = Verbs.state();
            int error =
                    Verbs.error(
                            (int) QUERY_PORT.invokeExact(state, context, (byte) port, attr), state);
            Verbs.check(error, "ibv_query_port", context, port);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
        return new Attributes(
                attr.get(JAVA_INT, ATTR_STATE),
                attr.get(JAVA_INT, ATTR_MAX_MTU),
                attr.get(JAVA_INT, ATTR_ACTIVE_MTU),
                attr.get(JAVA_INT, ATTR_GID_TBL_LEN),
                attr.get(JAVA_SHORT, ATTR_PKEY_TBL_LEN) & 0xffff,
                attr.get(JAVA_INT, ATTR_MAX_MSG_SZ),
                attr.get(JAVA_SHORT, ATTR_LID) & 0xffff,
                attr.get(JAVA_SHORT, ATTR_SM_LID) & 0xffff,
                attr.get(JAVA_BYTE, ATTR_LMC) & 0xff,
                attr.get(JAVA_BYTE, ATTR_ACTIVE_WIDTH) & 0xff,
                attr.get(JAVA_BYTE, ATTR_ACTIVE_SPEED) & 0xff,
                attr.get(JAVA_BYTE, ATTR_PHYS_STATE) & 0xff,
                attr.get(JAVA_BYTE, ATTR_LINK_LAYER) & 0xff,
                attr.get(JAVA_BYTE, ATTR_FLAGS) & 0xff);
    }

    /// One entry of the GID table; ENODATA where it is empty.
    public static Gid gid(long context, int port, int index) {
        MemorySegment entry = Scratch.current();
        try {
            MemorySegment state = Verbs.state();
            int error =
                    Verbs.error(
                            (int)
                                    QUERY_GID_EX.invokeExact(
                                            state,
                                            context,
                                            port,
                                            index,
                                            entry,
                                            0,
                                            (long) GID_ENTRY_BYTES),
                            state);
            Verbs.check(error, "ibv_query_gid_ex", context, port, index);
            return entry(entry, 0);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The entries of all ports that are not empty.
    ///
    /// @param most how many there can be: the lengths of the ports' tables together
    public static List<Gid> gids(long context, int most) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment entries = arena.allocate((long) most * GID_ENTRY_BYTES, 8);
            MemorySegment state = Verbs.state();
            // Minus errno, unlike the others.
            long count =
                    (long)
                            QUERY_GID_TABLE.invokeExact(
                                    state,
                                    context,
                                    entries,
                                    (long) most,
                                    0,
                                    (long) GID_ENTRY_BYTES);
            Verbs.checked(count, "ibv_query_gid_table", context, most);
            List<Gid> gids = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                gids.add(entry(entries, (long) i * GID_ENTRY_BYTES));
            }
            return gids;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Bytes of data in a packet for a code `IBV_MTU_`.
    public static int mtuBytes(int mtu) {
        return 128 << mtu;
    }

    private static Gid entry(MemorySegment entries, long at) {
        byte[] gid = new byte[GID_BYTES];
        MemorySegment.copy(entries, JAVA_BYTE, at + GID_ENTRY_GID, gid, 0, GID_BYTES);
        return new Gid(
                entries.get(JAVA_INT, at + GID_ENTRY_PORT),
                entries.get(JAVA_INT, at + GID_ENTRY_INDEX),
                entries.get(JAVA_INT, at + GID_ENTRY_TYPE),
                entries.get(JAVA_INT, at + GID_ENTRY_IFINDEX),
                gid);
    }
}

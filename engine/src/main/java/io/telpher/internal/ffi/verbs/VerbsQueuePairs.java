package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import io.telpher.internal.ffi.linux.Errno;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Queue pairs of type RC, and the states that they go through: RESET, INIT (receives can be
/// posted), RTR (what the peer sends arrives), RTS (sends go out), ERR (everything posted completes
/// as flushed). Any thread.
public final class VerbsQueuePairs {
    public static final int IBV_QPT_RC = 2;

    public static final int IBV_QPS_RESET = 0;
    public static final int IBV_QPS_INIT = 1;
    public static final int IBV_QPS_RTR = 2;
    public static final int IBV_QPS_RTS = 3;
    public static final int IBV_QPS_SQD = 4;
    public static final int IBV_QPS_SQE = 5;
    public static final int IBV_QPS_ERR = 6;

    static final int IBV_QP_STATE = 1;
    static final int IBV_QP_ACCESS_FLAGS = 1 << 3;
    static final int IBV_QP_PKEY_INDEX = 1 << 4;
    static final int IBV_QP_PORT = 1 << 5;
    static final int IBV_QP_AV = 1 << 7;
    static final int IBV_QP_PATH_MTU = 1 << 8;
    static final int IBV_QP_TIMEOUT = 1 << 9;
    static final int IBV_QP_RETRY_CNT = 1 << 10;
    static final int IBV_QP_RNR_RETRY = 1 << 11;
    static final int IBV_QP_RQ_PSN = 1 << 12;
    static final int IBV_QP_MAX_QP_RD_ATOMIC = 1 << 13;
    static final int IBV_QP_MIN_RNR_TIMER = 1 << 15;
    static final int IBV_QP_SQ_PSN = 1 << 16;
    static final int IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 17;
    static final int IBV_QP_CAP = 1 << 19;
    static final int IBV_QP_DEST_QPN = 1 << 20;

    /// ```text
    /// ibv_qp:           52 qp_num   ...
    /// ibv_qp_init_attr: 0 qp_context   8 send_cq   16 recv_cq   24 srq   32 cap   52 qp_type
    ///                   56 sq_sig_all   64 end
    /// ibv_qp_cap:       0 max_send_wr   4 max_recv_wr   8 max_send_sge   12 max_recv_sge
    ///                   16 max_inline_data   20 end
    /// ibv_qp_attr:      0 qp_state   8 path_mtu   20 rq_psn   24 sq_psn   28 dest_qp_num
    ///                   32 qp_access_flags   36 cap   56 ah_attr   120 pkey_index (2)
    ///                   126 max_rd_atomic (1)   127 max_dest_rd_atomic (1)   128 min_rnr_timer (1)
    ///                   129 port_num (1)   130 timeout (1)   131 retry_cnt (1)   132 rnr_retry (1)
    ///                   144 end
    /// ibv_ah_attr:      0 dgid (16)   16 flow_label   20 sgid_index (1)   21 hop_limit (1)
    ///                   22 traffic_class (1)   24 dlid (2)   26 sl (1)   27 src_path_bits (1)
    ///                   28 static_rate (1)   29 is_global (1)   30 port_num (1)   32 end
    /// ```
    static final int QP_NUM = 52;

    static final int INIT_ATTR_BYTES = 64;
    static final int INIT_ATTR_SEND_CQ = 8;
    static final int INIT_ATTR_RECV_CQ = 16;
    static final int INIT_ATTR_CAP = 32;
    static final int INIT_ATTR_QP_TYPE = 52;
    static final int INIT_ATTR_SQ_SIG_ALL = 56;

    static final int CAP_MAX_SEND_WR = 0;
    static final int CAP_MAX_RECV_WR = 4;
    static final int CAP_MAX_SEND_SGE = 8;
    static final int CAP_MAX_RECV_SGE = 12;
    static final int CAP_MAX_INLINE_DATA = 16;

    static final int ATTR_BYTES = 144;
    static final int ATTR_QP_STATE = 0;
    static final int ATTR_PATH_MTU = 8;
    static final int ATTR_RQ_PSN = 20;
    static final int ATTR_SQ_PSN = 24;
    static final int ATTR_DEST_QP_NUM = 28;
    static final int ATTR_QP_ACCESS_FLAGS = 32;
    static final int ATTR_CAP = 36;
    static final int ATTR_AH_ATTR = 56;
    static final int ATTR_PKEY_INDEX = 120;
    static final int ATTR_MAX_RD_ATOMIC = 126;
    static final int ATTR_MAX_DEST_RD_ATOMIC = 127;
    static final int ATTR_MIN_RNR_TIMER = 128;
    static final int ATTR_PORT_NUM = 129;
    static final int ATTR_TIMEOUT = 130;
    static final int ATTR_RETRY_CNT = 131;
    static final int ATTR_RNR_RETRY = 132;

    static final int AH_DGID = 0;
    static final int AH_FLOW_LABEL = 16;
    static final int AH_SGID_INDEX = 20;
    static final int AH_HOP_LIMIT = 21;
    static final int AH_TRAFFIC_CLASS = 22;
    static final int AH_DLID = 24;
    static final int AH_SL = 26;
    static final int AH_IS_GLOBAL = 29;
    static final int AH_PORT_NUM = 30;

    /// `struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *qp_init_attr)`
    private static final MethodHandle CREATE_QP =
            Verbs.link(FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, ADDRESS), "ibv_create_qp");

    /// `int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)`
    private static final MethodHandle MODIFY_QP =
            Verbs.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS, JAVA_INT), "ibv_modify_qp");

    /// `int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask, struct
    /// ibv_qp_init_attr *init_attr)`
    private static final MethodHandle QUERY_QP =
            Verbs.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS, JAVA_INT, JAVA_LONG),
                    "ibv_query_qp");

    /// `int ibv_destroy_qp(struct ibv_qp *qp)`
    private static final MethodHandle DESTROY_QP =
            Verbs.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "ibv_destroy_qp");

    private VerbsQueuePairs() {}

    /// How much a queue pair holds.
    ///
    /// @param sends outstanding send requests
    /// @param receives outstanding receive requests
    /// @param sendPieces local ranges of a send request
    /// @param receivePieces local ranges of a receive request
    /// @param inline bytes that a send request carries itself
    public record Capacity(
            int sends, int receives, int sendPieces, int receivePieces, int inline) {}

    /// The way to the peer's port.
    ///
    /// @param port of the own device, from 1
    /// @param gidIndex of the own port
    /// @param gid of the peer's port, 16 bytes
    /// @param lid of the peer's port; 0 on RoCE
    /// @param global whether packets carry GIDs: always on RoCE; on InfiniBand between subnets, and
    ///     where a port wants it
    /// @param hopLimit routers on the way, with GIDs
    /// @param trafficClass with GIDs: on RoCE the DSCP and ECN bits
    /// @param serviceLevel 0 to 7 on RoCE (the priority), to 15 on InfiniBand
    @SuppressWarnings("ArrayRecordComponent") // goes into the library's memory at once
    public record Path(
            int port,
            int gidIndex,
            byte[] gid,
            int lid,
            boolean global,
            int hopLimit,
            int trafficClass,
            int serviceLevel) {}

    /// What a queue pair needs to receive.
    ///
    /// @param mtu one of `IBV_MTU_`, the same on both sides
    /// @param peer number of the peer's queue pair, 24 bits
    /// @param firstPacket number of the peer's first packet, 24 bits
    /// @param reads the peer's reads that are answered at a time
    /// @param notReadyTimer code of how long the peer waits where no receive is posted
    public record Receiving(
            Path path, int mtu, int peer, int firstPacket, int reads, int notReadyTimer) {}

    /// What a queue pair needs to send.
    ///
    /// @param firstPacket number of its own first packet, 24 bits
    /// @param timeout for an acknowledgement: 4.096 us * 2^timeout
    /// @param retries how often a packet is sent again, at most 7
    /// @param notReadyRetries how often where the peer has no receive posted; 7 is for ever
    /// @param reads its reads that are under way at a time
    public record Sending(
            int firstPacket, int timeout, int retries, int notReadyRetries, int reads) {}

    /// What a queue pair says of itself.
    ///
    /// @param state one of `IBV_QPS_`
    /// @param mtu one of `IBV_MTU_`
    public record Status(
            int state, int mtu, int peer, int receivePacket, int sendPacket, Capacity capacity) {}

    /// Makes a queue pair of type RC in state RESET, whose sends complete silently unless they are
    /// flagged. [#query] tells its capacity, which may be more than was asked for.
    public static long create(long domain, long sendQueue, long receiveQueue, Capacity capacity) {
        MemorySegment attr = Scratch.current().asSlice(0, INIT_ATTR_BYTES).fill((byte) 0);
        attr.set(JAVA_LONG, INIT_ATTR_SEND_CQ, sendQueue);
        attr.set(JAVA_LONG, INIT_ATTR_RECV_CQ, receiveQueue);
        attr.set(JAVA_INT, INIT_ATTR_CAP + CAP_MAX_SEND_WR, capacity.sends);
        attr.set(JAVA_INT, INIT_ATTR_CAP + CAP_MAX_RECV_WR, capacity.receives);
        attr.set(JAVA_INT, INIT_ATTR_CAP + CAP_MAX_SEND_SGE, capacity.sendPieces);
        attr.set(JAVA_INT, INIT_ATTR_CAP + CAP_MAX_RECV_SGE, capacity.receivePieces);
        attr.set(JAVA_INT, INIT_ATTR_CAP + CAP_MAX_INLINE_DATA, capacity.inline);
        attr.set(JAVA_INT, INIT_ATTR_QP_TYPE, IBV_QPT_RC);
        attr.set(JAVA_INT, INIT_ATTR_SQ_SIG_ALL, 0);
        try {
            MemorySegment state = Verbs.state();
            long pair = Verbs.pointer((long) CREATE_QP.invokeExact(state, domain, attr), state);
            return Verbs.checked(pair, "ibv_create_qp", domain, capacity);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Its 24-bit number on its device.
    public static int number(long pair) {
        return VerbsDevices.struct(pair, QP_NUM + 4).get(JAVA_INT, QP_NUM);
    }

    /// RESET to INIT.
    ///
    /// @param access what peers may do: `IBV_ACCESS_REMOTE_`
    public static void initialise(long pair, int port, int pkeyIndex, int access) {
        MemorySegment attr = attributes(IBV_QPS_INIT);
        attr.set(JAVA_BYTE, ATTR_PORT_NUM, (byte) port);
        attr.set(JAVA_SHORT, ATTR_PKEY_INDEX, (short) pkeyIndex);
        attr.set(JAVA_INT, ATTR_QP_ACCESS_FLAGS, access);
        int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;
        check(modify(pair, attr, mask), pair, "INIT", "port " + port);
    }

    /// INIT to RTR. ETIMEDOUT where RoCE cannot find the peer's address on its Ethernet.
    public static void readyToReceive(long pair, Receiving receiving) {
        MemorySegment attr = attributes(IBV_QPS_RTR);
        attr.set(JAVA_INT, ATTR_PATH_MTU, receiving.mtu);
        attr.set(JAVA_INT, ATTR_DEST_QP_NUM, receiving.peer);
        attr.set(JAVA_INT, ATTR_RQ_PSN, receiving.firstPacket);
        attr.set(JAVA_BYTE, ATTR_MAX_DEST_RD_ATOMIC, (byte) receiving.reads);
        attr.set(JAVA_BYTE, ATTR_MIN_RNR_TIMER, (byte) receiving.notReadyTimer);
        Path path = receiving.path;
        MemorySegment address = attr.asSlice(ATTR_AH_ATTR);
        MemorySegment.copy(path.gid, 0, address, JAVA_BYTE, AH_DGID, VerbsPorts.GID_BYTES);
        address.set(JAVA_INT, AH_FLOW_LABEL, 0);
        address.set(JAVA_BYTE, AH_SGID_INDEX, (byte) path.gidIndex);
        address.set(JAVA_BYTE, AH_HOP_LIMIT, (byte) path.hopLimit);
        address.set(JAVA_BYTE, AH_TRAFFIC_CLASS, (byte) path.trafficClass);
        address.set(JAVA_SHORT, AH_DLID, (short) path.lid);
        address.set(JAVA_BYTE, AH_SL, (byte) path.serviceLevel);
        address.set(JAVA_BYTE, AH_IS_GLOBAL, (byte) (path.global ? 1 : 0));
        address.set(JAVA_BYTE, AH_PORT_NUM, (byte) path.port);
        int mask =
                IBV_QP_STATE
                        | IBV_QP_AV
                        | IBV_QP_PATH_MTU
                        | IBV_QP_DEST_QPN
                        | IBV_QP_RQ_PSN
                        | IBV_QP_MAX_DEST_RD_ATOMIC
                        | IBV_QP_MIN_RNR_TIMER;
        check(
                modify(pair, attr, mask),
                pair,
                "RTR",
                path.global ? "GID index " + path.gidIndex : "LID " + path.lid + " without a GRH",
                "peer " + receiving.peer);
    }

    /// RTR to RTS.
    public static void readyToSend(long pair, Sending sending) {
        MemorySegment attr = attributes(IBV_QPS_RTS);
        attr.set(JAVA_INT, ATTR_SQ_PSN, sending.firstPacket);
        attr.set(JAVA_BYTE, ATTR_TIMEOUT, (byte) sending.timeout);
        attr.set(JAVA_BYTE, ATTR_RETRY_CNT, (byte) sending.retries);
        attr.set(JAVA_BYTE, ATTR_RNR_RETRY, (byte) sending.notReadyRetries);
        attr.set(JAVA_BYTE, ATTR_MAX_RD_ATOMIC, (byte) sending.reads);
        int mask =
                IBV_QP_STATE
                        | IBV_QP_SQ_PSN
                        | IBV_QP_TIMEOUT
                        | IBV_QP_RETRY_CNT
                        | IBV_QP_RNR_RETRY
                        | IBV_QP_MAX_QP_RD_ATOMIC;
        check(modify(pair, attr, mask), pair, "RTS", sending);
    }

    /// Any state to RESET or ERR. Returns 0 or the errno.
    ///
    /// @param state [#IBV_QPS_RESET], which forgets what was posted, or [#IBV_QPS_ERR]
    public static int stop(long pair, int state) {
        return modify(pair, attributes(state), IBV_QP_STATE);
    }

    public static Status query(long pair) {
        MemorySegment attr = attributes(IBV_QPS_RESET);
        try {
            MemorySegment state = Verbs.state();
            int mask =
                    IBV_QP_STATE
                            | IBV_QP_PATH_MTU
                            | IBV_QP_DEST_QPN
                            | IBV_QP_RQ_PSN
                            | IBV_QP_SQ_PSN
                            | IBV_QP_CAP;
            long initAttr = attr.address() + ATTR_BYTES;
            int error =
                    Verbs.error(
                            (int) QUERY_QP.invokeExact(state, pair, attr, mask, initAttr), state);
            Verbs.check(error, "ibv_query_qp", pair);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
        return new Status(
                attr.get(JAVA_INT, ATTR_QP_STATE),
                attr.get(JAVA_INT, ATTR_PATH_MTU),
                attr.get(JAVA_INT, ATTR_DEST_QP_NUM),
                attr.get(JAVA_INT, ATTR_RQ_PSN),
                attr.get(JAVA_INT, ATTR_SQ_PSN),
                new Capacity(
                        attr.get(JAVA_INT, ATTR_CAP + CAP_MAX_SEND_WR),
                        attr.get(JAVA_INT, ATTR_CAP + CAP_MAX_RECV_WR),
                        attr.get(JAVA_INT, ATTR_CAP + CAP_MAX_SEND_SGE),
                        attr.get(JAVA_INT, ATTR_CAP + CAP_MAX_RECV_SGE),
                        attr.get(JAVA_INT, ATTR_CAP + CAP_MAX_INLINE_DATA)));
    }

    /// Destroys a queue pair in any state; what was posted completes no more. Returns 0 or the
    /// errno.
    public static int destroy(long pair) {
        try {
            MemorySegment state = Verbs.state();
            return Verbs.error((int) DESTROY_QP.invokeExact(state, pair), state);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The scratch memory, with room for `ibv_qp_init_attr` behind.
    private static MemorySegment attributes(int state) {
        MemorySegment attr =
                Scratch.current().asSlice(0, ATTR_BYTES + INIT_ATTR_BYTES).fill((byte) 0);
        attr.set(JAVA_INT, ATTR_QP_STATE, state);
        return attr;
    }

    private static int modify(long pair, MemorySegment attr, int mask) {
        try {
            MemorySegment state = Verbs.state();
            return Verbs.error((int) MODIFY_QP.invokeExact(state, pair, attr, mask), state);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    private static void check(int error, long pair, Object... arguments) {
        if (error != 0) {
            Object[] all = new Object[arguments.length + 1];
            all[0] = "queue pair " + number(pair);
            System.arraycopy(arguments, 0, all, 1, arguments.length);
            throw Errno.failure(error, "ibv_modify_qp", all);
        }
    }
}

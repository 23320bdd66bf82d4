package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.memory.Raw;

/// `struct ibv_send_wr`, by address: what a queue pair is to do. The caller owns the memory, which
/// the provider reads during `ibv_post_send` only.
public final class SendRequest {
    public static final int IBV_WR_RDMA_WRITE = 0;
    public static final int IBV_WR_RDMA_WRITE_WITH_IMM = 1;
    public static final int IBV_WR_SEND = 2;
    public static final int IBV_WR_SEND_WITH_IMM = 3;
    public static final int IBV_WR_RDMA_READ = 4;

    public static final int IBV_SEND_FENCE = 1;
    public static final int IBV_SEND_SIGNALED = 2;
    public static final int IBV_SEND_SOLICITED = 4;
    public static final int IBV_SEND_INLINE = 8;

    /// `sizeof(struct ibv_send_wr)`
    public static final int BYTES = 128;

    static final int WR_ID = 0;
    static final int NEXT = 8;
    static final int SG_LIST = 16;
    static final int NUM_SGE = 24;
    static final int OPCODE = 28;
    static final int SEND_FLAGS = 32;
    static final int IMM_DATA = 36;
    static final int RDMA_REMOTE_ADDR = 40;
    static final int RDMA_RKEY = 48;

    private SendRequest() {}

    /// Writes a request that is the last of its list.
    ///
    /// @param sge address of `sges` [Sge]s
    public static void set(long wr, long id, int opcode, int flags, long sge, int sges) {
        Raw.ALL.set(JAVA_LONG, wr + WR_ID, id);
        Raw.ALL.set(JAVA_LONG, wr + NEXT, 0);
        Raw.ALL.set(JAVA_LONG, wr + SG_LIST, sge);
        Raw.ALL.set(JAVA_INT, wr + NUM_SGE, sges);
        Raw.ALL.set(JAVA_INT, wr + OPCODE, opcode);
        Raw.ALL.set(JAVA_INT, wr + SEND_FLAGS, flags);
    }

    /// Where an RDMA operation goes to or comes from.
    public static void remote(long wr, long address, int rkey) {
        Raw.ALL.set(JAVA_LONG, wr + RDMA_REMOTE_ADDR, address);
        Raw.ALL.set(JAVA_INT, wr + RDMA_RKEY, rkey);
    }

    /// The immediate value, which travels in network byte order.
    public static void immediate(long wr, int value) {
        Raw.ALL.set(JAVA_INT, wr + IMM_DATA, Integer.reverseBytes(value));
    }

    /// Makes another request follow this one in the same list.
    public static void next(long wr, long following) {
        Raw.ALL.set(JAVA_LONG, wr + NEXT, following);
    }

    public static void addFlags(long wr, int flags) {
        Raw.ALL.set(JAVA_INT, wr + SEND_FLAGS, flags(wr) | flags);
    }

    public static long id(long wr) {
        return Raw.ALL.get(JAVA_LONG, wr + WR_ID);
    }

    public static long next(long wr) {
        return Raw.ALL.get(JAVA_LONG, wr + NEXT);
    }

    public static long sge(long wr) {
        return Raw.ALL.get(JAVA_LONG, wr + SG_LIST);
    }

    public static int sges(long wr) {
        return Raw.ALL.get(JAVA_INT, wr + NUM_SGE);
    }

    public static int opcode(long wr) {
        return Raw.ALL.get(JAVA_INT, wr + OPCODE);
    }

    public static int flags(long wr) {
        return Raw.ALL.get(JAVA_INT, wr + SEND_FLAGS);
    }

    public static int immediate(long wr) {
        return Integer.reverseBytes(Raw.ALL.get(JAVA_INT, wr + IMM_DATA));
    }

    public static long remoteAddress(long wr) {
        return Raw.ALL.get(JAVA_LONG, wr + RDMA_REMOTE_ADDR);
    }

    public static int rkey(long wr) {
        return Raw.ALL.get(JAVA_INT, wr + RDMA_RKEY);
    }
}

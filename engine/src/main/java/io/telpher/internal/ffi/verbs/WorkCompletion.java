package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.memory.Raw;

/// `struct ibv_wc`, by address: how a request ended. Of one with an error only the id, the status
/// and the vendor's error are valid.
public final class WorkCompletion {
    public static final int IBV_WC_SUCCESS = 0;
    public static final int IBV_WC_LOC_LEN_ERR = 1;
    public static final int IBV_WC_LOC_QP_OP_ERR = 2;
    public static final int IBV_WC_LOC_PROT_ERR = 4;
    public static final int IBV_WC_WR_FLUSH_ERR = 5;
    public static final int IBV_WC_REM_INV_REQ_ERR = 9;
    public static final int IBV_WC_REM_ACCESS_ERR = 10;
    public static final int IBV_WC_REM_OP_ERR = 11;
    public static final int IBV_WC_RETRY_EXC_ERR = 12;
    public static final int IBV_WC_RNR_RETRY_EXC_ERR = 13;

    public static final int IBV_WC_SEND = 0;
    public static final int IBV_WC_RDMA_WRITE = 1;
    public static final int IBV_WC_RDMA_READ = 2;
    public static final int IBV_WC_RECV = 128;
    public static final int IBV_WC_RECV_RDMA_WITH_IMM = 129;

    /// `sizeof(struct ibv_wc)`
    public static final int BYTES = 48;

    static final int WR_ID = 0;
    static final int STATUS = 8;
    static final int OPCODE = 12;
    static final int VENDOR_ERR = 16;
    static final int BYTE_LEN = 20;
    static final int IMM_DATA = 24;

    private WorkCompletion() {}

    public static long id(long wc) {
        return Raw.ALL.get(JAVA_LONG, wc + WR_ID);
    }

    public static int status(long wc) {
        return Raw.ALL.get(JAVA_INT, wc + STATUS);
    }

    public static int opcode(long wc) {
        return Raw.ALL.get(JAVA_INT, wc + OPCODE);
    }

    public static int vendorError(long wc) {
        return Raw.ALL.get(JAVA_INT, wc + VENDOR_ERR);
    }

    public static int length(long wc) {
        return Raw.ALL.get(JAVA_INT, wc + BYTE_LEN);
    }

    /// The immediate value, in the byte order of this machine.
    public static int immediate(long wc) {
        return Integer.reverseBytes(Raw.ALL.get(JAVA_INT, wc + IMM_DATA));
    }

    /// Writes one, as a provider does.
    public static void set(long wc, long id, int status, int opcode, int length, int immediate) {
        Raw.ALL.set(JAVA_LONG, wc + WR_ID, id);
        Raw.ALL.set(JAVA_INT, wc + STATUS, status);
        Raw.ALL.set(JAVA_INT, wc + OPCODE, opcode);
        Raw.ALL.set(JAVA_INT, wc + VENDOR_ERR, 0);
        Raw.ALL.set(JAVA_INT, wc + BYTE_LEN, length);
        Raw.ALL.set(JAVA_INT, wc + IMM_DATA, Integer.reverseBytes(immediate));
    }

    /// Whether a status tells of what the request asked for, not of the link.
    public static boolean isOfRequest(int status) {
        return switch (status) {
            case IBV_WC_LOC_LEN_ERR,
                    IBV_WC_LOC_PROT_ERR,
                    IBV_WC_REM_INV_REQ_ERR,
                    IBV_WC_REM_ACCESS_ERR,
                    IBV_WC_REM_OP_ERR ->
                    true;
            default -> false;
        };
    }

    /// How a request ended, for people.
    public static String describe(long wc) {
        int status = status(wc);
        return "%s (status %d, vendor's error %d)".formatted(text(status), status, vendorError(wc));
    }

    /// What a status means, in the words of `ibv_wc_status_str`.
    public static String text(int status) {
        return switch (status) {
            case IBV_WC_SUCCESS -> "success";
            case IBV_WC_LOC_LEN_ERR -> "local length error";
            case IBV_WC_LOC_QP_OP_ERR -> "local QP operation error";
            case IBV_WC_LOC_PROT_ERR -> "local protection error";
            case IBV_WC_WR_FLUSH_ERR -> "Work Request Flushed Error";
            case IBV_WC_REM_INV_REQ_ERR -> "remote invalid request error";
            case IBV_WC_REM_ACCESS_ERR -> "remote access error";
            case IBV_WC_REM_OP_ERR -> "remote operation error";
            case IBV_WC_RETRY_EXC_ERR -> "transport retry counter exceeded";
            case IBV_WC_RNR_RETRY_EXC_ERR -> "RNR retry counter exceeded";
            default -> "completion status " + status;
        };
    }
}

package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.memory.Raw;

/// `struct ibv_recv_wr`, by address. The caller owns the memory, which the provider reads during
/// `ibv_post_recv` only.
public final class ReceiveRequest {
    /// `sizeof(struct ibv_recv_wr)`
    public static final int BYTES = 32;

    static final int WR_ID = 0;
    static final int NEXT = 8;
    static final int SG_LIST = 16;
    static final int NUM_SGE = 24;

    private ReceiveRequest() {}

    /// Writes a request.
    ///
    /// @param next address of the next one of the list, or 0
    /// @param sge address of `sges` [Sge]s
    public static void set(long wr, long id, long next, long sge, int sges) {
        Raw.ALL.set(JAVA_LONG, wr + WR_ID, id);
        Raw.ALL.set(JAVA_LONG, wr + NEXT, next);
        Raw.ALL.set(JAVA_LONG, wr + SG_LIST, sge);
        Raw.ALL.set(JAVA_INT, wr + NUM_SGE, sges);
    }

    public static long id(long wr) {
        return Raw.ALL.get(JAVA_LONG, wr + WR_ID);
    }

    public static long next(long wr) {
        return Raw.ALL.get(JAVA_LONG, wr + NEXT);
    }
}

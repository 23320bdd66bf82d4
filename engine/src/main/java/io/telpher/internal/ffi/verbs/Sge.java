package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.memory.Raw;

/// `struct ibv_sge`, by address: a range of registered local memory.
public final class Sge {
    /// `sizeof(struct ibv_sge)`
    public static final int BYTES = 16;

    static final int ADDR = 0;
    static final int LENGTH = 8;
    static final int LKEY = 12;

    private Sge() {}

    public static void set(long sge, long address, int length, int lkey) {
        Raw.ALL.set(JAVA_LONG, sge + ADDR, address);
        Raw.ALL.set(JAVA_INT, sge + LENGTH, length);
        Raw.ALL.set(JAVA_INT, sge + LKEY, lkey);
    }

    public static long address(long sge) {
        return Raw.ALL.get(JAVA_LONG, sge + ADDR);
    }

    public static int length(long sge) {
        return Raw.ALL.get(JAVA_INT, sge + LENGTH);
    }

    public static int lkey(long sge) {
        return Raw.ALL.get(JAVA_INT, sge + LKEY);
    }
}

package io.telpher.internal.transport.shm;

import static io.telpher.internal.memory.Raw.ALL;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.invoke.VarHandle;

/// Atomic access to 64-bit words in memory that processes share. Every word lies at a multiple of
/// 8, and words that different processes write lie 128 bytes apart, since some processors fetch
/// cache lines in pairs.
///
/// The methods take addresses and check nothing. Whoever calls them owns the mapping, whose end is
/// kept away by the token under which it uses the address.
final class Words {
    /// A word at (segment, byte offset).
    static final VarHandle WORD = JAVA_LONG.varHandle();

    private Words() {}

    static long get(long address) {
        return ALL.get(JAVA_LONG, address);
    }

    static void set(long address, long value) {
        ALL.set(JAVA_LONG, address, value);
    }

    static long getOpaque(long address) {
        return (long) WORD.getOpaque(ALL, address);
    }

    static void setOpaque(long address, long value) {
        WORD.setOpaque(ALL, address, value);
    }

    static long getAcquire(long address) {
        return (long) WORD.getAcquire(ALL, address);
    }

    static void setRelease(long address, long value) {
        WORD.setRelease(ALL, address, value);
    }

    static void setVolatile(long address, long value) {
        WORD.setVolatile(ALL, address, value);
    }

    static boolean compareAndSet(long address, long expected, long value) {
        return WORD.compareAndSet(ALL, address, expected, value);
    }
}

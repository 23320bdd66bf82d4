package io.telpher.internal.transport.shm;

import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;

/// Atomic access to 64-bit words in memory that processes share. Every word lies at a multiple of
/// 8, and words that different processes write lie 128 bytes apart, since some processors fetch
/// cache lines in pairs.
final class Words {
    /// A word at (segment, byte offset).
    static final VarHandle WORD = ValueLayout.JAVA_LONG.varHandle();

    private Words() {}
}

package io.telpher.internal.ffi;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/// A little memory per thread for small results and arguments, so that calls allocate nothing.
/// Freed with the thread. It belongs to a binding only from its entry to its return; bindings that
/// use it do not call each other in between.
public final class Scratch {
    /// Its size, enough for the largest small structure of the bindings.
    public static final long BYTES = 512;

    private static final ThreadLocal<MemorySegment> CURRENT =
            ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(BYTES, 64));

    private Scratch() {}

    /// The calling thread's.
    public static MemorySegment current() {
        return CURRENT.get();
    }
}

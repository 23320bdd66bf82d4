package io.telpher.internal.memory;

import java.lang.foreign.MemorySegment;

/// Memory by address.
public final class Raw {
    /// All memory, from address 0 on. A constant, so that compiled code is left without checks of
    /// life and bounds, which cost a tenth of a small message. Whoever uses it answers for the
    /// addresses.
    public static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private Raw() {}
}

package io.telpher.contract;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;

/// Small things with bytes.
final class Bytes {
    static final ValueLayout.OfByte BYTE = JAVA_BYTE;
    private static final VarHandle LONG = JAVA_LONG.varHandle();

    private Bytes() {}

    /// Reads a word that another process may change.
    static long acquire(MemorySegment memory, long offset) {
        return (long) LONG.getAcquire(memory, offset);
    }

    /// Publishes a word to another process.
    static void release(MemorySegment memory, long offset, long value) {
        LONG.setRelease(memory, offset, value);
    }

    /// @return off-heap memory with these bytes
    static MemorySegment off(byte[] bytes) {
        MemorySegment memory = Arena.ofAuto().allocate(Math.max(1, bytes.length), 8);
        MemorySegment.copy(bytes, 0, memory, JAVA_BYTE, 0, bytes.length);
        return memory.asSlice(0, bytes.length);
    }

    /// @return off-heap memory with the content of a seed
    static MemorySegment off(long length, long seed) {
        MemorySegment memory = Arena.ofAuto().allocate(Math.max(1, length), 8).asSlice(0, length);
        Content.fill(memory, 0, length, seed);
        return memory;
    }
}

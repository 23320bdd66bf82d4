package io.telpher.internal.ffi.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/// The arguments of a kernel: a slot of eight bytes for each parameter, and the array of pointers
/// to them that a launch takes. Made once per kernel and thread, and set again for each launch: the
/// driver copies the values before the launch returns. Not thread-safe; lives as long as its arena.
public final class KernelArguments {
    private final MemorySegment values;
    private final MemorySegment pointers;

    /// For a kernel with this many parameters, each of at most eight bytes.
    public KernelArguments(Arena arena, int count) {
        values = arena.allocate(ValueLayout.JAVA_LONG, count);
        pointers = arena.allocate(ValueLayout.JAVA_LONG, count);
        for (int i = 0; i < count; i++) {
            pointers.setAtIndex(ValueLayout.JAVA_LONG, i, values.address() + 8L * i);
        }
    }

    /// Sets a parameter of eight bytes: a pointer, a `size_t`, a `uint64_t`.
    public void set(int index, long value) {
        values.setAtIndex(ValueLayout.JAVA_LONG, index, value);
    }

    /// Sets a parameter of four bytes.
    public void set(int index, int value) {
        values.set(ValueLayout.JAVA_INT, 8L * index, value);
    }

    /// Sets a parameter that is a structure of any size: where it stands now. The memory must be
    /// there until the launch returns.
    public void point(int index, long address) {
        pointers.setAtIndex(ValueLayout.JAVA_LONG, index, address);
    }

    /// `void **kernelParams`
    MemorySegment pointers() {
        return pointers;
    }
}

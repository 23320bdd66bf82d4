package io.telpher.internal.ffi.linux;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/// What a thread needs around a system call: the place where the downcall leaves errno, and a
/// little scratch memory for small arguments, so that calls allocate nothing. One per thread,
/// virtual ones included; freed with the thread.
///
/// The scratch memory belongs to a binding only from its entry to its return; bindings that use it
/// do not call each other in between.
final class CallState {
    static final long SCRATCH_BYTES = 192;

    private static final long ERRNO_OFFSET =
            LibC.STATE.byteOffset(PathElement.groupElement("errno"));
    private static final ThreadLocal<CallState> CURRENT = ThreadLocal.withInitial(CallState::new);

    final MemorySegment errno;
    final MemorySegment scratch;

    private CallState() {
        MemorySegment block = Arena.ofAuto().allocate(64 + SCRATCH_BYTES, 64);
        errno = block.asSlice(0, LibC.STATE);
        scratch = block.asSlice(64, SCRATCH_BYTES);
    }

    static CallState current() {
        return CURRENT.get();
    }

    int result(int returned) {
        return returned == -1 ? -errno.get(ValueLayout.JAVA_INT, ERRNO_OFFSET) : returned;
    }

    long result(long returned) {
        return returned == -1 ? -errno.get(ValueLayout.JAVA_INT, ERRNO_OFFSET) : returned;
    }
}

package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// The kernel's view of its own clock.
public final class Clocks {
    /// Result of [#adjtimex()]: the clock follows no other.
    public static final int TIME_ERROR = 5;

    static final int TIMEX_BYTES = 208;

    /// `int adjtimex(struct timex *buf)`
    private static final MethodHandle ADJTIMEX =
            LibC.link("adjtimex", FunctionDescriptor.of(JAVA_INT, ADDRESS));

    private Clocks() {}

    /// Reads the clock's state and changes nothing. Returns it, 0 to [#TIME_ERROR].
    public static int adjtimex() {
        CallState call = CallState.current();
        try (Arena arena = Arena.ofConfined()) {
            // All zero: no field is to be set.
            MemorySegment timex = arena.allocate(TIMEX_BYTES, 8);
            return call.result((int) ADJTIMEX.invokeExact(call.errno, timex));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }
}

package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import org.jspecify.annotations.Nullable;

/// The environment as C code sees it now. `System.getenv` is a copy from the start of the JVM: what
/// an embedding program set later is missing there.
public final class Environment {
    /// `char *getenv(const char *name)`
    private static final MethodHandle GETENV =
            LibC.linkPlain("getenv", FunctionDescriptor.of(ADDRESS, ADDRESS));

    private Environment() {}

    /// The value of a variable, or null. Not safe against another thread that changes the
    /// environment meanwhile.
    public static @Nullable String getenv(String name) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment cName = arena.allocateFrom(name);
            MemorySegment value = (MemorySegment) GETENV.invokeExact(cName);
            return value.address() == 0 ? null : value.reinterpret(Long.MAX_VALUE).getString(0);
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }
}

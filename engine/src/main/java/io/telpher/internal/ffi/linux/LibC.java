package io.telpher.internal.ffi.linux;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.util.Objects;

/// Linking helpers for the bindings of this package. All symbols are in glibc 2.27 and later.
final class LibC {
    /// True on x86-64, false on aarch64: the two differ in a few syscall numbers and in `struct
    /// epoll_event`.
    static final boolean X86_64 = "amd64".equals(System.getProperty("os.arch"));

    static final StructLayout STATE = Linker.Option.captureStateLayout();

    private static final Linker LINKER = Linker.nativeLinker();
    private static final SymbolLookup SYMBOLS = LINKER.defaultLookup();
    private static final Linker.Option CAPTURE_ERRNO = Linker.Option.captureCallState("errno");

    private LibC() {}

    /// Links a function that reports by errno; the handle takes the thread's [CallState#errno]
    /// first.
    static MethodHandle link(String name, FunctionDescriptor descriptor) {
        return LINKER.downcallHandle(symbol(name), descriptor, CAPTURE_ERRNO);
    }

    /// Links a variadic function that reports by errno: `fixed` parameters stand before the dots.
    static MethodHandle linkVariadic(String name, int fixed, FunctionDescriptor descriptor) {
        return LINKER.downcallHandle(
                symbol(name), descriptor, CAPTURE_ERRNO, Linker.Option.firstVariadicArg(fixed));
    }

    /// Links a function that never touches errno, or whose errno nobody needs. To find the place
    /// for errno a capturing handle makes a slice, 40 bytes of the heap wherever C2 has inlined too
    /// deep to see that nobody keeps it. A hot call that can be made again without harm is made
    /// this way, and once more by a capturing handle when it fails.
    static MethodHandle linkPlain(String name, FunctionDescriptor descriptor) {
        return LINKER.downcallHandle(symbol(name), descriptor);
    }

    private static MemorySegment symbol(String name) {
        return SYMBOLS.find(name)
                .orElseThrow(
                        () ->
                                new IllegalStateException(
                                        "the C library of this system lacks " + name));
    }

    /// Turns what a downcall threw into something unchecked. Downcalls throw unchecked exceptions
    /// only (a closed arena, a heap segment), so the last line is never reached.
    static RuntimeException unexpected(Throwable thrown) {
        switch (thrown) {
            case RuntimeException e -> throw e;
            case Error e -> throw e;
            default -> throw new AssertionError(thrown);
        }
    }

    /// Keeps the kernel inside the segment: refuses a length that the segment does not have.
    static void checkLength(MemorySegment segment, long length) {
        Objects.checkFromIndexSize(0L, length, segment.byteSize());
    }
}

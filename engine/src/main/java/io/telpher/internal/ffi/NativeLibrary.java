package io.telpher.internal.ffi;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.TelpherException;
import io.telpher.spi.Availability;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A shared library that this machine may lack. It is opened once and stays open. What it lacks
/// costs nobody a class: a missing library, or a function that its version does not have, gives a
/// handle that throws [TelpherException.Unsupported] when it is called.
public final class NativeLibrary {
    private static final Linker LINKER = Linker.nativeLinker();

    private static final int RTLD_NOW = 2;
    private static final int RTLD_DI_LINKMAP = 2;

    /// `struct link_map`: the address of the path that the library was loaded from
    private static final int LINK_MAP_NAME = 8;

    private final String name;
    private final long handle;
    private final Availability availability;

    private NativeLibrary(String name, long handle, Availability availability) {
        this.name = name;
        this.handle = handle;
        this.availability = availability;
    }

    /// Opens the first candidate that can be opened.
    ///
    /// @param name what people call the library
    /// @param property a system property that overrides the candidates with one file, so that tests
    ///     and unusual installations can name it; its value is never looked for anywhere else
    /// @param candidates sonames, which the loader looks for, and absolute paths
    /// @param remedy what to do where none can be opened
    public static NativeLibrary open(
            String name, String property, List<String> candidates, String remedy) {
        @Nullable String override = System.getProperty(property);
        List<String> errors = new ArrayList<>();
        for (String candidate : override == null ? candidates : List.of(override)) {
            try (Arena arena = Arena.ofConfined()) {
                long handle =
                        (long) Loader.DLOPEN.invokeExact(arena.allocateFrom(candidate), RTLD_NOW);
                if (handle != 0) {
                    String path = path(handle, candidate);
                    return new NativeLibrary(name, handle, new Availability.Available(path));
                }
                errors.add(string((MemorySegment) Loader.DLERROR.invokeExact()));
            } catch (Throwable t) {
                throw unexpected(t);
            }
        }
        // The first candidate is the one that people expect; the others only repeat it elsewhere.
        String reason = "no " + name + ": " + errors.getFirst();
        String hint = override == null ? remedy : "correct or leave out -D" + property;
        return new NativeLibrary(name, 0, new Availability.Missing(reason, hint));
    }

    /// Whether the library was opened, with the path of its file.
    public Availability availability() {
        return availability;
    }

    /// Whether the library was opened and has this function.
    public boolean has(String symbol) {
        return find(symbol) != 0;
    }

    /// Links the first of these functions that the library has: they differ in the version of their
    /// name, not in their parameters.
    public MethodHandle link(FunctionDescriptor descriptor, String... symbols) {
        for (String symbol : symbols) {
            long address = find(symbol);
            if (address != 0) {
                return LINKER.downcallHandle(MemorySegment.ofAddress(address), descriptor);
            }
        }
        return refusal(descriptor.toMethodType(), missing(symbols[symbols.length - 1]));
    }

    /// Links a function that reports by errno; the handle takes a segment first, of
    /// [Linker.Option#captureStateLayout], where errno is left.
    public MethodHandle linkErrno(FunctionDescriptor descriptor, String symbol) {
        long address = find(symbol);
        return address == 0
                ? refusal(
                        descriptor.toMethodType().insertParameterTypes(0, MemorySegment.class),
                        missing(symbol))
                : LINKER.downcallHandle(
                        MemorySegment.ofAddress(address),
                        descriptor,
                        Linker.Option.captureCallState("errno"));
    }

    /// Links a function that reports by its `int` result; where it is missing, the handle returns
    /// `absent` and does nothing.
    public MethodHandle link(int absent, FunctionDescriptor descriptor, String symbol) {
        return has(symbol)
                ? link(descriptor, symbol)
                : MethodHandles.dropArguments(
                        MethodHandles.constant(int.class, absent),
                        0,
                        descriptor.toMethodType().parameterList());
    }

    /// Turns what a downcall threw into something unchecked. Downcalls throw unchecked exceptions
    /// only (a closed arena, a heap segment, a missing library), so the last line is never reached.
    public static RuntimeException unexpected(Throwable thrown) {
        switch (thrown) {
            case RuntimeException e -> throw e;
            case Error e -> throw e;
            default -> throw new AssertionError(thrown);
        }
    }

    /// A C string that a library returned; "" for a null pointer.
    public static String string(MemorySegment pointer) {
        return pointer.address() == 0 ? "" : pointer.reinterpret(Integer.MAX_VALUE).getString(0);
    }

    /// The arguments of a call, for messages. Large numbers are shown as addresses.
    public static List<String> arguments(Object... arguments) {
        return Arrays.stream(arguments)
                .map(
                        argument ->
                                argument instanceof Long number && number >>> 32 != 0
                                        ? "0x" + Long.toHexString(number)
                                        : argument.toString())
                .toList();
    }

    private String missing(String symbol) {
        return switch (availability) {
            case Availability.Missing(String reason, String remedy) -> reason + "; " + remedy;
            case Availability.Available(String path) ->
                    name + " (" + path + ") has no " + symbol + ": a newer version has it";
        };
    }

    private long find(String symbol) {
        if (handle == 0) {
            return 0;
        }
        try (Arena arena = Arena.ofConfined()) {
            return (long) Loader.DLSYM.invokeExact(handle, arena.allocateFrom(symbol));
        } catch (Throwable t) {
            throw unexpected(t);
        }
    }

    private static MethodHandle refusal(MethodType type, String message) {
        MethodHandle thrower =
                MethodHandles.throwException(type.returnType(), TelpherException.Unsupported.class);
        MethodHandle always =
                MethodHandles.foldArguments(
                        thrower, MethodHandles.insertArguments(Loader.UNSUPPORTED, 0, message));
        return MethodHandles.dropArguments(always, 0, type.parameterList());
    }

    private static String path(long handle, String candidate) throws Throwable {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment map = arena.allocate(ADDRESS);
            int result = (int) Loader.DLINFO.invokeExact(handle, RTLD_DI_LINKMAP, map);
            if (result != 0) {
                return candidate;
            }
            MemorySegment linkMap = map.get(ADDRESS, 0).reinterpret(LINK_MAP_NAME + 8L);
            String path = string(linkMap.get(ADDRESS, LINK_MAP_NAME));
            return path.isEmpty() ? candidate : path;
        }
    }

    /// Apart, so that asking for a library is what links the loader's functions.
    private static final class Loader {
        /// `void *dlopen(const char *filename, int flags)`
        static final MethodHandle DLOPEN =
                loader("dlopen", FunctionDescriptor.of(JAVA_LONG, ADDRESS, JAVA_INT));

        /// `char *dlerror(void)`
        static final MethodHandle DLERROR = loader("dlerror", FunctionDescriptor.of(ADDRESS));

        /// `void *dlsym(void *handle, const char *symbol)`
        static final MethodHandle DLSYM =
                loader("dlsym", FunctionDescriptor.of(JAVA_LONG, JAVA_LONG, ADDRESS));

        /// `int dlinfo(void *handle, int request, void *info)`
        static final MethodHandle DLINFO =
                loader("dlinfo", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT, ADDRESS));

        /// The constructor of the exception that stands for what is missing
        static final MethodHandle UNSUPPORTED = constructor();

        private static MethodHandle constructor() {
            try {
                return MethodHandles.lookup()
                        .findConstructor(
                                TelpherException.Unsupported.class,
                                MethodType.methodType(void.class, String.class));
            } catch (ReflectiveOperationException e) {
                throw new AssertionError(e);
            }
        }

        private static MethodHandle loader(String name, FunctionDescriptor descriptor) {
            return LINKER.downcallHandle(LINKER.defaultLookup().findOrThrow(name), descriptor);
        }
    }
}

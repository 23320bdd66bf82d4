package io.telpher.python;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The table of functions for Python (docs/python.md). Each static method `long name(long)` of the
/// classes in [#CALLS] is one, under its name: it takes a handle or the address of a request, and
/// returns a handle or a number, or minus the handle of a [Failure].
///
/// Layout: version 8, count 8, address and length of the names, which are one text with a line for
/// each, then the functions' addresses. It is never freed.
final class Bridge {
    /// Raised whenever a request or a result changes its meaning; `_table.py` has the same.
    private static final long VERSION = 8;

    private static final Class<?>[] CALLS = {
        EndpointCalls.class,
        ConnectionCalls.class,
        PieceCalls.class,
        TransferCalls.class,
        ObjectCalls.class,
        GroupCalls.class
    };

    static final Handles HANDLES = new Handles();

    private static final MethodType SHAPE = MethodType.methodType(long.class, long.class);

    /// Let go when the heap is full: whoever hears of that needs some memory to give others back.
    private static final int RESERVE = 1 << 18;

    private static volatile byte @Nullable [] reserve = new byte[RESERVE];

    /// For when there is no memory to say that there is no memory.
    private static final long NO_MEMORY =
            -HANDLES.keep(Failure.ready(new OutOfMemoryError("Java heap space")));

    private Bridge() {}

    /// Called by JNI.
    ///
    /// @return the table's address
    static long table() {
        try {
            List<String> names = new ArrayList<>();
            List<MemorySegment> functions = new ArrayList<>();
            MethodHandles.Lookup lookup = MethodHandles.lookup();
            MethodHandle failed =
                    lookup.findStatic(
                            Bridge.class,
                            "failed",
                            MethodType.methodType(long.class, Throwable.class));
            Linker linker = Linker.nativeLinker();
            FunctionDescriptor shape = FunctionDescriptor.of(JAVA_LONG, JAVA_LONG);
            for (Class<?> calls : CALLS) {
                for (Method method : calls.getDeclaredMethods()) {
                    MethodType type =
                            MethodType.methodType(
                                    method.getReturnType(), method.getParameterTypes());
                    if (!type.equals(SHAPE) || Modifier.isPrivate(method.getModifiers())) {
                        continue;
                    }
                    // What escapes an upcall ends the process.
                    MethodHandle guarded =
                            MethodHandles.catchException(
                                    lookup.unreflect(method), Throwable.class, failed);
                    names.add(method.getName());
                    functions.add(linker.upcallStub(guarded, shape, Arena.global()));
                }
            }
            byte[] text = String.join("\n", names).getBytes(StandardCharsets.UTF_8);
            MemorySegment nameText = Arena.global().allocate(text.length);
            nameText.copyFrom(MemorySegment.ofArray(text));
            MemorySegment table = Arena.global().allocate(JAVA_LONG, 4L + functions.size());
            table.setAtIndex(JAVA_LONG, 0, VERSION);
            table.setAtIndex(JAVA_LONG, 1, functions.size());
            table.setAtIndex(JAVA_LONG, 2, nameText.address());
            table.setAtIndex(JAVA_LONG, 3, text.length);
            for (int i = 0; i < functions.size(); i++) {
                table.setAtIndex(JAVA_LONG, 4L + i, functions.get(i).address());
            }
            return table.address();
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("the table of functions cannot be made", e);
        }
    }

    /// Keeps what was thrown until Python asks. Throws nothing, whatever happens: there may be no
    /// memory, or no room left on the stack.
    static long failed(Throwable thrown) {
        try {
            if (thrown instanceof OutOfMemoryError) {
                reserve = null;
            }
            return -HANDLES.put(
                    thrown instanceof Ended ended ? ended.failure : Failure.of(thrown, null));
        } catch (Throwable _) {
            reserve = null;
            return NO_MEMORY;
        }
    }

    /// Memory has been given back.
    static void reserve() {
        if (reserve == null) {
            reserve = new byte[RESERVE];
        }
    }
}

package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// The operations on providers of the test's own: contexts whose functions are Java's, or one of
/// the C library that does nothing.
class VerbsOperationsTest {
    private static final Linker LINKER = Linker.nativeLinker();

    private final Arena arena = Arena.ofShared();
    private final List<String> calls = new ArrayList<>();

    /// Two providers: what belongs to one must never reach the other.
    private MemorySegment pair;

    private MemorySegment queue;
    private MemorySegment otherPair;

    @BeforeEach
    void makeProviders() throws ReflectiveOperationException {
        MemorySegment context = arena.allocate(400, 8);
        context.set(JAVA_LONG, VerbsOperations.CONTEXT_POST_SEND, post("send", 0));
        context.set(JAVA_LONG, VerbsOperations.CONTEXT_POST_RECV, post("receive", 12));
        context.set(JAVA_LONG, VerbsOperations.CONTEXT_POLL_CQ, noOperation());
        context.set(JAVA_LONG, VerbsOperations.CONTEXT_REQ_NOTIFY_CQ, notification());
        MemorySegment other = arena.allocate(400, 8);
        other.set(JAVA_LONG, VerbsOperations.CONTEXT_POST_SEND, post("other", 7));
        pair = objectOf(context);
        queue = objectOf(context);
        otherPair = objectOf(other);
    }

    @AfterEach
    void close() {
        arena.close();
    }

    private MemorySegment objectOf(MemorySegment context) {
        MemorySegment object = arena.allocate(160, 8);
        object.set(JAVA_LONG, 0, context.address());
        return object;
    }

    private long post(String name, int result) throws ReflectiveOperationException {
        MethodHandle target =
                MethodHandles.lookup()
                        .bind(
                                this,
                                "posted",
                                MethodType.methodType(
                                        int.class,
                                        String.class,
                                        int.class,
                                        long.class,
                                        long.class,
                                        long.class));
        FunctionDescriptor type = FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG);
        return LINKER.upcallStub(
                        MethodHandles.insertArguments(target, 0, name, result), type, arena)
                .address();
    }

    private long notification() throws ReflectiveOperationException {
        MethodHandle target =
                MethodHandles.lookup()
                        .bind(
                                this,
                                "notified",
                                MethodType.methodType(int.class, long.class, int.class));
        FunctionDescriptor type = FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT);
        return LINKER.upcallStub(target, type, arena).address();
    }

    /// Takes anything, allocates nothing, returns a number.
    private static long noOperation() {
        return LINKER.defaultLookup().findOrThrow("getppid").address();
    }

    @SuppressWarnings("unused") // called from C
    private int posted(String name, int result, long queuePair, long request, long bad) {
        calls.add(name + " " + (queuePair == pair.address() ? "" : "not ours ") + request);
        MemorySegment.ofAddress(bad).reinterpret(8).set(JAVA_LONG, 0, request + 1);
        return result;
    }

    @SuppressWarnings("unused") // called from C
    private int notified(long completionQueue, int solicitedOnly) {
        calls.add("notify " + (completionQueue == queue.address()) + " " + solicitedOnly);
        return 5;
    }

    @Test
    void operationsReachTheProviderOfTheirObject() {
        MemorySegment bad = arena.allocate(8);
        long at = pair.address();
        assertThat(VerbsOperations.postSend(at, 100, bad.address())).isZero();
        assertThat(bad.get(JAVA_LONG, 0)).isEqualTo(101);
        assertThat(VerbsOperations.postReceive(at, 200, bad.address())).isEqualTo(12);
        assertThat(VerbsOperations.postSend(otherPair.address(), 300, bad.address())).isEqualTo(7);
        assertThat(VerbsOperations.postSend(at, 400, bad.address())).isZero();
        assertThat(VerbsOperations.requestNotify(queue.address(), 1)).isEqualTo(5);
        assertThat(VerbsOperations.poll(queue.address(), 1, 0)).isPositive();
        assertThat(calls)
                .containsExactly(
                        "send 100",
                        "receive 200",
                        "other not ours 300",
                        "send 400",
                        "notify true 1");
    }

    @Test
    void operationsAllocateNothing() {
        MemorySegment context = arena.allocate(400, 8);
        context.set(JAVA_LONG, VerbsOperations.CONTEXT_POST_SEND, noOperation());
        context.set(JAVA_LONG, VerbsOperations.CONTEXT_POLL_CQ, noOperation());
        long quietPair = objectOf(context).address();
        long quietQueue = objectOf(context).address();
        ThreadMXBean thread = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long allocated = Long.MAX_VALUE;
        int operations = 50_000;
        // The first rounds compile.
        for (int round = 0; round < 6; round++) {
            long before = thread.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < operations; i++) {
                VerbsOperations.postSend(quietPair, 0, 0);
                VerbsOperations.poll(quietQueue, 1, 0);
            }
            allocated = Math.min(allocated, thread.getCurrentThreadAllocatedBytes() - before);
        }
        assertThat(allocated).as("bytes of %d operations", 2 * operations).isLessThan(operations);
    }
}

package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// Completion queues, and the channels on which they say that they have something
/// ([VerbsOperations#requestNotify]). Any thread.
public final class VerbsCompletions {
    /// `struct ibv_comp_channel`: 8 fd
    static final int CHANNEL_FD = 8;

    /// `struct ibv_cq`: 28 cqe
    static final int CQ_CQE = 28;

    /// `struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)`
    private static final MethodHandle CREATE_COMP_CHANNEL =
            Verbs.link(FunctionDescriptor.of(JAVA_LONG, JAVA_LONG), "ibv_create_comp_channel");

    /// `int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)`
    private static final MethodHandle DESTROY_COMP_CHANNEL =
            Verbs.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "ibv_destroy_comp_channel");

    /// `struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct
    /// ibv_comp_channel *channel, int comp_vector)`
    private static final MethodHandle CREATE_CQ =
            Verbs.link(
                    FunctionDescriptor.of(
                            JAVA_LONG, JAVA_LONG, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_INT),
                    "ibv_create_cq");

    /// `int ibv_destroy_cq(struct ibv_cq *cq)`
    private static final MethodHandle DESTROY_CQ =
            Verbs.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG), "ibv_destroy_cq");

    /// `int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void
    /// **cq_context)`
    private static final MethodHandle GET_CQ_EVENT =
            Verbs.link(
                    FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS, JAVA_LONG),
                    "ibv_get_cq_event");

    /// `void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)`
    private static final MethodHandle ACK_CQ_EVENTS =
            Verbs.linkPlain(FunctionDescriptor.ofVoid(JAVA_LONG, JAVA_INT), "ibv_ack_cq_events");

    private VerbsCompletions() {}

    public static long createChannel(long context) {
        try {
            MemorySegment state = Verbs.state();
            long channel =
                    Verbs.pointer((long) CREATE_COMP_CHANNEL.invokeExact(state, context), state);
            return Verbs.checked(channel, "ibv_create_comp_channel", context);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The descriptor that is readable while [#tryGetEvent] has an event. It belongs to the
    /// channel, and blocks unless told otherwise.
    public static int descriptor(long channel) {
        return VerbsDevices.struct(channel, CHANNEL_FD + 4).get(JAVA_INT, CHANNEL_FD);
    }

    /// Destroys a channel that no completion queue uses any more. Returns 0 or the errno.
    public static int destroyChannel(long channel) {
        try {
            MemorySegment state = Verbs.state();
            return Verbs.error((int) DESTROY_COMP_CHANNEL.invokeExact(state, channel), state);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// @param entries how many completions it must hold; one more than it holds breaks it for good
    /// @param channel where it notifies, or 0
    /// @param vector which of the device's interrupts it uses
    public static long createQueue(long context, int entries, long channel, int vector) {
        try {
            MemorySegment state = Verbs.state();
            long queue =
                    Verbs.pointer(
                            (long)
                                    CREATE_CQ.invokeExact(
                                            state, context, entries, 0L, channel, vector),
                            state);
            return Verbs.checked(queue, "ibv_create_cq", context, entries, channel, vector);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// How many completions a queue holds: at least what was asked for.
    public static int entries(long queue) {
        return VerbsDevices.struct(queue, CQ_CQE + 4).get(JAVA_INT, CQ_CQE);
    }

    /// Destroys a completion queue that no queue pair uses any more. Waits until the events that
    /// [#tryGetEvent] has taken from it are acknowledged. Returns 0 or the errno.
    public static int destroyQueue(long queue) {
        try {
            MemorySegment state = Verbs.state();
            return Verbs.error((int) DESTROY_CQ.invokeExact(state, queue), state);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Takes the next event of a channel: the completion queue that it is of, which is owed an
    /// [#acknowledge], or minus errno: EAGAIN where the descriptor does not block and there is
    /// none.
    public static long tryGetEvent(long channel) {
        MemorySegment out = Scratch.current();
        try {
            MemorySegment state = Verbs.state();
            // The context goes where nobody looks: it was 0 when the queue was made.
            long unused = out.address() + Long.BYTES;
            int error =
                    Verbs.error((int) GET_CQ_EVENT.invokeExact(state, channel, out, unused), state);
            return error == 0 ? out.get(JAVA_LONG, 0) : -error;
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Acknowledges events of a completion queue. It takes a lock: better for many at once.
    public static void acknowledge(long queue, int events) {
        try {
            ACK_CQ_EVENTS.invokeExact(queue, events);
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }
}

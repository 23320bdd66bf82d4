package io.telpher.internal.ffi.verbs;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.Scratch;
import io.telpher.internal.ffi.linux.Errno;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Optional;

/// What devices tell by themselves: ports that go down and come back, queue pairs that break.
public final class VerbsEvents {
    public static final int IBV_EVENT_CQ_ERR = 0;
    public static final int IBV_EVENT_QP_FATAL = 1;
    public static final int IBV_EVENT_QP_REQ_ERR = 2;
    public static final int IBV_EVENT_QP_ACCESS_ERR = 3;
    public static final int IBV_EVENT_COMM_EST = 4;
    public static final int IBV_EVENT_SQ_DRAINED = 5;
    public static final int IBV_EVENT_DEVICE_FATAL = 8;
    public static final int IBV_EVENT_PORT_ACTIVE = 9;
    public static final int IBV_EVENT_PORT_ERR = 10;
    public static final int IBV_EVENT_LID_CHANGE = 11;
    public static final int IBV_EVENT_PKEY_CHANGE = 12;
    public static final int IBV_EVENT_SM_CHANGE = 13;
    public static final int IBV_EVENT_QP_LAST_WQE_REACHED = 16;
    public static final int IBV_EVENT_CLIENT_REREGISTER = 17;
    public static final int IBV_EVENT_GID_CHANGE = 18;

    /// `struct ibv_async_event`: 0 element (a pointer, or a port's number)   8 event_type   16 end
    static final int EVENT_BYTES = 16;

    static final int EVENT_ELEMENT = 0;
    static final int EVENT_PORT_NUM = 0;
    static final int EVENT_TYPE = 8;

    /// `int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)`
    private static final MethodHandle GET_ASYNC_EVENT =
            Verbs.link(FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS), "ibv_get_async_event");

    /// `void ibv_ack_async_event(struct ibv_async_event *event)`
    private static final MethodHandle ACK_ASYNC_EVENT =
            Verbs.linkPlain(FunctionDescriptor.ofVoid(ADDRESS), "ibv_ack_async_event");

    /// `const char *ibv_event_type_str(enum ibv_event_type event)`
    private static final MethodHandle EVENT_TYPE_STR =
            Verbs.linkPlain(FunctionDescriptor.of(ADDRESS, JAVA_INT), "ibv_event_type_str");

    private VerbsEvents() {}

    /// An event.
    ///
    /// @param type one of `IBV_EVENT_`
    /// @param element the port's number, or the address of the queue pair or completion queue,
    ///     which its owner may have destroyed by now: for comparing only
    public record Event(int type, long element) {}

    /// Takes the next event of a context and acknowledges it; empty where the context's descriptor
    /// ([VerbsDevices#asyncDescriptor]) does not block and there is none.
    public static Optional<Event> next(long context) {
        MemorySegment event = Scratch.current();
        try {
            MemorySegment state = Verbs.state();
            // Ports are 32 bits in the union.
            event.set(JAVA_LONG, EVENT_ELEMENT, 0);
            int error =
                    Verbs.error((int) GET_ASYNC_EVENT.invokeExact(state, context, event), state);
            if (error == Errno.EAGAIN || error == Errno.EINTR) {
                return Optional.empty();
            }
            Verbs.check(error, "ibv_get_async_event", context);
            int type = event.get(JAVA_INT, EVENT_TYPE);
            long element =
                    isPorts(type)
                            ? event.get(JAVA_INT, EVENT_PORT_NUM)
                            : event.get(JAVA_LONG, EVENT_ELEMENT);
            // At once, since destroying a queue pair waits for it.
            ACK_ASYNC_EVENT.invokeExact(event);
            return Optional.of(new Event(type, element));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// The library's text for a type of event, such as `port active`.
    public static String text(int type) {
        try {
            return NativeLibrary.string((MemorySegment) EVENT_TYPE_STR.invokeExact(type));
        } catch (Throwable t) {
            throw NativeLibrary.unexpected(t);
        }
    }

    /// Whether after an event of this type its queue pair, completion queue or device is of no use
    /// any more.
    public static boolean isFatal(int type) {
        return switch (type) {
            case IBV_EVENT_CQ_ERR,
                    IBV_EVENT_QP_FATAL,
                    IBV_EVENT_QP_REQ_ERR,
                    IBV_EVENT_QP_ACCESS_ERR,
                    IBV_EVENT_DEVICE_FATAL ->
                    true;
            default -> false;
        };
    }

    /// Whether an event of this type is about a port.
    public static boolean isPorts(int type) {
        return switch (type) {
            case IBV_EVENT_PORT_ACTIVE,
                    IBV_EVENT_PORT_ERR,
                    IBV_EVENT_LID_CHANGE,
                    IBV_EVENT_PKEY_CHANGE,
                    IBV_EVENT_SM_CHANGE,
                    IBV_EVENT_CLIENT_REREGISTER,
                    IBV_EVENT_GID_CHANGE ->
                    true;
            default -> false;
        };
    }
}

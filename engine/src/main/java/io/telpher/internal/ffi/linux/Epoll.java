package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.util.Objects;

/// Readiness of many descriptors. Only [#create] and [Events] allocate.
public final class Epoll {
    public static final int EPOLL_CLOEXEC = 0x80000;

    public static final int EPOLL_CTL_ADD = 1;
    public static final int EPOLL_CTL_DEL = 2;
    public static final int EPOLL_CTL_MOD = 3;

    public static final int EPOLLIN = 1;
    public static final int EPOLLPRI = 2;
    public static final int EPOLLOUT = 4;
    public static final int EPOLLERR = 8;
    public static final int EPOLLHUP = 0x10;
    public static final int EPOLLRDHUP = 0x2000;
    public static final int EPOLLEXCLUSIVE = 1 << 28;
    public static final int EPOLLONESHOT = 1 << 30;
    public static final int EPOLLET = 1 << 31;

    /// `struct epoll_event { uint32_t events; epoll_data_t data; }`, packed on x86-64 only.
    static final int EVENT_BYTES = LibC.X86_64 ? 12 : 16;

    static final int EVENT_EVENTS = 0;
    static final int EVENT_DATA = LibC.X86_64 ? 4 : 8;

    /// `int epoll_create1(int flags)`
    private static final MethodHandle EPOLL_CREATE1 =
            LibC.link("epoll_create1", FunctionDescriptor.of(JAVA_INT, JAVA_INT));

    /// `int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)`
    private static final MethodHandle EPOLL_CTL =
            LibC.link(
                    "epoll_ctl",
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS));

    /// `int epoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)`
    private static final MethodHandle EPOLL_WAIT =
            LibC.link(
                    "epoll_wait",
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT, JAVA_INT));

    private Epoll() {}

    /// Creates an epoll descriptor, close-on-exec.
    public static int create() {
        CallState call = CallState.current();
        try {
            return call.result((int) EPOLL_CREATE1.invokeExact(call.errno, EPOLL_CLOEXEC));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Watches a descriptor; `data` comes back with its events.
    public static int add(int epoll, int fd, int events, long data) {
        return control(epoll, EPOLL_CTL_ADD, fd, events, data);
    }

    /// Changes what a descriptor is watched for, or arms a one-shot one again.
    public static int modify(int epoll, int fd, int events, long data) {
        return control(epoll, EPOLL_CTL_MOD, fd, events, data);
    }

    public static int remove(int epoll, int fd) {
        return control(epoll, EPOLL_CTL_DEL, fd, 0, 0);
    }

    private static int control(int epoll, int operation, int fd, int events, long data) {
        CallState call = CallState.current();
        call.scratch.set(JAVA_INT, EVENT_EVENTS, events);
        call.scratch.set(JAVA_LONG_UNALIGNED, EVENT_DATA, data);
        try {
            return call.result(
                    (int) EPOLL_CTL.invokeExact(call.errno, epoll, operation, fd, call.scratch));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Waits until a descriptor is ready or the time is up (0 only looks, negative waits for ever).
    /// Returns how many entries of `events` are filled; `-EINTR` is reported.
    public static int await(int epoll, Events events, int timeoutMillis) {
        CallState call = CallState.current();
        try {
            return call.result(
                    (int)
                            EPOLL_WAIT.invokeExact(
                                    call.errno,
                                    epoll,
                                    events.segment,
                                    events.capacity,
                                    timeoutMillis));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// The array that [#await] fills. Used by one waiting thread at a time.
    public static final class Events {
        private final MemorySegment segment;
        private final int capacity;

        public Events(Arena arena, int capacity) {
            this.segment = arena.allocate((long) capacity * EVENT_BYTES, 8);
            this.capacity = capacity;
        }

        public int capacity() {
            return capacity;
        }

        /// The readiness bits of an entry.
        public int events(int index) {
            return segment.get(JAVA_INT, offset(index) + EVENT_EVENTS);
        }

        /// What [#add] or [#modify] was given for the descriptor.
        public long data(int index) {
            return segment.get(JAVA_LONG_UNALIGNED, offset(index) + EVENT_DATA);
        }

        private long offset(int index) {
            return (long) Objects.checkIndex(index, capacity) * EVENT_BYTES;
        }
    }
}

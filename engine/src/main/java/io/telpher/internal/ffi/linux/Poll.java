package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static java.lang.foreign.ValueLayout.JAVA_SHORT;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;

/// `poll` on one or two descriptors: for handshakes that block with a deadline. Nothing here
/// allocates.
///
/// A timeout is in milliseconds, rounded up by the caller; negative waits for ever. `-EINTR` is
/// reported, so that the caller can look at its deadline.
public final class Poll {
    public static final int POLLIN = 1;
    public static final int POLLPRI = 2;
    public static final int POLLOUT = 4;
    public static final int POLLERR = 8;
    public static final int POLLHUP = 0x10;
    public static final int POLLNVAL = 0x20;
    public static final int POLLRDHUP = 0x2000;

    /// `struct pollfd { int fd; short events; short revents; }`
    static final int POLLFD_BYTES = 8;

    static final int POLLFD_FD = 0;
    static final int POLLFD_EVENTS = 4;
    static final int POLLFD_REVENTS = 6;

    /// `int poll(struct pollfd *fds, nfds_t nfds, int timeout)`
    private static final MethodHandle POLL =
            LibC.link("poll", FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT));

    private Poll() {}

    /// Waits for one descriptor. Returns the events that are there, 0 when the time is up.
    public static int poll(int fd, int events, int timeoutMillis) {
        CallState call = CallState.current();
        request(call.scratch, 0, fd, events);
        int result = poll(call, 1, timeoutMillis);
        return result <= 0 ? result : found(call.scratch, 0);
    }

    /// Waits for either of two descriptors. Returns what [#first] and [#second] take apart, 0 when
    /// the time is up.
    public static int poll(int fd1, int events1, int fd2, int events2, int timeoutMillis) {
        CallState call = CallState.current();
        request(call.scratch, 0, fd1, events1);
        request(call.scratch, 1, fd2, events2);
        int result = poll(call, 2, timeoutMillis);
        return result <= 0 ? result : found(call.scratch, 0) | found(call.scratch, 1) << 16;
    }

    /// The events of the first descriptor in a result of the two-descriptor form.
    public static int first(int result) {
        return result & 0xffff;
    }

    /// The events of the second descriptor in a result of the two-descriptor form.
    public static int second(int result) {
        return result >>> 16;
    }

    private static void request(MemorySegment fds, int index, int fd, int events) {
        long offset = (long) index * POLLFD_BYTES;
        fds.set(JAVA_INT, offset + POLLFD_FD, fd);
        fds.set(JAVA_SHORT, offset + POLLFD_EVENTS, (short) events);
        fds.set(JAVA_SHORT, offset + POLLFD_REVENTS, (short) 0);
    }

    private static int found(MemorySegment fds, int index) {
        return fds.get(JAVA_SHORT, (long) index * POLLFD_BYTES + POLLFD_REVENTS) & 0x7fff;
    }

    private static int poll(CallState call, int count, int timeoutMillis) {
        try {
            return call.result(
                    (int) POLL.invokeExact(call.errno, call.scratch, (long) count, timeoutMillis));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }
}

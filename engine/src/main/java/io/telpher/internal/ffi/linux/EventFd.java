package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.invoke.MethodHandle;

/// Event descriptors: a kernel counter that wakes whoever polls it, in this process or another.
/// Nothing here allocates.
public final class EventFd {
    public static final int EFD_SEMAPHORE = 1;
    public static final int EFD_NONBLOCK = 0x800;
    public static final int EFD_CLOEXEC = 0x80000;

    /// `int eventfd(unsigned int initval, int flags)`
    private static final MethodHandle EVENTFD =
            LibC.link("eventfd", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));

    /// `int eventfd_write(int fd, eventfd_t value)`
    private static final MethodHandle EVENTFD_WRITE =
            LibC.link("eventfd_write", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_LONG));

    private EventFd() {}

    /// Creates one with the count 0, non-blocking and close-on-exec.
    public static int create() {
        return create(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }

    public static int create(int initial, int flags) {
        CallState call = CallState.current();
        try {
            return call.result((int) EVENTFD.invokeExact(call.errno, initial, flags));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Adds one and wakes the pollers. `-EAGAIN` (the counter is full) also means that they are
    /// awake.
    public static int signal(int fd) {
        return signal(fd, 1);
    }

    public static int signal(int fd, long value) {
        CallState call = CallState.current();
        try {
            int result;
            do {
                result = call.result((int) EVENTFD_WRITE.invokeExact(call.errno, fd, value));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Takes the count and leaves 0 behind; `-EAGAIN` if it was 0 already.
    public static long drain(int fd) {
        CallState call = CallState.current();
        long read = Descriptors.read(fd, call.scratch, 8);
        return read == 8 ? call.scratch.get(JAVA_LONG, 0) : read;
    }
}

package io.telpher.internal.transport.tcp;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/// A stream before it becomes a lane. It reads exactly what it was asked for, so that the lane
/// finds its first frame in the kernel.
///
/// One thread sends and receives; any thread may close, which ends a call that is waiting.
final class TcpChannel implements Channel {
    private static final int GONE = -1;

    /// Longest single wait, so that a close by another thread is seen even if its wake-up is lost.
    private static final int WAIT_MILLIS = 500;

    private final String text;
    private final Object lock = new Object();

    /// [#GONE] when it was closed or became a lane. Guarded by `lock`.
    private int descriptor;

    /// Whether a call is using the descriptor. Guarded by `lock`.
    private boolean busy;

    /// Whether the call that is using the descriptor closes it at its end. Guarded by `lock`.
    private boolean closing;

    /// @param descriptor a connected, non-blocking socket; it belongs to the channel from now on
    TcpChannel(int descriptor) {
        TcpSocket.prepare(descriptor);
        this.descriptor = descriptor;
        this.text = TcpSocket.describe(descriptor);
    }

    @Override
    public void send(byte[] bytes, Deadline deadline) {
        int fd = enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment copy = arena.allocateFrom(ValueLayout.JAVA_BYTE, bytes);
            long sent = 0;
            while (sent < bytes.length) {
                MemorySegment rest = copy.asSlice(sent);
                long n = Sockets.send(fd, rest, rest.byteSize(), Sockets.MSG_NOSIGNAL);
                if (n == -Errno.EAGAIN) {
                    await(fd, Poll.POLLOUT, deadline, "sending", sent, bytes.length);
                } else if (n < 0) {
                    throw lost(Errno.describe((int) n));
                } else {
                    sent += n;
                }
            }
        } finally {
            exit();
        }
    }

    @Override
    public byte[] receive(int length, Deadline deadline) {
        int fd = enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment buffer = arena.allocate(Math.max(1, length));
            long received = 0;
            while (received < length) {
                MemorySegment rest = buffer.asSlice(received, length - received);
                long n = Sockets.recv(fd, rest, rest.byteSize(), 0);
                if (n == -Errno.EAGAIN) {
                    await(fd, Poll.POLLIN, deadline, "receiving", received, length);
                } else if (n < 0) {
                    throw lost(Errno.describe((int) n));
                } else if (n == 0) {
                    throw lost(
                            "the peer closed the stream after "
                                    + received
                                    + " of "
                                    + length
                                    + " bytes");
                } else {
                    received += n;
                }
            }
            return buffer.asSlice(0, length).toArray(ValueLayout.JAVA_BYTE);
        } finally {
            exit();
        }
    }

    private void await(int fd, int events, Deadline deadline, String verb, long done, long all) {
        synchronized (lock) {
            if (closing) {
                throw new TelpherException.Closed(text + " was closed while " + verb);
            }
        }
        if (deadline.passed()) {
            throw new TelpherException.TimedOut(
                    "%s: the deadline passed while %s, after %d of %d bytes"
                            .formatted(text, verb, done, all));
        }
        Poll.poll(fd, events, Math.min(WAIT_MILLIS, deadline.leftMillis()));
    }

    private TelpherException lost(String why) {
        synchronized (lock) {
            return closing
                    ? new TelpherException.Closed(text + " was closed")
                    : new TelpherException.PeerLost(text + ": " + why);
        }
    }

    private int enter() {
        synchronized (lock) {
            if (descriptor == GONE || closing) {
                throw new TelpherException.Closed(text + " is closed");
            }
            if (busy) {
                throw new IllegalStateException(text + " is in use by another thread");
            }
            busy = true;
            return descriptor;
        }
    }

    private void exit() {
        synchronized (lock) {
            busy = false;
            if (closing) {
                Descriptors.close(descriptor);
                descriptor = GONE;
            }
        }
    }

    /// Takes the descriptor out, after which closing the channel does nothing.
    int detach() {
        synchronized (lock) {
            if (descriptor == GONE || closing || busy) {
                throw new TelpherException.Closed(text + " is closed or in use");
            }
            int fd = descriptor;
            descriptor = GONE;
            return fd;
        }
    }

    @Override
    public String text() {
        return text;
    }

    @Override
    public void close() {
        synchronized (lock) {
            if (descriptor == GONE || closing) {
                return;
            }
            if (busy) {
                // The number must not be given to another file under the waiting call.
                closing = true;
                Sockets.shutdown(descriptor, Sockets.SHUT_RDWR);
            } else {
                Descriptors.close(descriptor);
                descriptor = GONE;
            }
        }
    }
}

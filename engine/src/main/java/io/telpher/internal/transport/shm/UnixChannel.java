package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.FdPassing;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/// A Unix stream socket before it becomes a link. The socket is non-blocking; every call waits in
/// `poll` up to its deadline, so nothing can hold a thread longer.
///
/// Used by one thread; [#close()] may come from any: it shuts the socket down, which ends a call in
/// progress, and the descriptor is closed when nobody is inside.
final class UnixChannel implements Channel {
    private final int fd;
    private final String text;

    // Guarded by this.

    /// Calls in progress; the descriptor is not closed under them, since its number could come to
    /// mean something else.
    private int users;

    private boolean closed;

    /// The descriptor is not this object's any more: handed over, or closed.
    private boolean given;

    UnixChannel(int fd, String text) {
        this.fd = fd;
        this.text = text;
    }

    /// What arrived with descriptors, which are the receiver's from now on.
    record Parcel(byte[] bytes, int[] descriptors) {}

    @Override
    public void send(byte[] bytes, Deadline deadline) {
        send(bytes, deadline, new int[0]);
    }

    /// Sends all bytes; the descriptors travel with the first one and stay the sender's.
    void send(byte[] bytes, Deadline deadline, int[] descriptors) {
        if (bytes.length == 0) {
            return;
        }
        enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment all = arena.allocateFrom(JAVA_BYTE, bytes);
            long done = 0;
            while (done < bytes.length) {
                MemorySegment rest = all.asSlice(done);
                long sent =
                        done == 0 && descriptors.length > 0
                                ? FdPassing.send(fd, rest, descriptors)
                                : Sockets.send(fd, rest, rest.byteSize(), Sockets.MSG_NOSIGNAL);
                if (sent > 0) {
                    done += sent;
                } else if (sent == -Errno.EAGAIN) {
                    await(Poll.POLLOUT, deadline, "sending");
                } else {
                    throw broken("sending", Errno.describe((int) -sent));
                }
            }
        } finally {
            exit();
        }
    }

    @Override
    public byte[] receive(int length, Deadline deadline) {
        return receive(length, deadline, 0).bytes();
    }

    /// Receives exactly so many bytes, and the descriptors that travel with them.
    Parcel receive(int length, Deadline deadline, int maxDescriptors) {
        byte[] bytes = new byte[length];
        int[] descriptors = {};
        boolean complete = false;
        enter();
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment all = arena.allocate(Math.max(1, length));
            int done = 0;
            while (done < length) {
                FdPassing.Received received =
                        FdPassing.receive(fd, all.asSlice(done, length - done), maxDescriptors);
                if (received.descriptors().length > 0) {
                    closeAll(descriptors);
                    descriptors = received.descriptors();
                }
                if (received.truncated()) {
                    throw new TelpherException.Unsupported(
                            text + ": descriptors did not arrive; raise the limit (ulimit -n)");
                }
                if (received.bytes() > 0) {
                    done += (int) received.bytes();
                } else if (received.bytes() == 0) {
                    throw broken("receiving", "the peer closed the connection");
                } else if (received.bytes() == -Errno.EAGAIN) {
                    await(Poll.POLLIN, deadline, "receiving");
                } else {
                    throw broken("receiving", Errno.describe((int) -received.bytes()));
                }
            }
            MemorySegment.copy(all, JAVA_BYTE, 0, bytes, 0, length);
            complete = true;
            return new Parcel(bytes, descriptors);
        } finally {
            if (!complete) {
                closeAll(descriptors);
            }
            exit();
        }
    }

    /// Waits until the socket may be ready; what is wrong with it shows in the next call on it.
    private void await(int events, Deadline deadline, String doing) {
        int left = deadline.leftMillis();
        if (left == 0) {
            throw new TelpherException.TimedOut(text + ": the deadline passed while " + doing);
        }
        int result = Poll.poll(fd, events, left);
        if (result < 0 && result != -Errno.EINTR) {
            throw broken(doing, Errno.describe(-result));
        }
    }

    /// @return the failure of a stream that ended or broke
    private TelpherException broken(String doing, String why) {
        return new TelpherException.PeerLost(text + ": " + why + " while " + doing);
    }

    /// Closes descriptors that nobody will use.
    static void closeAll(int[] descriptors) {
        for (int descriptor : descriptors) {
            Mapping.closeDescriptor(descriptor);
        }
    }

    private synchronized void enter() {
        if (closed || given) {
            throw new TelpherException.Closed(text + " is closed");
        }
        users++;
    }

    private synchronized void exit() {
        users--;
        closeIfUnused();
    }

    private void closeIfUnused() {
        if (closed && users == 0 && !given) {
            given = true;
            int unused = Descriptors.close(fd);
        }
    }

    /// Hands the socket over to a link.
    ///
    /// @return the descriptor, the caller's from now on
    synchronized int give() {
        if (closed || given) {
            throw new TelpherException.Closed(text + " is closed");
        }
        given = true;
        return fd;
    }

    /// @return the descriptor, this object's
    int fd() {
        return fd;
    }

    @Override
    public String text() {
        return text;
    }

    @Override
    public synchronized void close() {
        if (!closed && !given) {
            closed = true;
            int unused = Sockets.shutdown(fd, Sockets.SHUT_RDWR);
            closeIfUnused();
        }
    }

    @Override
    public String toString() {
        return text;
    }
}

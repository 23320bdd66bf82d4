package io.telpher.internal.transport.tcp;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Epoll;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.SocketAddresses;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Deadline;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/// Makes one connection out of several addresses: each next attempt starts when the last one failed
/// or has been waiting for 200 ms, and the first that succeeds wins. Used once, by one thread,
/// which waits at most until the deadline.
final class TcpDialer {
    private static final long NEXT_AFTER_NANOS = TimeUnit.MILLISECONDS.toNanos(200);
    private static final int STREAM =
            Sockets.SOCK_STREAM | Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC;

    /// One address to try.
    ///
    /// @param remote where to
    /// @param local where from, or null
    /// @param device the interface to leave by, or null
    /// @param text both ends, for people
    record Attempt(
            InetSocketAddress remote,
            @Nullable InetSocketAddress local,
            @Nullable String device,
            String text) {}

    private final String what;
    private final List<Attempt> attempts;
    private final Deadline deadline;
    private final long began = System.nanoTime();
    private final List<String> failures = new ArrayList<>();

    /// Descriptors of attempts under way, -1 where none is.
    private final int[] open;

    private TcpDialer(String what, List<Attempt> attempts, Deadline deadline) {
        this.what = what;
        this.attempts = attempts;
        this.deadline = deadline;
        this.open = new int[attempts.size()];
        java.util.Arrays.fill(open, -1);
    }

    /// Connects.
    ///
    /// @param what names the peer, for errors
    /// @param attempts what to try, best first; not empty
    /// @return the descriptor of a connected, non-blocking socket
    static int dial(String what, List<Attempt> attempts, Deadline deadline) {
        TcpDialer dialer = new TcpDialer(what, attempts, deadline);
        int epoll = Epoll.create();
        if (epoll < 0) {
            throw Errno.failure(epoll, "epoll_create1");
        }
        try (Arena arena = Arena.ofConfined()) {
            return dialer.run(epoll, arena);
        } finally {
            for (int fd : dialer.open) {
                if (fd >= 0) {
                    Descriptors.close(fd);
                }
            }
            Descriptors.close(epoll);
        }
    }

    private int run(int epoll, Arena arena) {
        Epoll.Events events = new Epoll.Events(arena, Math.min(64, open.length));
        int next = 0;
        int waiting = 0;
        long nextAt = System.nanoTime();
        while (true) {
            while (next < open.length && (waiting == 0 || System.nanoTime() - nextAt >= 0)) {
                if (start(next, epoll, arena)) {
                    waiting++;
                }
                next++;
                nextAt = System.nanoTime() + NEXT_AFTER_NANOS;
            }
            if (waiting == 0 && next == open.length) {
                throw attempts.size() == 1
                        ? new TelpherException.ConnectFailed(failures.getFirst(), List.of())
                        : new TelpherException.ConnectFailed(
                                what + ": no address takes a connection", failures);
            }
            if (deadline.passed()) {
                throw timedOut();
            }
            int millis = deadline.leftMillis();
            if (next < open.length) {
                millis = Math.min(millis, millisUntil(nextAt));
            }
            int ready = Epoll.await(epoll, events, millis);
            for (int i = 0; i < ready; i++) {
                int index = (int) events.data(i);
                int error = outcome(open[index]);
                if (error == 0) {
                    int fd = open[index];
                    open[index] = -1;
                    // Out of the set: the descriptor lives on, the set does not.
                    Epoll.remove(epoll, fd);
                    return fd;
                }
                giveUp(index, error);
                waiting--;
                nextAt = System.nanoTime();
            }
        }
    }

    private static int millisUntil(long nanos) {
        return (int) Math.max(0, (nanos - System.nanoTime() + 999_999) / 1_000_000);
    }

    /// Begins one attempt.
    ///
    /// @return whether its outcome is awaited
    private boolean start(int index, int epoll, Arena arena) {
        Attempt attempt = attempts.get(index);
        boolean inet6 = attempt.remote().getAddress().getAddress().length == 16;
        int fd = Sockets.socket(inet6 ? Sockets.AF_INET6 : Sockets.AF_INET, STREAM, 0);
        if (fd < 0) {
            failures.add(attempt.text() + ": " + Errno.describe(fd));
            return false;
        }
        open[index] = fd;
        MemorySegment address = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
        InetSocketAddress local = attempt.local();
        String device = attempt.device();
        if (device != null) {
            // Needs no privilege since Linux 5.7; before that the routing table has to do.
            Sockets.setsockoptText(fd, Sockets.SOL_SOCKET, Sockets.SO_BINDTODEVICE, device);
        }
        int rc = 0;
        if (local != null) {
            // The port is chosen when connecting, so that one serves for several peers.
            Sockets.setsockopt(fd, Sockets.IPPROTO_IP, Sockets.IP_BIND_ADDRESS_NO_PORT, 1);
            rc = Sockets.bind(fd, address, SocketAddresses.encode(local, address));
        }
        if (rc >= 0) {
            rc = Sockets.connect(fd, address, SocketAddresses.encode(attempt.remote(), address));
        }
        if (rc < 0 && rc != -Errno.EINPROGRESS && rc != -Errno.EINTR) {
            giveUp(index, -rc);
            return false;
        }
        rc = Epoll.add(epoll, fd, Epoll.EPOLLOUT, index);
        if (rc < 0) {
            giveUp(index, -rc);
            return false;
        }
        return true;
    }

    /// @return 0 when the connection is there, else an errno
    private static int outcome(int fd) {
        long error = Sockets.getsockopt(fd, Sockets.SOL_SOCKET, Sockets.SO_ERROR);
        if (error != 0) {
            return (int) Math.abs(error);
        }
        // Where nobody listens on a port of the ephemeral range, a socket may meet itself there.
        InetSocketAddress local = TcpSocket.local(fd);
        boolean itself = local != null && local.equals(TcpSocket.peer(fd));
        return itself ? Errno.ECONNREFUSED : 0;
    }

    private void giveUp(int index, int errno) {
        Descriptors.close(open[index]);
        open[index] = -1;
        failures.add(attempts.get(index).text() + ": " + Errno.describe(errno));
    }

    private TelpherException timedOut() {
        List<String> parts = new ArrayList<>(failures);
        for (int i = 0; i < open.length; i++) {
            if (open[i] >= 0) {
                parts.add(attempts.get(i).text() + ": no answer");
            }
        }
        long millis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began);
        return new TelpherException.TimedOut(
                attempts.size() == 1
                        ? "%s within %d ms".formatted(parts.getFirst(), millis)
                        : "%s: no connection within %d ms: %s"
                                .formatted(what, millis, String.join("; ", parts)));
    }
}

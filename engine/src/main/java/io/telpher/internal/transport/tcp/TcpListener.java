package io.telpher.internal.transport.tcp;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.SocketAddresses;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Channel;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// A listening socket. [#accept] runs on the progress thread and takes a bounded burst, so that a
/// flood of connections cannot keep that thread from its lanes.
final class TcpListener implements AutoCloseable {
    private static final int BACKLOG = 4096;
    private static final int BURST = 64;
    private static final int STREAM =
            Sockets.SOCK_STREAM | Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC;

    private final int descriptor;
    private final int port;
    private final boolean inet6;

    /// Kept for the moment when the process has no descriptor left: giving it up lets one
    /// connection be taken and dropped. Otherwise the listener would stay readable and the progress
    /// thread would spin.
    private int reserve;

    private TcpListener(int descriptor, boolean inet6) {
        this.descriptor = descriptor;
        this.inet6 = inet6;
        this.port = Objects.requireNonNull(TcpSocket.local(descriptor)).getPort();
        this.reserve = reserve();
    }

    private static int reserve() {
        return Descriptors.open("/dev/null", Descriptors.O_RDONLY | Descriptors.O_CLOEXEC, 0);
    }

    /// Listens on every address, of both families where the system has both.
    ///
    /// @param port 0 lets the system choose
    static TcpListener everywhere(int port) {
        int fd = Sockets.socket(Sockets.AF_INET6, STREAM, 0);
        if (fd >= 0) {
            try {
                int rc = Sockets.setsockopt(fd, Sockets.IPPROTO_IPV6, Sockets.IPV6_V6ONLY, 0);
                if (rc < 0) {
                    throw refused(rc, "setsockopt", "[::]:" + port);
                }
                listen(fd, wildcard(16), port);
                return new TcpListener(fd, true);
            } catch (TelpherException.NativeFailure e) {
                Descriptors.close(fd);
                if (e.errno() != Errno.EADDRNOTAVAIL && e.errno() != Errno.EAFNOSUPPORT) {
                    throw e;
                }
            }
        }
        return at(wildcard(4), port);
    }

    /// Listens on one address.
    ///
    /// @param port 0 lets the system choose
    /// @param otherwise whether another port will do when that one is taken
    static TcpListener at(NetAddress address, int port, Fallback otherwise) {
        InetAddress ip = scoped(address.ip(), address.scope());
        try {
            return at(ip, port);
        } catch (TelpherException.NativeFailure e) {
            if (e.errno() != Errno.EADDRINUSE || otherwise != Fallback.ANY_PORT) {
                throw e;
            }
            return at(ip, 0);
        }
    }

    /// What to do when a port is taken.
    enum Fallback {
        /// Fail.
        NONE,
        /// Let the system choose another.
        ANY_PORT
    }

    private static TcpListener at(InetAddress ip, int port) {
        boolean v6 = ip.getAddress().length == 16;
        int fd = Sockets.socket(v6 ? Sockets.AF_INET6 : Sockets.AF_INET, STREAM, 0);
        if (fd < 0) {
            throw refused(fd, "socket", NetAddress.text(ip, port));
        }
        try {
            if (v6) {
                Sockets.setsockopt(fd, Sockets.IPPROTO_IPV6, Sockets.IPV6_V6ONLY, 1);
            }
            listen(fd, ip, port);
        } catch (TelpherException.NativeFailure e) {
            Descriptors.close(fd);
            throw e;
        }
        return new TcpListener(fd, v6);
    }

    private static void listen(int fd, InetAddress ip, int port) {
        Sockets.setsockopt(fd, Sockets.SOL_SOCKET, Sockets.SO_REUSEADDR, 1);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
            int length = SocketAddresses.encode(new InetSocketAddress(ip, port), address);
            int bound = Sockets.bind(fd, address, length);
            if (bound < 0) {
                throw refused(bound, "bind", NetAddress.text(ip, port));
            }
        }
        int listening = Sockets.listen(fd, BACKLOG);
        if (listening < 0) {
            throw refused(listening, "listen", NetAddress.text(ip, port));
        }
    }

    private static InetAddress wildcard(int bytes) {
        return address(new byte[bytes]);
    }

    private static InetAddress address(byte[] bytes) {
        try {
            return InetAddress.getByAddress(bytes);
        } catch (java.net.UnknownHostException e) {
            throw new IllegalStateException("4 and 16 bytes always make an address", e);
        }
    }

    /// @return the address with its scope where the kernel needs one
    static InetAddress scoped(InetAddress ip, int scope) {
        if (!ip.isLinkLocalAddress() || ip.getAddress().length != 16) {
            return ip;
        }
        try {
            return java.net.Inet6Address.getByAddress(null, ip.getAddress(), scope);
        } catch (java.net.UnknownHostException e) {
            throw new IllegalStateException("16 bytes always make an address", e);
        }
    }

    private static TelpherException.NativeFailure refused(int rc, String call, String where) {
        String remedy =
                rc == -Errno.EADDRINUSE
                        ? ": another program listens there; choose another port, or port 0"
                        : rc == -Errno.EACCES ? ": ports below 1024 need privileges" : "";
        return new TelpherException.NativeFailure(
                call, Math.abs(rc), List.of(where), Errno.describe(rc) + remedy);
    }

    int descriptor() {
        return descriptor;
    }

    int port() {
        return port;
    }

    boolean inet6() {
        return inet6;
    }

    /// Takes what has come in. Never blocks. Progress thread only.
    void accept(Consumer<Channel> taken) {
        for (int i = 0; i < BURST; i++) {
            int fd = Sockets.accept4(descriptor, Sockets.SOCK_NONBLOCK | Sockets.SOCK_CLOEXEC);
            if (fd >= 0) {
                taken.accept(new TcpChannel(fd));
            } else if (fd == -Errno.EMFILE || fd == -Errno.ENFILE) {
                dropOne();
                return;
            } else if (fd != -Errno.ECONNABORTED) {
                return; // nothing more, or nothing that accepting again would mend
            }
        }
    }

    private void dropOne() {
        if (reserve >= 0) {
            Descriptors.close(reserve);
            int fd = Sockets.accept4(descriptor, Sockets.SOCK_CLOEXEC);
            if (fd >= 0) {
                Descriptors.close(fd);
            }
        }
        reserve = reserve();
    }

    @Override
    public void close() {
        Descriptors.close(descriptor);
        if (reserve >= 0) {
            Descriptors.close(reserve);
            reserve = -1;
        }
    }

    /// @return the address that listens here, or null when this listener does not serve it
    @Nullable NetAddress serve(NetAddress address) {
        return address.inet6() && !inet6 ? null : address.withPort(port);
    }
}

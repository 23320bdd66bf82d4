package io.telpher.internal.ffi.linux;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/// Sockets. Addresses are raw `sockaddr` segments here, see [SocketAddresses]; `-EAGAIN` is what a
/// non-blocking socket answers when it would have to wait. Calls that transfer bytes allocate
/// nothing.
public final class Sockets {
    public static final int AF_UNIX = 1;
    public static final int AF_INET = 2;
    public static final int AF_INET6 = 10;

    public static final int SOCK_STREAM = 1;
    public static final int SOCK_DGRAM = 2;
    public static final int SOCK_SEQPACKET = 5;
    public static final int SOCK_NONBLOCK = 0x800;
    public static final int SOCK_CLOEXEC = 0x80000;

    public static final int SHUT_RD = 0;
    public static final int SHUT_WR = 1;
    public static final int SHUT_RDWR = 2;

    public static final int MSG_PEEK = 2;
    public static final int MSG_CTRUNC = 8;
    public static final int MSG_TRUNC = 0x20;
    public static final int MSG_DONTWAIT = 0x40;
    public static final int MSG_WAITALL = 0x100;
    public static final int MSG_NOSIGNAL = 0x4000;
    public static final int MSG_MORE = 0x8000;
    public static final int MSG_CMSG_CLOEXEC = 0x40000000;

    public static final int SOL_SOCKET = 1;
    public static final int SO_REUSEADDR = 2;
    public static final int SO_ERROR = 4;
    public static final int SO_SNDBUF = 7;
    public static final int SO_RCVBUF = 8;
    public static final int SO_KEEPALIVE = 9;
    public static final int SO_PRIORITY = 12;
    public static final int SO_LINGER = 13;
    public static final int SO_REUSEPORT = 15;
    public static final int SO_PEERCRED = 17;
    public static final int SO_BINDTODEVICE = 25;
    public static final int SO_BUSY_POLL = 46;
    public static final int SO_PEERPIDFD = 77;
    public static final int SCM_RIGHTS = 1;

    public static final int IPPROTO_IP = 0;
    public static final int IP_TOS = 1;
    public static final int IP_MTU = 14;
    public static final int IP_BIND_ADDRESS_NO_PORT = 24;
    public static final int IPPROTO_IPV6 = 41;
    public static final int IPV6_MTU = 24;
    public static final int IPV6_V6ONLY = 26;

    public static final int IPPROTO_TCP = 6;
    public static final int TCP_NODELAY = 1;
    public static final int TCP_MAXSEG = 2;
    public static final int TCP_KEEPIDLE = 4;
    public static final int TCP_KEEPINTVL = 5;
    public static final int TCP_KEEPCNT = 6;
    public static final int TCP_INFO = 11;
    public static final int TCP_QUICKACK = 12;
    public static final int TCP_CONGESTION = 13;
    public static final int TCP_USER_TIMEOUT = 18;
    public static final int TCP_NOTSENT_LOWAT = 25;

    /// Linux 6.15 and later.
    public static final int TCP_RTO_MAX_MS = 44;

    /// `struct ucred { pid_t pid; uid_t uid; gid_t gid; }`
    static final int UCRED_BYTES = 12;

    static final int UCRED_PID = 0;
    static final int UCRED_UID = 4;
    static final int UCRED_GID = 8;

    private static final FunctionDescriptor THREE_INTS =
            FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT);
    private static final FunctionDescriptor NAME_IN =
            FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT);
    private static final FunctionDescriptor NAME_OUT =
            FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, ADDRESS);
    private static final FunctionDescriptor TRANSFER =
            FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, JAVA_INT);
    private static final FunctionDescriptor MESSAGE =
            FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_INT, ADDRESS);
    private static final FunctionDescriptor VECTOR =
            FunctionDescriptor.of(JAVA_LONG, JAVA_INT, ADDRESS, JAVA_INT, ADDRESS);

    /// `int socket(int domain, int type, int protocol)`
    private static final MethodHandle SOCKET = LibC.link("socket", THREE_INTS);

    /// `int socketpair(int domain, int type, int protocol, int sv[2])`
    private static final MethodHandle SOCKETPAIR =
            LibC.link(
                    "socketpair",
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS));

    /// `int bind(int sockfd, const struct sockaddr *addr, socklen_t addrlen)`
    private static final MethodHandle BIND = LibC.link("bind", NAME_IN);

    /// `int listen(int sockfd, int backlog)`
    private static final MethodHandle LISTEN =
            LibC.link("listen", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));

    /// `int accept4(int sockfd, struct sockaddr *addr, socklen_t *addrlen, int flags)`
    private static final MethodHandle ACCEPT4 =
            LibC.link(
                    "accept4",
                    FunctionDescriptor.of(JAVA_INT, JAVA_INT, ADDRESS, ADDRESS, JAVA_INT));

    /// `int connect(int sockfd, const struct sockaddr *addr, socklen_t addrlen)`
    private static final MethodHandle CONNECT = LibC.link("connect", NAME_IN);

    /// `int getsockname(int sockfd, struct sockaddr *addr, socklen_t *addrlen)`
    private static final MethodHandle GETSOCKNAME = LibC.link("getsockname", NAME_OUT);

    /// `int getpeername(int sockfd, struct sockaddr *addr, socklen_t *addrlen)`
    private static final MethodHandle GETPEERNAME = LibC.link("getpeername", NAME_OUT);

    /// `int getsockopt(int sockfd, int level, int optname, void *optval, socklen_t *optlen)`
    private static final MethodHandle GETSOCKOPT =
            LibC.link(
                    "getsockopt",
                    FunctionDescriptor.of(
                            JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS, ADDRESS));

    /// `int setsockopt(int sockfd, int level, int optname, const void *optval, socklen_t optlen)`
    private static final MethodHandle SETSOCKOPT =
            LibC.link(
                    "setsockopt",
                    FunctionDescriptor.of(
                            JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT, ADDRESS, JAVA_INT));

    /// `int shutdown(int sockfd, int how)`
    private static final MethodHandle SHUTDOWN =
            LibC.link("shutdown", FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT));

    /// `ssize_t send(int sockfd, const void *buf, size_t len, int flags)`
    private static final MethodHandle SEND = LibC.link("send", TRANSFER);

    /// `ssize_t recv(int sockfd, void *buf, size_t len, int flags)`
    private static final MethodHandle RECV = LibC.link("recv", TRANSFER);

    /// `ssize_t sendmsg(int sockfd, const struct msghdr *msg, int flags)`, and `keep`
    private static final MethodHandle SENDMSG = LibC.link("sendmsg", MESSAGE);

    /// `ssize_t recvmsg(int sockfd, struct msghdr *msg, int flags)`, and `keep`
    private static final MethodHandle RECVMSG = LibC.link("recvmsg", MESSAGE);

    /// `ssize_t readv(int fd, const struct iovec *iov, int iovcnt)`, and `keep`
    private static final MethodHandle READV = LibC.link("readv", VECTOR);

    /// `ssize_t writev(int fd, const struct iovec *iov, int iovcnt)`, and `keep`
    private static final MethodHandle WRITEV = LibC.link("writev", VECTOR);

    private Sockets() {}

    public static int socket(int domain, int type, int protocol) {
        CallState call = CallState.current();
        try {
            return call.result((int) SOCKET.invokeExact(call.errno, domain, type, protocol));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Fills `fds` with the two ends of a connected pair. Returns 0.
    public static int socketpair(int domain, int type, int protocol, int[] fds) {
        CallState call = CallState.current();
        try {
            int result =
                    call.result(
                            (int)
                                    SOCKETPAIR.invokeExact(
                                            call.errno, domain, type, protocol, call.scratch));
            if (result >= 0) {
                MemorySegment.copy(call.scratch, JAVA_INT, 0, fds, 0, 2);
            }
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static int bind(int fd, MemorySegment address, int length) {
        LibC.checkLength(address, length);
        CallState call = CallState.current();
        try {
            return call.result((int) BIND.invokeExact(call.errno, fd, address, length));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static int listen(int fd, int backlog) {
        CallState call = CallState.current();
        try {
            return call.result((int) LISTEN.invokeExact(call.errno, fd, backlog));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Takes a connection; `flags` are [#SOCK_NONBLOCK] and [#SOCK_CLOEXEC]. The peer is what
    /// [#getpeername] says.
    public static int accept4(int fd, int flags) {
        CallState call = CallState.current();
        try {
            int result;
            do {
                result =
                        call.result(
                                (int)
                                        ACCEPT4.invokeExact(
                                                call.errno,
                                                fd,
                                                MemorySegment.NULL,
                                                MemorySegment.NULL,
                                                flags));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Begins or makes a connection. `-EINPROGRESS` (TCP, non-blocking) ends when the socket turns
    /// writable, with the outcome in [#SO_ERROR]; `-EAGAIN` (Unix socket, non-blocking) means that
    /// the backlog of the listener is full. `-EINTR` is reported: the attempt goes on as if
    /// non-blocking.
    public static int connect(int fd, MemorySegment address, int length) {
        LibC.checkLength(address, length);
        CallState call = CallState.current();
        try {
            return call.result((int) CONNECT.invokeExact(call.errno, fd, address, length));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Fills `address` with the socket's own address. Returns its length.
    public static int getsockname(int fd, MemorySegment address) {
        CallState call = CallState.current();
        MemorySegment length = call.scratch;
        length.set(JAVA_INT, 0, (int) Math.min(address.byteSize(), SocketAddresses.STORAGE_BYTES));
        try {
            int result =
                    call.result((int) GETSOCKNAME.invokeExact(call.errno, fd, address, length));
            return result < 0 ? result : length.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Fills `address` with the peer's address. Returns its length.
    public static int getpeername(int fd, MemorySegment address) {
        CallState call = CallState.current();
        MemorySegment length = call.scratch;
        length.set(JAVA_INT, 0, (int) Math.min(address.byteSize(), SocketAddresses.STORAGE_BYTES));
        try {
            int result =
                    call.result((int) GETPEERNAME.invokeExact(call.errno, fd, address, length));
            return result < 0 ? result : length.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Reads an option of any form into `value`. Returns its length.
    public static int getsockopt(int fd, int level, int option, MemorySegment value) {
        CallState call = CallState.current();
        MemorySegment length = call.scratch;
        length.set(JAVA_INT, 0, (int) Math.min(value.byteSize(), Integer.MAX_VALUE));
        try {
            int result =
                    call.result(
                            (int)
                                    GETSOCKOPT.invokeExact(
                                            call.errno, fd, level, option, value, length));
            return result < 0 ? result : length.get(JAVA_INT, 0);
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Reads an `int` option. Returns it as an unsigned 32-bit number, so that no value looks like
    /// `-errno`.
    public static long getsockopt(int fd, int level, int option) {
        CallState call = CallState.current();
        MemorySegment length = call.scratch;
        MemorySegment value = length.asSlice(8, 8);
        length.set(JAVA_INT, 0, 4);
        value.set(JAVA_INT, 0, 0);
        try {
            int result =
                    call.result(
                            (int)
                                    GETSOCKOPT.invokeExact(
                                            call.errno, fd, level, option, value, length));
            return result < 0 ? result : Integer.toUnsignedLong(value.get(JAVA_INT, 0));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Reads a text option such as [#TCP_CONGESTION]; null when the kernel refuses.
    public static @Nullable String getsockoptText(int fd, int level, int option) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment value = arena.allocate(128);
            int length = getsockopt(fd, level, option, value.asSlice(0, 127));
            return length < 0 ? null : value.getString(0);
        }
    }

    /// Sets an option of any form.
    public static int setsockopt(int fd, int level, int option, MemorySegment value, int length) {
        LibC.checkLength(value, length);
        CallState call = CallState.current();
        try {
            return call.result(
                    (int) SETSOCKOPT.invokeExact(call.errno, fd, level, option, value, length));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Sets an `int` option.
    public static int setsockopt(int fd, int level, int option, int value) {
        CallState call = CallState.current();
        call.scratch.set(JAVA_INT, 0, value);
        try {
            return call.result(
                    (int) SETSOCKOPT.invokeExact(call.errno, fd, level, option, call.scratch, 4));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Sets a text option such as [#TCP_CONGESTION] or [#SO_BINDTODEVICE].
    public static int setsockoptText(int fd, int level, int option, String value) {
        try (Arena arena = Arena.ofConfined()) {
            byte[] text = value.getBytes(StandardCharsets.UTF_8);
            MemorySegment copy = arena.allocate(text.length + 1L);
            MemorySegment.copy(text, 0, copy, JAVA_BYTE, 0, text.length);
            return setsockopt(fd, level, option, copy, text.length);
        }
    }

    /// Who called `connect`, `listen` or `socketpair` at the other end of a Unix socket, as this
    /// process's namespaces number them (pid 0: not visible from here); null when the kernel
    /// refuses.
    public static @Nullable PeerCredentials peerCredentials(int fd) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment ucred = arena.allocate(UCRED_BYTES, 4);
            if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ucred) != UCRED_BYTES) {
                return null;
            }
            return new PeerCredentials(
                    ucred.get(JAVA_INT, UCRED_PID),
                    ucred.get(JAVA_INT, UCRED_UID),
                    ucred.get(JAVA_INT, UCRED_GID));
        }
    }

    /// The process at the other end of a Unix socket.
    public record PeerCredentials(int pid, int uid, int gid) {}

    public static int shutdown(int fd, int how) {
        CallState call = CallState.current();
        try {
            return call.result((int) SHUTDOWN.invokeExact(call.errno, fd, how));
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    public static long send(int fd, MemorySegment buffer, long length, int flags) {
        LibC.checkLength(buffer, length);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result =
                        call.result((long) SEND.invokeExact(call.errno, fd, buffer, length, flags));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Returns 0 at the end of the stream.
    public static long recv(int fd, MemorySegment buffer, long length, int flags) {
        LibC.checkLength(buffer, length);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result =
                        call.result((long) RECV.invokeExact(call.errno, fd, buffer, length, flags));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Sends what a [MsgHdr] describes; `keep` owns the memory that its iovec points at.
    public static long sendmsg(int fd, MemorySegment msghdr, int flags, MemorySegment keep) {
        LibC.checkLength(msghdr, MsgHdr.BYTES);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result =
                        call.result(
                                (long) SENDMSG.invokeExact(call.errno, fd, msghdr, flags, keep));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Fills what a [MsgHdr] describes; `keep` owns the memory that its iovec points at.
    public static long recvmsg(int fd, MemorySegment msghdr, int flags, MemorySegment keep) {
        LibC.checkLength(msghdr, MsgHdr.BYTES);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result =
                        call.result(
                                (long) RECVMSG.invokeExact(call.errno, fd, msghdr, flags, keep));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Reads into the first `count` entries of an iovec array; `keep` owns the memory that they
    /// point at.
    public static long readv(int fd, MemorySegment iov, int count, MemorySegment keep) {
        LibC.checkLength(iov, (long) count * IoVec.BYTES);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result = call.result((long) READV.invokeExact(call.errno, fd, iov, count, keep));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }

    /// Writes the first `count` entries of an iovec array; `keep` owns the memory that they point
    /// at. On a socket whose peer is gone this raises SIGPIPE, which the JVM ignores; in a foreign
    /// process use [#sendmsg] with [#MSG_NOSIGNAL].
    public static long writev(int fd, MemorySegment iov, int count, MemorySegment keep) {
        LibC.checkLength(iov, (long) count * IoVec.BYTES);
        CallState call = CallState.current();
        try {
            long result;
            do {
                result = call.result((long) WRITEV.invokeExact(call.errno, fd, iov, count, keep));
            } while (result == -Errno.EINTR);
            return result;
        } catch (Throwable t) {
            throw LibC.unexpected(t);
        }
    }
}

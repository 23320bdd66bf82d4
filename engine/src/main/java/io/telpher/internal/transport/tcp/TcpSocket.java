package io.telpher.internal.transport.tcp;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.SocketAddresses;
import io.telpher.internal.ffi.linux.Sockets;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.net.InetSocketAddress;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A connected socket that both halves of a lane share: its descriptor, its memory and the reason
/// why it ended. The first reason wins.
final class TcpSocket {
    /// Tried in this order on loopback, where a pacing default such as BBR costs 5 % of latency and
    /// up to a third of the bandwidth. Reno is in every kernel and allowed to everybody.
    private static final List<String> LOOPBACK_CONGESTION = List.of("cubic", "reno");

    private static final VarHandle FAILURE;

    static {
        try {
            FAILURE =
                    MethodHandles.lookup().findVarHandle(TcpSocket.class, "failure", String.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final int descriptor;
    private final String text;
    private final Arena arena = Arena.ofShared();
    private volatile @Nullable String failure;

    TcpSocket(int descriptor, String text) {
        this.descriptor = descriptor;
        this.text = text;
    }

    int descriptor() {
        return descriptor;
    }

    String text() {
        return text;
    }

    /// @return what the halves allocate from; it ends with the socket
    Arena arena() {
        return arena;
    }

    @Nullable String failure() {
        return failure;
    }

    /// Ends the stream in both directions, so that the other half and the peer notice. What has
    /// arrived can still be read.
    void fail(String reason) {
        if (FAILURE.compareAndSet(this, null, text + ": " + reason)) {
            Sockets.shutdown(descriptor, Sockets.SHUT_RDWR);
        }
    }

    /// Frees the descriptor and the memory. Nobody else may be using them.
    void close() {
        Descriptors.close(descriptor);
        arena.close();
    }

    /// Sets what a lane wants beyond [#prepare]. Refusals are harmless: an old kernel lacks an
    /// option.
    ///
    /// An idle lane is watched by the kernel's keep-alive, whose probes the kernel of a stopped
    /// peer still answers. The kernel would end the connection itself only long after the engine.
    /// Where the kernel can (Linux 6.15), pauses between retransmissions and between probes of a
    /// closed window are kept below the liveness time-out too, instead of growing to two minutes.
    ///
    /// @param livenessMillis after how long a silent peer counts as lost
    static void configure(int fd, long livenessMillis) {
        int seconds = Math.clamp(livenessMillis / 4000, 1, 3600);
        Sockets.setsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_KEEPIDLE, seconds);
        Sockets.setsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_KEEPINTVL, seconds);
        Sockets.setsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_KEEPCNT, 100);
        Sockets.setsockopt(fd, Sockets.SOL_SOCKET, Sockets.SO_KEEPALIVE, 1);
        int mostMillis = Math.clamp(livenessMillis / 4, 1000, 120_000);
        Sockets.setsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_RTO_MAX_MS, mostMillis);
        if (loopback(local(fd)) && loopback(peer(fd))) {
            for (String name : LOOPBACK_CONGESTION) {
                int rc =
                        Sockets.setsockoptText(
                                fd, Sockets.IPPROTO_TCP, Sockets.TCP_CONGESTION, name);
                if (rc >= 0) {
                    break;
                }
            }
        }
    }

    private static boolean loopback(@Nullable InetSocketAddress address) {
        return address != null && address.getAddress().isLoopbackAddress();
    }

    /// Sets what every stream wants from its first byte.
    static void prepare(int fd) {
        Sockets.setsockopt(fd, Sockets.IPPROTO_TCP, Sockets.TCP_NODELAY, 1);
    }

    /// @return both ends of a socket, for people: `10.0.0.1:34567 - 10.0.0.2:4711`
    static String describe(int fd) {
        return end(fd, Sockets::getsockname) + " - " + end(fd, Sockets::getpeername);
    }

    /// @return the address that the socket is bound to, or null
    static @Nullable InetSocketAddress local(int fd) {
        return address(fd, Sockets::getsockname);
    }

    /// @return the address that the socket is connected to, or null
    static @Nullable InetSocketAddress peer(int fd) {
        return address(fd, Sockets::getpeername);
    }

    private static String end(int fd, Name name) {
        InetSocketAddress address = address(fd, name);
        return address == null
                ? "unconnected"
                : NetAddress.text(address.getAddress(), address.getPort());
    }

    private static @Nullable InetSocketAddress address(int fd, Name name) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment storage = arena.allocate(SocketAddresses.STORAGE_BYTES, 8);
            return name.get(fd, storage) < 0 ? null : SocketAddresses.decode(storage);
        }
    }

    private interface Name {
        int get(int fd, MemorySegment address);
    }
}

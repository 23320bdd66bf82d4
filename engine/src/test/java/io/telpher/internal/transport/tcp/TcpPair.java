package io.telpher.internal.transport.tcp;

import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Deadline;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/// Two lanes that lead to each other over loopback.
record TcpPair(TcpLane a, TcpLane b) implements AutoCloseable {
    static TcpPair open() {
        return open(0);
    }

    /// @param buffer the size of all socket buffers, small to provoke partial reads and writes, 0
    ///     for the system's choice
    static TcpPair open(int buffer) {
        int[] fds = descriptors(buffer);
        return new TcpPair(new TcpLane(fds[0]), new TcpLane(fds[1]));
    }

    static int[] descriptors(int buffer) {
        NetAddress here = loopback(0);
        try (TcpListener listener = TcpListener.at(here, 0, TcpListener.Fallback.NONE)) {
            if (buffer > 0) {
                shrink(listener.descriptor(), buffer);
            }
            int dialled = dial(listener.port());
            List<TcpChannel> accepted = new ArrayList<>();
            long until = System.nanoTime() + 5_000_000_000L;
            while (accepted.isEmpty() && System.nanoTime() < until) {
                listener.accept(channel -> accepted.add((TcpChannel) channel));
            }
            TcpSocket.prepare(dialled);
            if (buffer > 0) {
                shrink(dialled, buffer);
            }
            return new int[] {dialled, accepted.getFirst().detach()};
        }
    }

    static int dial(int port) {
        InetSocketAddress to = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
        return TcpDialer.dial(
                "the test",
                List.of(new TcpDialer.Attempt(to, null, null, "the test")),
                Deadline.in(Duration.ofSeconds(5)));
    }

    static NetAddress loopback(int port) {
        return new NetAddress(InetAddress.getLoopbackAddress(), 8, "lo", 1, 0, port);
    }

    private static void shrink(int fd, int buffer) {
        Sockets.setsockopt(fd, Sockets.SOL_SOCKET, Sockets.SO_SNDBUF, buffer);
        Sockets.setsockopt(fd, Sockets.SOL_SOCKET, Sockets.SO_RCVBUF, buffer);
    }

    @Override
    public void close() {
        a.close();
        b.close();
    }
}

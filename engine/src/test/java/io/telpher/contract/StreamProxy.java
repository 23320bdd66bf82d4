package io.telpher.contract;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CopyOnWriteArrayList;

/// Stands between two endpoints, records what the dialling one says, and does harm when asked to.
final class StreamProxy implements AutoCloseable {
    /// What happens to a stream.
    enum Fault {
        /// It ends.
        CUT,
        /// One bit changes now and then.
        FLIP,
        /// Bytes are missing.
        SKIP,
        /// Bytes come that nobody sent.
        INSERT,
        /// Nothing comes any more.
        STALL
    }

    private final ServerSocketChannel listener;
    private final SocketAddress target;
    private final List<SocketChannel> sockets = new CopyOnWriteArrayList<>();
    private final ByteArrayOutputStream recorded = new ByteArrayOutputStream();
    private volatile Fault fault;
    private volatile long after;
    private volatile long seed;

    /// The only stream that is harmed, by the order in which they were dialled; -1: all.
    private volatile int victim = -1;

    private StreamProxy(ServerSocketChannel listener, SocketAddress target) {
        this.listener = listener;
        this.target = target;
        Thread.ofPlatform().daemon().name("test-proxy").start(this::accept);
    }

    /// Listens at a port of its own.
    static StreamProxy to(int port) throws IOException {
        InetAddress here = InetAddress.getByName("127.0.0.1");
        return new StreamProxy(
                ServerSocketChannel.open().bind(new InetSocketAddress(here, 0)),
                new InetSocketAddress(here, port));
    }

    /// Listens at a path. Descriptors that come along are lost.
    static StreamProxy to(Path socket, Path listening) throws IOException {
        return new StreamProxy(
                ServerSocketChannel.open(StandardProtocolFamily.UNIX)
                        .bind(UnixDomainSocketAddress.of(listening)),
                UnixDomainSocketAddress.of(socket));
    }

    int port() {
        return listener.socket().getLocalPort();
    }

    /// Does harm to every stream of both directions once so many bytes have passed.
    void inject(Fault what, long afterBytes, long dice) {
        after = afterBytes;
        seed = dice;
        fault = what;
    }

    /// Does harm to one stream only.
    ///
    /// @param stream counted from 0 in the order in which they are dialled
    void injectInto(int stream, Fault what, long afterBytes, long dice) {
        victim = stream;
        inject(what, afterBytes, dice);
    }

    /// @return what the first dialling side said, at most 64 KiB
    byte[] recorded() {
        synchronized (recorded) {
            return recorded.toByteArray();
        }
    }

    private void accept() {
        try {
            while (true) {
                SocketChannel near = listener.accept();
                sockets.add(near);
                int stream = sockets.size() / 2;
                SocketChannel far =
                        target instanceof UnixDomainSocketAddress
                                ? SocketChannel.open(StandardProtocolFamily.UNIX)
                                : SocketChannel.open();
                far.connect(target);
                sockets.add(far);
                Thread.ofPlatform().daemon().start(() -> pump(near, far, stream, stream == 0));
                Thread.ofPlatform().daemon().start(() -> pump(far, near, stream, false));
            }
        } catch (IOException e) {
            // Closed.
        }
    }

    private void pump(SocketChannel from, SocketChannel to, int stream, boolean record) {
        Random random = new Random(seed ^ stream);
        byte[] buffer = new byte[16_384];
        long passed = 0;
        try (from;
                to) {
            InputStream in = Channels.newInputStream(from);
            OutputStream out = Channels.newOutputStream(to);
            int n = in.read(buffer);
            while (n > 0) {
                if (record) {
                    record(buffer, n);
                }
                passed += n;
                boolean meant = victim < 0 || victim == stream;
                n = fault != null && meant && passed > after ? harm(buffer, n, random) : n;
                if (n < 0) {
                    return;
                }
                out.write(buffer, 0, n);
                n = in.read(buffer);
            }
        } catch (IOException e) {
            // One side has closed.
        }
    }

    private void record(byte[] buffer, int n) {
        synchronized (recorded) {
            recorded.write(buffer, 0, Math.min(n, 65_536 - recorded.size()));
        }
    }

    /// @return how many bytes are left to pass on, or -1
    private int harm(byte[] buffer, int n, Random random) throws IOException {
        switch (fault) {
            case CUT -> {
                return -1;
            }
            case FLIP -> buffer[random.nextInt(n)] ^= (byte) (1 << random.nextInt(8));
            case SKIP -> {
                return n - 1 - random.nextInt(n);
            }
            case INSERT -> {
                int more = Math.min(buffer.length - n, 1 + random.nextInt(100));
                System.arraycopy(buffer, 0, buffer, more, n);
                return n + more;
            }
            case STALL -> {
                Contract.sleep(2000);
                return -1;
            }
        }
        return n;
    }

    @Override
    public void close() throws IOException {
        listener.close();
        for (SocketChannel socket : sockets) {
            socket.close();
        }
    }
}

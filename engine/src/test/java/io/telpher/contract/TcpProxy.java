package io.telpher.contract;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CopyOnWriteArrayList;

/// Stands between two endpoints, records what the dialling one says, and does harm when asked to.
final class TcpProxy implements AutoCloseable {
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

    private final ServerSocket listener;
    private final int target;
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private final ByteArrayOutputStream recorded = new ByteArrayOutputStream();
    private volatile Fault fault;
    private volatile long after;
    private volatile long seed;

    /// The only stream that is harmed, by the order in which they were dialled; -1: all.
    private volatile int victim = -1;

    private TcpProxy(int target) throws IOException {
        this.target = target;
        listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
        Thread.ofPlatform().daemon().name("test-proxy").start(this::accept);
    }

    static TcpProxy to(int port) throws IOException {
        return new TcpProxy(port);
    }

    int port() {
        return listener.getLocalPort();
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
                Socket near = listener.accept();
                sockets.add(near);
                int stream = sockets.size() / 2;
                Socket far = new Socket("127.0.0.1", target);
                sockets.add(far);
                Thread.ofPlatform().daemon().start(() -> pump(near, far, stream, stream == 0));
                Thread.ofPlatform().daemon().start(() -> pump(far, near, stream, false));
            }
        } catch (IOException e) {
            // Closed.
        }
    }

    private void pump(Socket from, Socket to, int stream, boolean record) {
        Random random = new Random(seed ^ stream);
        byte[] buffer = new byte[16_384];
        long passed = 0;
        try (from;
                to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
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
        for (Socket socket : sockets) {
            socket.close();
        }
    }
}

package io.telpher.bootstrap;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/// Stands between clients and a server: cuts their streams, or swallows everything.
final class Proxy implements AutoCloseable {
    private final ServerSocket listener;
    private final int target;
    private final List<Socket> sockets = new CopyOnWriteArrayList<>();
    private volatile boolean swallowing;

    Proxy(int target) {
        this.target = target;
        try {
            listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Thread.ofPlatform().daemon().name("test-proxy").start(this::accept);
    }

    int port() {
        return listener.getLocalPort();
    }

    /// Ends all streams; new ones are let through.
    void cut() {
        for (Socket socket : sockets) {
            try {
                socket.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        sockets.clear();
    }

    /// From now on takes everything and passes nothing on, like a network that loses all packets.
    void swallow() {
        swallowing = true;
    }

    private void accept() {
        try {
            while (true) {
                Socket near = listener.accept();
                sockets.add(near);
                Thread.ofPlatform().daemon().start(() -> serve(near));
            }
        } catch (IOException e) {
            // Closed.
        }
    }

    private void serve(Socket near) {
        try (Socket far = new Socket("127.0.0.1", target)) {
            sockets.add(far);
            Thread back = Thread.ofPlatform().daemon().start(() -> pump(far, near));
            pump(near, far);
            back.join();
        } catch (IOException | InterruptedException e) {
            try {
                near.close();
            } catch (IOException closing) {
                throw new UncheckedIOException(closing);
            }
        }
    }

    private void pump(Socket from, Socket to) {
        byte[] buffer = new byte[16_384];
        try (from;
                to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            int n;
            while ((n = in.read(buffer)) > 0) {
                if (!swallowing) {
                    out.write(buffer, 0, n);
                }
            }
        } catch (IOException e) {
            // One side has closed.
        }
    }

    @Override
    public void close() {
        try {
            listener.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        cut();
    }
}

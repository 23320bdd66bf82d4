package io.telpher.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.ServerSocket;
import java.util.concurrent.ThreadLocalRandom;

/// TCP ports.
final class Ports {
    private static final int FIRST = 10_000;

    /// Linux gives ports from 32768 on to those who ask for any.
    private static final int END = 32_768;

    private Ports() {}

    /// @return a port that nobody listens on, and that nobody who asks for any port will get
    static int free() {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(FIRST, END);
            try (ServerSocket socket = new ServerSocket(port)) {
                return socket.getLocalPort();
            } catch (BindException taken) {
                continue;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}

package io.telpher.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;

/// TCP ports.
final class Ports {
    private Ports() {}

    /// @return a port that nobody listens on, most likely
    static int free() {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}

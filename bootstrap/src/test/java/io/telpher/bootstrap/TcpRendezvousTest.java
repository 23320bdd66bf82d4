package io.telpher.bootstrap;

import java.net.URI;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/// The contract at the embedded server.
class TcpRendezvousTest extends RendezvousContract {
    private RendezvousServer server;

    @BeforeEach
    void startServer() {
        server = RendezvousServer.listen(Fixtures.freePort(), Fixtures.secret());
    }

    @AfterEach
    void stopServer() {
        server.close();
    }

    @Override
    URI server() {
        return at(server.port());
    }

    @Override
    void restartServer() {
        int port = server.port();
        server.close();
        server = RendezvousServer.listen(port, Fixtures.secret());
    }

    @Override
    URI at(int port) {
        return URI.create("tcp://127.0.0.1:" + port);
    }
}

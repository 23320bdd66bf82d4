package io.telpher.contract;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/// An endpoint, and a [FrozenPeer] that has shaken hands with it as it was recorded.
abstract class Replay {
    static final Duration LIMIT = Duration.ofSeconds(10);

    private final Map<String, byte[]> recorded;
    private final long capabilities;

    final int port = Ports.free();
    Endpoint endpoint;
    FrozenPeer peer;
    Connection connection;

    Replay(Map<String, byte[]> recorded, long capabilities) {
        this.recorded = recorded;
        this.capabilities = capabilities;
    }

    @BeforeEach
    void connect() throws IOException {
        endpoint =
                Endpoint.open(
                        EndpointOptions.DEFAULTS
                                .withTransports(List.of("tcp"))
                                .withPort(port)
                                .withSecret(RecordWire.SECRET)
                                .withDeadline(LIMIT));
        peer = FrozenPeer.dial(port, recorded, false, capabilities);
        connection = endpoint.accept(LIMIT);
    }

    @AfterEach
    void close() throws IOException {
        peer.close();
        endpoint.close();
    }
}

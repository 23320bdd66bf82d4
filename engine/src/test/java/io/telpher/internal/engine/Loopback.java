package io.telpher.internal.engine;

import io.telpher.EndpointOptions;
import io.telpher.internal.wire.AddressCodec;
import java.util.List;

/// Endpoints that reach nobody outside, for connections whose lanes are the test's doing.
final class Loopback {
    static final EndpointOptions OPTIONS =
            EndpointOptions.DEFAULTS.withTransports(List.of("tcp")).withInterfaces(List.of("lo"));

    private Loopback() {}

    static EndpointImpl open() {
        return new EndpointImpl(OPTIONS);
    }

    /// A connection of an endpoint with itself, without lanes.
    static ConnectionCore connection(EndpointImpl endpoint, long id) {
        return new ConnectionCore(
                endpoint, id, new AddressCodec.Address(new byte[0], endpoint.self()));
    }
}

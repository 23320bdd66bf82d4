package io.telpher.sim;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;

/// Two hosts and their programs: one accepts the other. Unless the test says so, their memory is
/// within each other's reach.
final class Neighbours implements AutoCloseable {
    private static final Duration SHORT = Duration.ofSeconds(10);

    final Simulation simulation;
    final SimHost left;
    final SimHost right;
    private final AtomicReference<EndpointAddress> address = new AtomicReference<>();

    /// What a side does with its connection.
    interface Program {
        void run(Endpoint endpoint, Connection peer);
    }

    Neighbours(long seed) {
        this(seed, LinkOptions.DEFAULTS.withStyle(LinkOptions.Style.RING).withWindows(true));
    }

    Neighbours(long seed, LinkOptions link) {
        simulation = new Simulation(seed);
        left = simulation.host("left");
        right = simulation.host("right");
        simulation.link(left, right, link);
    }

    /// Starts the side that accepts.
    ///
    /// @param before what it does before anybody connects
    void accept(SimHost host, Consumer<Endpoint> before, Program program) {
        host.start(
                "acceptor",
                () -> {
                    try (Endpoint endpoint = host.open(EndpointOptions.DEFAULTS)) {
                        before.accept(endpoint);
                        address.set(endpoint.address());
                        program.run(endpoint, endpoint.accept(SHORT));
                    }
                });
    }

    /// Starts a side that accepts, and waits until the other has gone.
    void accept(SimHost host, Consumer<Endpoint> before) {
        accept(host, before, (endpoint, peer) -> simulation.await(() -> !peer.isOpen(), SHORT));
    }

    /// Starts the side that connects.
    void connect(SimHost host, Program program) {
        host.start(
                "initiator",
                () -> {
                    simulation.await(() -> address.get() != null, SHORT);
                    try (Endpoint endpoint = host.open(EndpointOptions.DEFAULTS)) {
                        program.run(endpoint, endpoint.connect(address.get()));
                    }
                });
    }

    /// Runs both to their ends.
    void run() {
        simulation.run();
    }

    @Override
    public void close() {
        simulation.close();
    }
}

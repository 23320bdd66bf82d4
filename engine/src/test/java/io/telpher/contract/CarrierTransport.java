package io.telpher.contract;

import io.telpher.EndpointOptions;
import io.telpher.internal.transport.tcp.TcpTransport;
import io.telpher.spi.Availability;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Link;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import io.telpher.spi.Transport;
import io.telpher.spi.TransportEndpoint;
import java.util.List;
import java.util.concurrent.Executor;

/// A transport that is none of Telpher's: its name and rank are its own, its bytes go by TCP.
public final class CarrierTransport implements Transport {
    static final String NAME = "carrier";

    private final TcpTransport tcp = new TcpTransport();

    /// For the service loader.
    public CarrierTransport() {}

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public int rank() {
        return -1;
    }

    @Override
    public Availability probe() {
        return tcp.probe();
    }

    @Override
    public TransportEndpoint open(EndpointContext context) {
        CarrierEndpoint endpoint = new CarrierEndpoint();
        endpoint.tcp = tcp.open(new CarrierContext(context, endpoint));
        return endpoint;
    }

    private Locator renamed(Locator locator, String name) {
        return new Locator(name, locator.data(), locator.text());
    }

    private final class CarrierEndpoint implements TransportEndpoint {
        /// Set before anybody can connect to it.
        volatile TransportEndpoint tcp;

        @Override
        public List<Locator> locators() {
            return tcp.locators().stream().map(locator -> renamed(locator, NAME)).toList();
        }

        @Override
        public List<Route> routes(PeerAddress peer) {
            String theirs = CarrierTransport.this.tcp.name();
            List<Locator> locators =
                    peer.of(NAME).stream().map(locator -> renamed(locator, theirs)).toList();
            return tcp.routes(new PeerAddress(peer.incarnation(), peer.host(), locators)).stream()
                    .map(r -> new Route(NAME, r.text(), r.lanes(), r.rejected(), r.target()))
                    .toList();
        }

        @Override
        public Channel dial(Route route, Deadline deadline) {
            return tcp.dial(route, deadline);
        }

        @Override
        public Link link(Channel channel, Role initiator, PeerAddress peer, Deadline deadline) {
            return tcp.link(channel, initiator, peer, deadline);
        }

        @Override
        public void opened(LocalRegion region) {
            tcp.opened(region);
        }

        @Override
        public String revoke(LocalRegion region, Deadline deadline) {
            return tcp.revoke(region, deadline);
        }

        @Override
        public void close() {
            tcp.close();
        }
    }

    /// The engine's, of which a channel comes from this transport's endpoint.
    private record CarrierContext(EndpointContext engine, CarrierEndpoint endpoint)
            implements EndpointContext {
        @Override
        public EndpointOptions options() {
            return engine.options();
        }

        @Override
        public long incarnation() {
            return engine.incarnation();
        }

        @Override
        public void accepted(TransportEndpoint from, Channel channel) {
            engine.accepted(endpoint, channel);
        }

        @Override
        public Executor control() {
            return engine.control();
        }

        @Override
        public LocalRegion region(int index, int generation, long key) {
            return engine.region(index, generation, key);
        }

        @Override
        public boolean isOpen(int index, int generation) {
            return engine.isOpen(index, generation);
        }

        @Override
        public void watch(int descriptor, Runnable ready) {
            engine.watch(descriptor, ready);
        }

        @Override
        public void unwatch(int descriptor) {
            engine.unwatch(descriptor);
        }
    }
}

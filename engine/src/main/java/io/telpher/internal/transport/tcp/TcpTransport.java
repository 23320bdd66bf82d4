package io.telpher.internal.transport.tcp;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Availability;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Transport;
import io.telpher.spi.TransportEndpoint;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/// Frames over TCP. Works between any two hosts that can reach each other, so it ranks behind
/// whatever is quicker.
public final class TcpTransport implements Transport {
    /// For the service loader.
    public TcpTransport() {}

    /// @return where an endpoint listens, as its address says it; a host that is known by name only
    ///     is left unresolved, and what cannot be read is left out
    public static List<InetSocketAddress> listeners(PeerAddress peer) {
        List<InetSocketAddress> all = new ArrayList<>();
        for (Locator locator : peer.locators()) {
            try {
                if (locator.transport().equals(TcpRoutes.TRANSPORT)) {
                    NetAddress address = NetAddress.decode(locator.data());
                    all.add(new InetSocketAddress(address.ip(), address.port()));
                } else if (locator.transport().equals(TcpEndpoint.BY_NAME)) {
                    TcpTarget.Host host =
                            TcpTarget.Host.parse(
                                    new String(locator.data(), StandardCharsets.UTF_8));
                    all.add(InetSocketAddress.createUnresolved(host.host(), host.port()));
                }
            } catch (IllegalArgumentException e) {
                continue; // of a later version
            }
        }
        return List.copyOf(all);
    }

    @Override
    public String name() {
        return TcpRoutes.TRANSPORT;
    }

    @Override
    public int rank() {
        return 50;
    }

    @Override
    public Availability probe() {
        int type = Sockets.SOCK_STREAM | Sockets.SOCK_CLOEXEC;
        int v4 = Sockets.socket(Sockets.AF_INET, type, 0);
        int v6 = Sockets.socket(Sockets.AF_INET6, type, 0);
        if (v4 >= 0) {
            Descriptors.close(v4);
        }
        if (v6 >= 0) {
            Descriptors.close(v6);
        }
        if (v4 < 0 && v6 < 0) {
            return new Availability.Missing(
                    "no TCP sockets: " + Errno.describe(v4),
                    "allow socket(AF_INET) in the sandbox or container that this process runs in");
        }
        return new Availability.Available(v6 < 0 ? "IPv4" : v4 < 0 ? "IPv6" : "IPv4 and IPv6");
    }

    @Override
    public TransportEndpoint open(EndpointContext context) {
        return TcpEndpoint.open(context);
    }
}

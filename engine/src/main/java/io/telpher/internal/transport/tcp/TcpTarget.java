package io.telpher.internal.transport.tcp;

import org.jspecify.annotations.Nullable;

/// Where a route leads: what [io.telpher.spi.Route#target()] holds.
sealed interface TcpTarget {
    /// An address that the peer's locator names.
    ///
    /// @param local the address to leave from, or null to let the system choose
    /// @param device the interface to leave by if this host allows it, or null to let the routing
    ///     table choose
    /// @param remote the peer's address
    record Address(@Nullable NetAddress local, @Nullable String device, NetAddress remote)
            implements TcpTarget {}

    /// A host and port that a person gave.
    ///
    /// @param host name or literal
    /// @param port TCP port
    record Host(String host, int port) implements TcpTarget {
        /// Reads `host:port` or `[v6]:port`.
        ///
        /// @throws IllegalArgumentException when it is neither
        static Host parse(String text) {
            int colon = text.lastIndexOf(':');
            String host = colon < 0 ? "" : text.substring(0, colon);
            if (host.startsWith("[") && host.endsWith("]")) {
                host = host.substring(1, host.length() - 1);
            }
            int port;
            try {
                port = Integer.parseInt(text.substring(colon + 1));
            } catch (NumberFormatException e) {
                port = 0;
            }
            if (host.isEmpty() || port < 1 || port > 65_535) {
                throw new IllegalArgumentException(
                        "'" + text + "' is not of the form host:port or [address]:port");
            }
            return new Host(host, port);
        }
    }

    /// The way is known to be impossible.
    record None() implements TcpTarget {}
}

package io.telpher.spi;

import java.util.List;

/// A peer's address as transports see it: without its secret.
///
/// @param incarnation the peer's incarnation, 0 when unknown
/// @param host where it runs
/// @param locators how to reach it
public record PeerAddress(long incarnation, HostIdentity host, List<Locator> locators) {
    /// @return the entries of one transport
    public List<Locator> of(String transport) {
        return locators.stream().filter(l -> l.transport().equals(transport)).toList();
    }
}

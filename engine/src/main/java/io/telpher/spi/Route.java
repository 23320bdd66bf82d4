package io.telpher.spi;

import org.jspecify.annotations.Nullable;

/// One way to a peer that a transport sees.
///
/// @param transport the transport's name
/// @param text both ends, for people
/// @param lanes how many lanes should run over it beside the control lane; 0 for none
/// @param rejected why it is not tried, or null when it should be
/// @param target the transport's own data for [TransportEndpoint#dial]
public record Route(
        String transport, String text, int lanes, @Nullable String rejected, Object target) {}

package io.telpher.spi;

import org.jspecify.annotations.Nullable;

/// One way to a peer that a transport sees.
///
/// @param transport the transport's name
/// @param text both ends, for people
/// @param lanes how many lanes should run over it beside the control lane; 0 for none
/// @param rejected why it is not tried, or null when it should be
/// @param later why it is tried only when none of the ways without such a reason has worked or
///     answered for a while, or null
/// @param target the transport's own data for [TransportEndpoint#dial]
public record Route(
        String transport,
        String text,
        int lanes,
        @Nullable String rejected,
        @Nullable String later,
        Object target) {
    /// A way that is tried at once, or not at all.
    public Route(
            String transport, String text, int lanes, @Nullable String rejected, Object target) {
        this(transport, text, lanes, rejected, null, target);
    }
}

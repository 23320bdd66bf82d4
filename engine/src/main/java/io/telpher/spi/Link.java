package io.telpher.spi;

import org.jspecify.annotations.Nullable;

/// An authenticated way to one peer.
///
/// @param lane carries frames
/// @param windows one-sided access to the peer's memory, or null where the link has none
public record Link(Lane lane, @Nullable Windows windows) {}

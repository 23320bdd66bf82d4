package io.telpher.spi;

import org.jspecify.annotations.Nullable;

/// An authenticated way to one peer.
///
/// @param lane carries frames
/// @param windows one-sided access to the peer's memory, or null where the link has none
/// @param noWindows why it has none, for people; null where there is nothing to say
public record Link(Lane lane, @Nullable Windows windows, @Nullable String noWindows) {
    /// A link of which there is no more to say.
    public Link(Lane lane, @Nullable Windows windows) {
        this(lane, windows, null);
    }
}

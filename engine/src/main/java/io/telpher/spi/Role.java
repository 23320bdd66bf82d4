package io.telpher.spi;

/// Which side of a connection this is.
public enum Role {
    /// This side dialled.
    INITIATOR,
    /// The peer dialled.
    ACCEPTOR
}

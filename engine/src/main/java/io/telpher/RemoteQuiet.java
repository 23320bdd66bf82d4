package io.telpher;

/// What is known of the far side once a transfer has ended.
public enum RemoteQuiet {
    /// No byte of this transfer will touch the peer's memory any more: it is done, was refused, or
    /// its cancellation was acknowledged. Of a receive: none will touch its own memory, whatever
    /// the peer knows of it.
    YES,
    /// The peer did not answer: bytes that were already on their way may still arrive, in memory
    /// that the peer has not closed. Of a receive: its sender was in the middle of storing and has
    /// not said since that it is not, or cannot be kept out ([Transfer]).
    UNKNOWN
}

package io.telpher;

/// What is known of the far side once a transfer has ended.
public enum RemoteQuiet {
    /// No byte of this transfer will touch the peer's memory any more: it is done, was refused, or
    /// its cancellation was acknowledged.
    YES,
    /// The peer did not answer: bytes that were already on their way may still arrive, in memory
    /// that the peer has not closed. Of a receive: in its own memory, until its region is closed
    /// ([Transfer]).
    UNKNOWN
}

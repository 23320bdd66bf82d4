package io.telpher;

/// Where a transfer stands. The last four are terminal: the transfer ended, once, and no byte of
/// the caller's memory is read or written by it any more.
public enum TransferState {
    /// Prepared, and not posted yet.
    IDLE,
    /// Posted, and not ended yet.
    PENDING,
    /// All bytes are in the target's memory; its counter and notification have been delivered to
    /// the target's engine.
    DONE,
    /// Ended by an error: [Transfer#error()] says which.
    FAILED,
    /// Its deadline passed first.
    TIMED_OUT,
    /// Cancelled first.
    CANCELLED;

    /// @return whether the transfer has ended
    public boolean isTerminal() {
        return ordinal() >= DONE.ordinal();
    }
}

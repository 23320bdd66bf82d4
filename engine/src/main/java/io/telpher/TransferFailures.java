package io.telpher;

/// How many transfers did not end as `DONE`, by reason.
///
/// @param closed this side closed the connection or the endpoint
/// @param peerLost the peer was lost, or closed the connection
/// @param stale a region was closed, or belongs to an earlier life of its owner
/// @param denied the owner does not allow it
/// @param timedOut the deadline passed
/// @param truncated a message was longer than its receive
/// @param cancelled the caller cancelled
/// @param other anything else
public record TransferFailures(
        long closed,
        long peerLost,
        long stale,
        long denied,
        long timedOut,
        long truncated,
        long cancelled,
        long other) {
    /// None at all.
    public static final TransferFailures NONE = new TransferFailures(0, 0, 0, 0, 0, 0, 0, 0);

    /// @return all of them together
    public long total() {
        return closed + peerLost + stale + denied + timedOut + truncated + cancelled + other;
    }

    /// @return these and the others together
    public TransferFailures plus(TransferFailures more) {
        return new TransferFailures(
                closed + more.closed,
                peerLost + more.peerLost,
                stale + more.stale,
                denied + more.denied,
                timedOut + more.timedOut,
                truncated + more.truncated,
                cancelled + more.cancelled,
                other + more.other);
    }
}

package io.telpher.cli.soak;

import io.telpher.Connection;
import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import org.jspecify.annotations.Nullable;

/// How an operation has ended.
///
/// @param state `DONE` or how else
/// @param why of one that is not done
/// @param quiet whether nothing of it may still arrive
/// @param bytes bytes moved
/// @param text the error's message
record Outcome(TransferState state, Why why, RemoteQuiet quiet, long bytes, @Nullable String text) {
    /// Why an operation has not been done.
    enum Why {
        NOTHING,
        DEADLINE,
        CANCEL,
        /// The region is closed.
        STALE,
        /// The connection has ended.
        ENDED,
        TRUNCATED,
        OTHER
    }

    boolean done() {
        return state == TransferState.DONE;
    }

    static Outcome of(Transfer transfer) {
        TelpherException error = transfer.error();
        Why why =
                switch (error) {
                    case null -> Why.NOTHING;
                    case TelpherException.TimedOut e -> Why.DEADLINE;
                    case TelpherException.Cancelled e -> Why.CANCEL;
                    case TelpherException.StaleRegion e -> Why.STALE;
                    case TelpherException.Closed e -> Why.ENDED;
                    case TelpherException.PeerLost e -> Why.ENDED;
                    case TelpherException.Truncated e -> Why.TRUNCATED;
                    default -> Why.OTHER;
                };
        return new Outcome(
                transfer.state(),
                why,
                transfer.remoteQuiet(),
                transfer.bytesMoved(),
                error == null ? null : error.getMessage());
    }

    /// @param result not `PENDING`
    /// @param bytes bytes moved
    static Outcome of(int result, long bytes) {
        Why why =
                switch (result) {
                    case Connection.DONE -> Why.NOTHING;
                    case Connection.TIMED_OUT -> Why.DEADLINE;
                    case Connection.CANCELLED -> Why.CANCEL;
                    case Connection.STALE -> Why.STALE;
                    case Connection.CLOSED, Connection.PEER_LOST -> Why.ENDED;
                    case Connection.TRUNCATED -> Why.TRUNCATED;
                    default -> Why.OTHER;
                };
        TransferState state =
                switch (why) {
                    case NOTHING -> TransferState.DONE;
                    case DEADLINE -> TransferState.TIMED_OUT;
                    case CANCEL -> TransferState.CANCELLED;
                    default -> TransferState.FAILED;
                };
        RemoteQuiet quiet =
                why == Why.NOTHING || why == Why.STALE ? RemoteQuiet.YES : RemoteQuiet.UNKNOWN;
        return new Outcome(state, why, quiet, bytes, why == Why.NOTHING ? null : "code " + result);
    }

    @Override
    public String toString() {
        return done() ? "DONE" : state + " (" + text + "), far side quiet: " + quiet;
    }
}

package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.TelpherException;
import io.telpher.TransferState;
import java.time.Duration;

/// Reasons as codes, on the wire and from the `try` methods, and as exceptions.
final class Failures {
    /// What ends a connection when not even the words for its own cause find memory.
    private static final TelpherException SPEECHLESS =
            new TelpherException.PeerLost(
                    "the engine met an Error, and had no memory to say which: give the JVM more");

    private Failures() {}

    /// @return the exception for a reason
    static TelpherException exception(int reason, String what, String detail) {
        String text = detail.isEmpty() ? what : what + ": " + detail;
        return switch (reason) {
            case Connection.CLOSED -> new TelpherException.Closed(text);
            case Connection.PEER_LOST -> new TelpherException.PeerLost(text);
            case Connection.STALE ->
                    new TelpherException.StaleRegion(
                            text
                                    + (detail.isEmpty()
                                            ? ": the region was closed, or its owner restarted; ask the owner for a new descriptor"
                                            : ""));
            case Connection.DENIED ->
                    new TelpherException.AccessDenied(
                            text
                                    + (detail.isEmpty()
                                            ? ": wrong key, no such right, or outside of the region"
                                            : ""));
            case Connection.TIMED_OUT -> new TelpherException.TimedOut(text);
            case Connection.CANCELLED -> new TelpherException.Cancelled(text);
            default -> new TelpherException.Unsupported(text);
        };
    }

    /// @return why a copy from or to a region failed: a device's driver, or memory that is not
    ///     accessible any more
    static int ofMemory(RuntimeException e) {
        return e instanceof TelpherException ? Connection.FAILED : Connection.STALE;
    }

    /// @return the same for people
    static String memoryDetail(RuntimeException e) {
        return e instanceof TelpherException
                ? String.valueOf(e.getMessage())
                : "the local memory is not accessible: " + e.getMessage();
    }

    /// Lets the end of a simulated process through: whoever catches everything calls this first.
    static void letThrough(Throwable caught) {
        if (caught instanceof Platform.Ended ended) {
            throw ended;
        }
    }

    /// @return what ends a connection in whose turn something was thrown that nobody expects, an
    ///     `OutOfMemoryError` or a bug; made in whatever state the JVM is
    static TelpherException internal(ConnectionCore connection, Throwable thrown) {
        try {
            return new TelpherException.PeerLost(
                    "the engine failed at %s: %s".formatted(connection.peerText(), thrown));
        } catch (Throwable again) {
            letThrough(again);
            return SPEECHLESS;
        }
    }

    /// @return the same of a lane
    static String internal(Throwable thrown) {
        try {
            return "internal failure: " + thrown;
        } catch (Throwable again) {
            letThrough(again);
            return String.valueOf(SPEECHLESS.getMessage());
        }
    }

    /// @param over why a transfer ended: in most cases what ended its connection
    /// @param path how it travelled; empty if it did not
    /// @return if the peer was lost, the same with the path, which the end of a connection knows
    ///     nothing of
    static TelpherException ofTransfer(TelpherException over, TransferImpl transfer, String path) {
        if (path.isEmpty() || !(over instanceof TelpherException.PeerLost)) {
            return over;
        }
        try {
            return new TelpherException.PeerLost(
                    "%s by path %s: %s".formatted(transfer.describe(), path, over.getMessage()));
        } catch (Throwable again) {
            letThrough(again);
            return over;
        }
    }

    /// @return the state in which an operation with this reason ends
    static TransferState state(int reason) {
        return switch (reason) {
            case Connection.DONE -> TransferState.DONE;
            case Connection.TIMED_OUT -> TransferState.TIMED_OUT;
            case Connection.CANCELLED -> TransferState.CANCELLED;
            default -> TransferState.FAILED;
        };
    }

    /// @return the reason of an exception
    static int reason(TelpherException e) {
        return switch (e) {
            case TelpherException.Closed ignored -> Connection.CLOSED;
            case TelpherException.PeerLost ignored -> Connection.PEER_LOST;
            case TelpherException.StaleRegion ignored -> Connection.STALE;
            case TelpherException.AccessDenied ignored -> Connection.DENIED;
            case TelpherException.TimedOut ignored -> Connection.TIMED_OUT;
            case TelpherException.Cancelled ignored -> Connection.CANCELLED;
            case TelpherException.Truncated ignored -> Connection.TRUNCATED;
            default -> Connection.FAILED;
        };
    }

    /// @return a reason's name, as [Connection] has it
    static String name(int reason) {
        return switch (reason) {
            case Connection.DONE -> "DONE";
            case Connection.CLOSED -> "CLOSED";
            case Connection.PEER_LOST -> "PEER_LOST";
            case Connection.STALE -> "STALE";
            case Connection.DENIED -> "DENIED";
            case Connection.TIMED_OUT -> "TIMED_OUT";
            case Connection.TRUNCATED -> "TRUNCATED";
            case Connection.CANCELLED -> "CANCELLED";
            default -> "FAILED";
        };
    }

    static String seconds(Duration time) {
        return time.toMillis() % 1000 == 0 ? time.toSeconds() + " s" : time.toMillis() + " ms";
    }
}

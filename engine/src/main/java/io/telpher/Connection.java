package io.telpher;

import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A bidirectional association of two endpoints. Everything is thread-safe. Transfers of one
/// connection are not ordered among each other; sends and receives match in post order per tag.
///
/// Three styles: the methods without prefix return a posted [Transfer] (wait, callback, future);
/// the `prepare` methods return one that can be posted many times without allocating; the `try`
/// methods return a token for [#poll(long)] without allocating, or a negative reason.
public interface Connection extends AutoCloseable {
    /// Result of [#poll(long)]: not ended yet.
    int PENDING = 0;

    /// Result of [#poll(long)]: ended as `DONE`; the token is spent.
    int DONE = 1;

    /// Token of an operation that was done when the `try` method returned; [#poll(long)] of it is
    /// `DONE`.
    long ALREADY_DONE = Long.MAX_VALUE;

    /// Negative reason: too much is in flight; poll, then try again.
    int BACK_PRESSURED = -1;

    /// Negative reason: this side closed the connection or the endpoint.
    int CLOSED = -2;

    /// Negative reason: the peer is lost.
    int PEER_LOST = -3;

    /// Negative reason: the descriptor or the local region is stale.
    int STALE = -4;

    /// Negative reason: the owner does not allow it.
    int DENIED = -5;

    /// Negative reason: the deadline passed.
    int TIMED_OUT = -6;

    /// Negative reason: the message was longer than the receive.
    int TRUNCATED = -7;

    /// Negative reason: cancelled.
    int CANCELLED = -8;

    /// Negative reason: anything else; [#failure()] or the log says what.
    int FAILED = -9;

    /// @return the other endpoint, without its secret: nobody can connect by it
    EndpointAddress peer();

    // --- posted at once -------------------------------------------------------------------------

    /// Writes local bytes into the peer's memory. When a lane breaks, bytes may be stored a second
    /// time before the write ends: who polls the bytes themselves at the target has to be told that
    /// the write has ended, by a notification or otherwise, before that memory gets another use.
    ///
    /// @param local what is written
    /// @param remote where to: at least as long as `local`
    /// @param options deadline, priority, notification, counter
    default Transfer write(MemorySlice local, RemoteMemory remote, TransferOptions options) {
        Transfer transfer = prepareWrite(local, remote, options);
        transfer.post();
        return transfer;
    }

    /// Writes local bytes into the peer's memory.
    default Transfer write(MemorySlice local, RemoteMemory remote) {
        return write(local, remote, TransferOptions.DEFAULTS);
    }

    /// Writes many pieces. Both sides hold the same number of bytes; pieces need not be equal on
    /// both.
    default Transfer write(MemorySlices local, RemoteSlices remote, TransferOptions options) {
        Transfer transfer = prepareWrite(local, remote, options);
        transfer.post();
        return transfer;
    }

    /// Reads the peer's bytes into local memory.
    default Transfer read(MemorySlice local, RemoteMemory remote, TransferOptions options) {
        Transfer transfer = prepareRead(local, remote, options);
        transfer.post();
        return transfer;
    }

    /// Reads the peer's bytes into local memory.
    default Transfer read(MemorySlice local, RemoteMemory remote) {
        return read(local, remote, TransferOptions.DEFAULTS);
    }

    /// Reads many pieces.
    default Transfer read(MemorySlices local, RemoteSlices remote, TransferOptions options) {
        Transfer transfer = prepareRead(local, remote, options);
        transfer.post();
        return transfer;
    }

    /// Sends a message: the k-th send of a tag meets the peer's k-th receive of that tag.
    default Transfer send(long tag, MemorySlice local) {
        return send(tag, MemorySlices.of(local), TransferOptions.DEFAULTS);
    }

    /// Sends a message gathered from pieces.
    default Transfer send(long tag, MemorySlices local, TransferOptions options) {
        Transfer transfer = prepareSend(tag, local, options);
        transfer.post();
        return transfer;
    }

    /// Receives a message of at most the slice's length; [Transfer#bytesMoved()] gives the exact
    /// length.
    default Transfer receive(long tag, MemorySlice local) {
        return receive(tag, MemorySlices.of(local), TransferOptions.DEFAULTS);
    }

    /// Receives a message scattered over pieces.
    default Transfer receive(long tag, MemorySlices local, TransferOptions options) {
        Transfer transfer = prepareReceive(tag, local, options);
        transfer.post();
        return transfer;
    }

    /// Sends a notification without a write. Notifications sent one after the other by one thread
    /// arrive in that order.
    ///
    /// @param payload any bytes, read before this method returns; at most the peer's limit
    Transfer notifyPeer(MemorySegment payload, TransferOptions options);

    /// Sends a notification without a write.
    default Transfer notifyPeer(MemorySegment payload) {
        return notifyPeer(payload, TransferOptions.DEFAULTS);
    }

    // --- prepared -------------------------------------------------------------------------------

    /// A write that can be posted many times.
    Transfer prepareWrite(MemorySlice local, RemoteMemory remote, TransferOptions options);

    /// A vectored write that can be posted many times.
    Transfer prepareWrite(MemorySlices local, RemoteSlices remote, TransferOptions options);

    /// A read that can be posted many times.
    Transfer prepareRead(MemorySlice local, RemoteMemory remote, TransferOptions options);

    /// A vectored read that can be posted many times.
    Transfer prepareRead(MemorySlices local, RemoteSlices remote, TransferOptions options);

    /// A send that can be posted many times.
    Transfer prepareSend(long tag, MemorySlices local, TransferOptions options);

    /// A receive that can be posted many times.
    Transfer prepareReceive(long tag, MemorySlices local, TransferOptions options);

    // --- tokens ---------------------------------------------------------------------------------

    /// Posts a write without allocating. Tokens are for one range of memory; what has pieces, a
    /// notification, a counter or a priority is prepared once and posted as often as one likes,
    /// which does not allocate either.
    ///
    /// @return a token, or a negative reason
    long tryWrite(
            MemoryRegion local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length);

    /// Posts a read without allocating.
    ///
    /// @return a token, or a negative reason
    long tryRead(
            MemoryRegion local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length);

    /// Posts a send without allocating.
    ///
    /// @return a token, or a negative reason
    long trySend(long tag, MemoryRegion local, long offset, long length);

    /// Posts a receive without allocating.
    ///
    /// @return a token, or a negative reason
    long tryReceive(long tag, MemoryRegion local, long offset, long length);

    /// Posts a notification without allocating. The payload is read before this method returns.
    ///
    /// @return a token, or a negative reason
    long tryNotify(MemorySegment payload, long offset, int length);

    /// Makes progress and asks after a token. A result other than `PENDING` spends the token.
    ///
    /// @return `PENDING`, `DONE` or a negative reason
    int poll(long token);

    /// Bytes moved by the operation that the last [#poll(long)] of this connection ended; for
    /// receives the exact length. Meant for connections whose tokens one thread polls.
    long bytesMoved();

    /// Makes progress: takes in what has arrived, sends what waits.
    ///
    /// @return how many frames were handled
    int poll();

    // --- notifications --------------------------------------------------------------------------

    /// Takes the oldest notification, if there is one; makes progress.
    @Nullable Notification pollNotification();

    /// Takes the oldest notification without allocating; makes progress.
    ///
    /// @param into gets the payload; must be large enough
    /// @return the payload's length, or -1 when there is none
    /// @throws IndexOutOfBoundsException when `into` is too small; the notification stays
    /// @throws IllegalStateException when the arena of `into` is closed; the notification stays
    int pollNotification(MemorySegment into);

    /// Waits for a notification.
    ///
    /// @throws TelpherException.TimedOut when none came
    /// @throws TelpherException.PeerLost when the peer is lost and none is left
    Notification awaitNotification(Duration atMost);

    // --- names ----------------------------------------------------------------------------------

    /// Looks up memory that the peer published by [Endpoint#publish(String, RemoteMemory)]; waits
    /// until it is there.
    ///
    /// @throws TelpherException.TimedOut when it was not published in time
    RemoteMemory lookup(String name, Duration atMost);

    // --- the rest -------------------------------------------------------------------------------

    /// @return which paths and lanes were chosen, which were rejected, and why; for people
    String explain();

    /// A device by which some bytes of this connection cannot go; they go another way.
    ///
    /// @param by the device
    /// @param reason which bytes, and why; for people
    record Refusal(Device by, String reason) {}

    /// @return the devices that were tried in vain, or not at all, in the order of that
    List<Refusal> refusals();

    /// @return counters since the connection was made
    ConnectionMetrics metrics();

    /// @return whether transfers can be posted
    boolean isOpen();

    /// @return why the connection ended, or null
    @Nullable TelpherException failure();

    /// Ends the connection in both directions: pending transfers fail with
    /// [TelpherException.Closed]. Returns within the drain limit. Closing again does nothing.
    @Override
    void close();
}

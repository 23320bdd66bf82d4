package io.telpher.spi;

import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// An ordered, reliable carrier of frames: it delivers in order or is dead. A frame is a header of
/// [#HEADER] bytes, whose bytes 4 to 7 hold the payload's length, and its payload. The first 8
/// bytes of a header are never all zero.
///
/// The engine holds the lane's send token around [#send], [#flush] and [#releaseOutbound], and its
/// poll token around [#poll], [#discardInbound], [#confirm], [#park] and [#unpark], so each half is
/// used by one thread at a time, while the two halves may be used at the same time. No method
/// blocks.
public interface Lane extends AutoCloseable {
    /// Bytes of a frame's header.
    int HEADER = 64;

    /// What the payload of a frame may always have: the engine packs pieces of up to 16 KiB and
    /// their table into one frame.
    int LEAST_PAYLOAD = 32 * 1024;

    /// Result of [#send]: the lane has taken the frame. [#flush]: nothing is left over.
    int OK = 0;

    /// Result of [#send]: nothing was taken, flush and try later. [#flush]: something is left over.
    int FULL = 1;

    /// Result: the lane is dead, [#failure()] says why.
    int DEAD = -1;

    /// @return the name of the path: `tcp`, `shm-ring`
    String path();

    /// @return both ends, for people
    String text();

    /// @return the largest payload of one frame, at least [#LEAST_PAYLOAD]
    int maxPayload();

    /// Makes memory that the far side reaches, too. A payload of any size that lies there is not
    /// copied by [#send]; nobody changes it until its frame is confirmed. Blocks, at most until the
    /// deadline; called once, without tokens.
    ///
    /// @return the memory, the lane's; valid until it is closed. Null where payloads have to be
    ///     copied
    /// @throws io.telpher.TelpherException when the far side does not take part
    default @Nullable MemorySegment share(long bytes, Deadline deadline) {
        return null;
    }

    /// Takes one frame. The header is copied. The payload is copied, or read until it is written
    /// out; until then the lane takes no other frame, and `owner` names it for [#releaseOutbound].
    ///
    /// @param header memory that holds the header
    /// @param at where it starts
    /// @param payload memory that holds the payload; ignored when `length` is 0
    /// @param offset where it starts
    /// @param length payload bytes
    /// @param owner whose memory the payload is, or null when it is the engine's
    /// @throws IllegalStateException when the payload's arena was closed before anything of the
    ///     frame was taken: the lane is unharmed. Closed later, without [#releaseOutbound], it ends
    ///     the lane.
    int send(
            MemorySegment header,
            long at,
            MemorySegment payload,
            long offset,
            int length,
            @Nullable Object owner);

    /// Hands everything taken so far to the link as far as it goes.
    int flush();

    /// Looks whether everything that [#flush] has handed over arrives even when the lane is closed
    /// now, if the link works. Any thread.
    ///
    /// @return true where the system sees to that; else it may take a [#poll] to come true
    default boolean isDrained() {
        return true;
    }

    /// Copies what is left of an owner's payload into the lane's own memory, so that the owner's is
    /// not read any more.
    void releaseOutbound(Object owner);

    /// Takes in at most `limit` frames.
    ///
    /// @return how many frames ended, or [#DEAD]
    int poll(Receiver receiver, int limit);

    /// Turns the rest of the frame that is being received away from an owner's memory.
    void discardInbound(Object owner);

    /// @return whether [#confirm] tells the peer by itself what was applied; else the engine sends
    ///     frames for that
    default boolean confirmsNatively() {
        return false;
    }

    /// Tells the peer that all frames up to this number were applied. Only when
    /// [#confirmsNatively()].
    default void confirm(long sequence) {
        throw new UnsupportedOperationException(path() + " lanes confirm by frames");
    }

    /// @return what the peer's lane passed to [#confirm] last. Only when [#confirmsNatively()].
    default long confirmed() {
        throw new UnsupportedOperationException(path() + " lanes confirm by frames");
    }

    /// @return a descriptor that becomes readable when [#poll] has work or the lane died, once
    ///     [#park] returned true
    int descriptor();

    /// @return whether the descriptor must also be watched for being writable, since [#flush] left
    ///     something over
    boolean wantsWrite();

    /// Prepares for waiting on the descriptor.
    ///
    /// @return false when there is something to poll already
    boolean park();

    /// Ends the waiting: called once before polling goes on.
    void unpark();

    /// Looks whether the far side is still there, for lanes that span hosts. A lane watches a link
    /// that nobody uses by itself, as TCP does by keep-alive: its probes are owed an answer too.
    ///
    /// @return nanoseconds since the far side's kernel last acknowledged anything that it owed, 0
    ///     when nothing is owed
    long silence();

    /// @return nanoseconds of [#silence] that mean nothing, since the link itself may take so long
    ///     to send again what was lost; 0 where the engine is to judge
    default long patience() {
        return 0;
    }

    /// @return the smoothed round-trip time as the system measures it, in nanoseconds; -1 where
    ///     nobody does
    default long roundTripNanos() {
        return -1;
    }

    /// @return why the lane is dead, or null
    @Nullable String failure();

    /// Frees everything. Called once, under both tokens.
    @Override
    void close();
}

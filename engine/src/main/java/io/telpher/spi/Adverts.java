package io.telpher.spi;

/// Which receives of each side of a link the other side may store into by itself. The receiver lets
/// the sender in, and keeps it out by itself, without an answer: the sender looks before it begins
/// and between two slices. Thread-safe; nothing here blocks.
///
/// A receive is named by its token: the slot in the low half, less than [#SLOTS], and which use of
/// it that is in the high half. An advert is good for one send, so at most one is inside.
public interface Adverts {
    /// How many slots there are.
    int SLOTS = 1 << 16;

    // --- the receiver's -------------------------------------------------------------------------

    /// Lets the peer in. Before it is told of the receive.
    void admit(long receive);

    /// Keeps the peer out: whoever is not inside when this returns does not get in any more.
    void keepOut(long receive);

    /// @return whether the peer may be storing; after [#keepOut] it leaves when it looks the next
    ///     time, and does not come back
    boolean isInside(long receive);

    // --- the sender's ---------------------------------------------------------------------------

    /// Begins to store.
    ///
    /// @return false when the receiver keeps this side out: then it is not inside
    boolean enter(long receive);

    /// @return whether the receiver still lets this side in
    boolean isOpen(long receive);

    /// Has stored: all of it comes before.
    void exit(long receive);
}

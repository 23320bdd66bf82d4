package io.telpher.internal.engine;

/// Whose turn it is on a lane: two sides with frames of their own take turns, frame by frame, so
/// that neither waits for more than one of the other's. A side whose turn it is and that has no
/// frame now leaves it to the other one: the lane is never idle while there is something to send.
/// Operations of high priority go before those of the other side.
///
/// Guarded by the lane's send token and the connection's lock.
final class Turns {
    /// One of the two.
    interface Side {
        /// @return whether an operation of high priority waits for its frames to go out
        boolean isHigh();

        /// Encodes its next frame.
        ///
        /// @return false when there is none now
        boolean next();
    }

    private final Side one;
    private final Side other;

    /// Whose frame went out last.
    private Side last;

    Turns(Side one, Side other) {
        this.one = one;
        this.other = other;
        this.last = other;
    }

    /// Encodes the next frame.
    ///
    /// @return false when neither side has one now
    boolean next() {
        boolean oneFirst = one.isHigh() == other.isHigh() ? last == other : one.isHigh();
        Side first = oneFirst ? one : other;
        Side second = oneFirst ? other : one;
        return take(first) || take(second);
    }

    private boolean take(Side side) {
        boolean encoded = side.next();
        if (encoded) {
            last = side;
        }
        return encoded;
    }
}

package io.telpher.spi;

import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Where the payload of the frame goes that a lane is receiving. One per lane, used again and
/// again; touched only by the holder of the lane's poll token.
public final class Placement {
    /// What to do with the payload.
    public enum Mode {
        /// Read and thrown away.
        DISCARD,
        /// Collected in the lane's own buffer.
        BUFFER,
        /// Written to its destination.
        INTO
    }

    private Mode mode = Mode.DISCARD;
    private MemorySegment segment = MemorySegment.NULL;
    private long offset;
    private @Nullable Object owner;
    private boolean discarded;

    /// Starts as discard.
    public Placement() {}

    /// Throws the payload away.
    public void discard() {
        mode = Mode.DISCARD;
        segment = MemorySegment.NULL;
        owner = null;
        discarded = false;
    }

    /// Collects the payload in the lane's buffer.
    public void buffer() {
        discard();
        mode = Mode.BUFFER;
    }

    /// Writes the payload to its destination.
    ///
    /// @param target the memory
    /// @param at first byte in it
    /// @param holder whose memory it is: what [Lane#discardInbound] names
    public void into(MemorySegment target, long at, Object holder) {
        mode = Mode.INTO;
        segment = target;
        offset = at;
        owner = holder;
        discarded = false;
    }

    /// Turns the rest of the payload away from its destination.
    ///
    /// @return whether it went there
    public boolean revoke(Object holder) {
        if (mode != Mode.INTO || owner != holder) {
            return false;
        }
        discard();
        discarded = true;
        return true;
    }

    /// @return what to do
    public Mode mode() {
        return mode;
    }

    /// @return the destination
    public MemorySegment segment() {
        return segment;
    }

    /// @return first byte in the destination
    public long offset() {
        return offset;
    }

    /// @return whose memory the destination is, null unless the mode is [Mode#INTO]
    public @Nullable Object owner() {
        return owner;
    }

    /// @return whether the destination was revoked after the header had been accepted
    public boolean discarded() {
        return discarded;
    }
}

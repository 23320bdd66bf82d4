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
        INTO,
        /// Left where it lies, in memory that the lane shares with its far side.
        KEEP
    }

    private Mode mode = Mode.DISCARD;
    private MemorySegment segment = MemorySegment.NULL;
    private long offset;
    private @Nullable Object owner;
    private boolean discarded;
    private @Nullable MemorySegment lent;

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

    /// By the lane, before it hands over a header whose payload has come already.
    ///
    /// @param memory all of what the lane shares with its far side, or null when the payload lies
    ///     elsewhere
    public void lend(@Nullable MemorySegment memory) {
        lent = memory;
    }

    /// @return the memory in which the payload lies and may be left by [#keep], or null
    public @Nullable MemorySegment lent() {
        return lent;
    }

    /// Leaves the payload in the memory that was lent, where nobody changes it, unless the far side
    /// breaks its word, until the frame is confirmed. [Receiver#end] says where.
    ///
    /// @param holder whose memory it is for
    public void keep(Object holder) {
        mode = Mode.KEEP;
        owner = holder;
        discarded = false;
    }

    /// Turns the rest of the payload away from its destination.
    ///
    /// @return whether it went there
    public boolean revoke(Object holder) {
        if ((mode != Mode.INTO && mode != Mode.KEEP) || owner != holder) {
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

    /// @return whose memory the destination is, null unless the mode is [Mode#INTO] or [Mode#KEEP]
    public @Nullable Object owner() {
        return owner;
    }

    /// @return whether the destination was revoked after the header had been accepted
    public boolean discarded() {
        return discarded;
    }
}

package io.telpher.spi;

import java.lang.foreign.MemorySegment;

/// Takes what a lane brings in. Called by [Lane#poll] only, on its thread.
public interface Receiver {
    /// A frame's header is there; says where its payload goes. Called for every frame, also for
    /// those without payload.
    ///
    /// @param header [Lane#HEADER] bytes, valid during the call
    /// @param at where the header starts in `header`
    /// @param placement to be filled in by [Placement#into], [Placement#buffer] or
    ///     [Placement#discard]; starts as discard
    /// @return false when the header makes no sense: the lane must end
    boolean begin(MemorySegment header, long at, Placement placement);

    /// All of the frame's payload is where it should be.
    ///
    /// @param header the same bytes as in [#begin]
    /// @param at where the header starts in `header`
    /// @param payload for buffered frames the buffer, valid during the call; for kept ones the lent
    ///     memory; else some segment to be ignored
    /// @param payloadAt where the payload starts in `payload`
    /// @param placement as filled in; [Placement#discarded] tells whether [Lane#discardInbound]
    ///     came in between
    void end(
            MemorySegment header,
            long at,
            MemorySegment payload,
            long payloadAt,
            Placement placement);
}

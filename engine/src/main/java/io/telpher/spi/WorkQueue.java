package io.telpher.spi;

import org.jspecify.annotations.Nullable;

/// Copies between local regions and the [Window]s of one link that are made in the background, as a
/// NIC makes them. Thread-safe; no method but [#prepare] blocks.
///
/// What has completed is taken up by [Lane#poll] of the same link, whose descriptor tells of it.
public interface WorkQueue {
    /// Makes a local region one that work may name, until it is revoked. Blocks, on the control
    /// executor.
    ///
    /// @throws io.telpher.TelpherException when it cannot, with the reason
    void prepare(LocalRegion region);

    /// @return whether work may name the region
    boolean reaches(LocalRegion region);

    /// @return what carries out the pieces of one source: one piece of work at a time, again and
    ///     again
    Work work(Source source);

    /// How work ended. But for [#STUCK] nothing of local memory is touched on its behalf any more.
    /// In the order of how little is known: of several things that happen to work the last counts.
    enum End {
        /// Everything was copied, and is visible where it was copied to.
        DONE,
        /// It was stopped; nothing of it is under way.
        STOPPED,
        /// A region was closed, on one of the two sides; nothing of it is under way.
        STALE,
        /// It failed; nothing of it is under way.
        FAILED,
        /// It was cut off: what it was writing may still arrive at the peer, until
        /// [Source#fenced]. Nothing is posted for the same source again.
        ABORTED,
        /// The link is gone. It may be begun again another way once the peer has given up the
        /// link's lane, not before: until then what it was writing may still arrive.
        LOST,
        /// As [#LOST], and the device does not let go: until the peer has given up the link's lane,
        /// local memory may be touched, too.
        STUCK
    }

    /// Carries out pieces of work.
    interface Work {
        /// Begins; ends once, by [Source#ended], perhaps before this returns. Throws nothing: what
        /// goes wrong is an end.
        ///
        /// @param read whether bytes come from the peer
        /// @param bytes how many in all, at least 1
        void post(boolean read, long bytes);

        /// Lets what is under way complete, and begins nothing more of it. Harmless when it has
        /// ended.
        void stop();

        /// After [#stop]: cuts off what has not completed. Other work of the queue may take longer
        /// for it. Harmless when it has ended.
        void abort();
    }

    /// What is to be copied. The queue uses it on one thread at a time, from the beginning of work
    /// to its end.
    interface Source {
        /// Goes on to the next piece.
        ///
        /// @return false when there is none
        boolean next();

        /// @return the peer's memory of this piece: a window of the same link, or null when it was
        ///     closed since the work was posted
        @Nullable Window window();

        /// @return the local memory of this piece
        LocalRegion region();

        /// @return where the piece begins in [#window()]
        long remoteOffset();

        /// @return where the piece begins in [#region()]
        long localOffset();

        /// @return its length
        long bytes();

        /// The work has ended. Called on a thread that polls the lane, or another one; must not
        /// block. Not called while anything is held that [Work#stop] or [Work#abort] waits for, nor
        /// within those, of other work than theirs.
        ///
        /// @param why for people, or null
        void ended(End end, @Nullable String why);

        /// After [End#ABORTED] of what it wrote: nothing of it arrives at the peer any more. Comes
        /// once, unless the link is lost before: then the peer has to give up the link's lane. As
        /// [#ended].
        void fenced();
    }
}

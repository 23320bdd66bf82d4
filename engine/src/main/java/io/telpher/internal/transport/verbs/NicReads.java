package io.telpher.internal.transport.verbs;

import org.jspecify.annotations.Nullable;

/// Which writes of a [NicQueue] a read of the peer's flush word has to follow before they count as
/// done, and when the next read is due. `docs/protocol.md` says why they need one.
///
/// A read covers all writes that were posted before it. The next one is due as soon as as many
/// writes wait for it as those under way cover: a single write has its read right behind it, and of
/// many in flight about half share one, while the other half keeps the link busy.
///
/// Guarded by the queue.
final class NicReads {
    private FlushWord.@Nullable Read word;

    /// Writes that completed, and that no read behind them has come back for; in order.
    private final NicWorks arrived = new NicWorks();

    /// Writes in front of reads that are under way.
    private int covered;

    /// Writes behind the last read, and the last of them.
    private int owed;

    private @Nullable NicWork last;

    /// @param read what follows writes from now on, or null where nothing has to
    void use(FlushWord.@Nullable Read read) {
        word = read;
    }

    /// @return the read, or null where none is needed
    FlushWord.@Nullable Read word() {
        return word;
    }

    /// The last request of a write was cut.
    ///
    /// @return whether a read has to follow it at once
    boolean written(NicWork work) {
        owed++;
        last = work;
        return owed >= covered;
    }

    /// @return whose write a read has to be posted behind, or null while none is due
    @Nullable NicWork due() {
        return owed > 0 && owed >= covered ? last : null;
    }

    /// A read follows.
    ///
    /// @return how many writes it covers that no other does
    int covering() {
        int more = owed;
        covered += more;
        owed = 0;
        last = null;
        return more;
    }

    /// A write has completed that no read in its own batch follows.
    void arrived(NicWork work) {
        arrived.add(work);
    }

    /// A read has come back.
    ///
    /// @param covers what [#covering] said of it
    void came(int covers) {
        covered -= covers;
    }

    /// @return the next write that has completed and is not known to be in memory, or null
    @Nullable NicWork poll() {
        return arrived.poll();
    }

    /// @return the first of those, linked through [NicWork#next]
    @Nullable NicWork first() {
        return arrived.first();
    }

    void remove(NicWork work) {
        arrived.remove(work);
    }

    /// Forgets what was posted: it is counted anew as it is posted again.
    void restart() {
        covered = 0;
        owed = 0;
        last = null;
    }
}

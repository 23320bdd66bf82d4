package io.telpher.internal.engine;

import java.util.concurrent.atomic.AtomicReference;

/// How quick a link is with ranges of long operations that others carry as well, and so whether it
/// gets any. One that was too slow is tried again in time, with one range: see `docs/rdma.md`.
///
/// Thread-safe; of what racing threads note a little is lost.
final class LinkPace {
    /// How the link stands to long operations.
    private enum Standing {
        /// It takes what it has time for.
        GOOD,
        /// It was too slow.
        LEFT_OUT,
        /// It was too slow, and has one range to show what it does now.
        TRIED
    }

    private final AtomicReference<Standing> standing = new AtomicReference<>(Standing.GOOD);

    /// Nanoseconds from the posting of a range to its end, on average.
    private volatile long nanos;

    /// @return nanoseconds from the posting of a range to its end, on average; 0 while none has
    ///     ended
    long nanos() {
        return nanos;
    }

    /// A range has taken so long.
    void took(long time) {
        long before = nanos;
        nanos = before == 0 ? time : Math.max(1, before + (time - before) / 4);
        standing.set(Standing.GOOD);
    }

    /// A range has not come to its end: that says nothing.
    void tookNone() {
        standing.compareAndSet(Standing.TRIED, Standing.LEFT_OUT);
    }

    /// Whether the quickest link is done with all that is left before this one is with one range.
    ///
    /// @param quickest nanoseconds that it takes for a range
    /// @param ranges that nobody has
    /// @param each how many a link has under way at a time
    boolean isTooSlow(long quickest, long ranges, int each) {
        return nanos > quickest * (ranges + each) / each;
    }

    /// It was too slow for an operation: in time it is tried again.
    void wasLeftOut() {
        long before = nanos;
        nanos = before - before / 16;
        standing.compareAndSet(Standing.GOOD, Standing.LEFT_OUT);
    }

    /// @return whether it is given a range for which it seems quick enough: not while another one
    ///     shows whether it is
    boolean mayTake() {
        return standing.get() == Standing.GOOD
                || standing.compareAndSet(Standing.LEFT_OUT, Standing.TRIED);
    }
}

package io.telpher.internal.engine;

import java.util.ArrayDeque;

/// What of a long operation nobody has carried yet, in ranges that links take one by one. Belongs
/// to one [WorkJob] at a time, and is guarded by that; what a lost link has not carried goes out
/// again with the next one.
final class WorkRanges {
    /// Bytes of a range, but for the last of an operation.
    static final long RANGE = 512 << 10;

    private long length;

    /// All before this was taken.
    private long taken;

    /// What was taken and not carried, and may be taken again.
    private final ArrayDeque<Long> again = new ArrayDeque<>(0);

    /// The same of what may not yet: it may be under way on a link that is lost.
    private final ArrayDeque<Long> lost = new ArrayDeque<>(0);

    /// All of another operation.
    void start(long bytes) {
        length = bytes;
        taken = 0;
        again.clear();
        lost.clear();
    }

    /// @return how many there are to take
    long count() {
        return (length - taken + RANGE - 1) / RANGE + again.size();
    }

    /// @return where the next one begins; there is one
    long take() {
        Long before = again.pollFirst();
        if (before != null) {
            return before;
        }
        long from = taken;
        taken = Math.min(length, from + RANGE);
        return from;
    }

    /// @return how long the one is that begins there
    long bytes(long from) {
        return Math.min(RANGE, length - from);
    }

    /// One that was taken was not carried.
    void lose(long from) {
        lost.addLast(from);
    }

    /// Nothing of what was lost is under way any more.
    void takeLostAgain() {
        again.addAll(lost);
        lost.clear();
    }
}

package io.telpher.cli.soak;

/// Judges whether a rank that has said nothing yet is still on its way: with little of a processor
/// it needs minutes for what takes a second. One that gets none, or waits for ever, uses none. Used
/// by the driver's thread.
final class Starting {
    /// The longest that a rank may take, however busy it is, in ns.
    static final long LIMIT = 900_000_000_000L;

    /// What it has to have used of a processor between two looks, in ns: a hundredth of one gives
    /// six times as much in a minute, an idle JVM uses less.
    static final long WORK = 100_000_000;

    private final long since;
    private long used;

    /// @param now when it was started, in ns
    Starting(long now) {
        since = now;
    }

    /// Looks again.
    ///
    /// @param now in ns
    /// @param usedByNow what it has used of a processor since its start, in ns
    /// @return whether it has worked since the last look and has time left
    boolean goesOn(long now, long usedByNow) {
        boolean works = usedByNow - used >= WORK;
        used = usedByNow;
        return works && now - since < LIMIT;
    }

    /// @return what is wrong, in words
    String text(long now) {
        return "has not started within %d s, in which it had %.2f s of a processor"
                .formatted((now - since) / 1_000_000_000, used / 1e9);
    }
}

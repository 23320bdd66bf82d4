package io.telpher.spi;

import java.time.Duration;

/// A moment of [System#nanoTime()].
///
/// @param nanos the moment
public record Deadline(long nanos) {
    /// @return the moment that lies so far ahead
    public static Deadline in(Duration time) {
        return new Deadline(System.nanoTime() + Math.min(time.toNanos(), Long.MAX_VALUE / 4));
    }

    /// @return nanoseconds left, negative when it has passed
    public long left() {
        return nanos - System.nanoTime();
    }

    /// @return milliseconds left, rounded up, zero when it has passed
    public int leftMillis() {
        long left = left();
        return left <= 0 ? 0 : (int) Math.min(Integer.MAX_VALUE, (left + 999_999) / 1_000_000);
    }

    /// @return whether it has passed
    public boolean passed() {
        return left() <= 0;
    }

    /// @return the earlier of the two
    public Deadline or(Duration time) {
        Deadline other = in(time);
        return other.nanos - nanos < 0 ? other : this;
    }
}

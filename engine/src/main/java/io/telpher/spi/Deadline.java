package io.telpher.spi;

import java.time.Duration;

/// A moment of a clock.
///
/// @param clock whose moment it is
/// @param nanos the moment
public record Deadline(Clock clock, long nanos) {
    /// @return the moment of the machine's clock that lies so far ahead
    public static Deadline in(Duration time) {
        return Clock.SYSTEM.in(time);
    }

    /// @return nanoseconds left, negative when it has passed
    public long left() {
        return nanos - clock.nanoTime();
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

    /// @return the earlier of this and the moment that lies so far ahead
    public Deadline or(Duration time) {
        Deadline other = clock.in(time);
        return other.nanos - nanos < 0 ? other : this;
    }
}

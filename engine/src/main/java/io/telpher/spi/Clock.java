package io.telpher.spi;

import java.time.Duration;

/// Where time comes from: the machine, or a simulation. Thread-safe.
public interface Clock {
    /// The machine's.
    Clock SYSTEM = System::nanoTime;

    /// @return nanoseconds since some moment; only differences mean something
    long nanoTime();

    /// @return the moment that lies so far ahead
    default Deadline in(Duration time) {
        return new Deadline(this, nanoTime() + Math.min(time.toNanos(), Long.MAX_VALUE / 4));
    }
}

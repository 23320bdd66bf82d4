package io.telpher.cli.soak;

import java.util.function.LongSupplier;

/// Time in which this process ran: what it was stopped for, or got no processor for, does not
/// pass. The checker's patience with others is measured by it, since all processes of a soak may be
/// stopped together (Ctrl-Z, a debugger, a suspended machine), and a starved machine makes them
/// slow together. Thread-safe.
final class Clock {
    /// Of this process.
    static final Clock OWN = new Clock(System::nanoTime);

    /// The longest gap between two looks that is not a pause.
    static final long GAP = 1_000_000_000L;

    private static final int LOOK_MILLIS = 100;

    private final LongSupplier time;
    private long last;
    private long lost;

    /// @param time nanoseconds that never go back
    Clock(LongSupplier time) {
        this.time = time;
        last = time.getAsLong();
    }

    /// Looks all the time, so that a gap is a pause and not want of interest.
    void start() {
        Thread.ofPlatform()
                .daemon()
                .name("soak-clock")
                .start(
                        () -> {
                            while (true) {
                                now();
                                try {
                                    Thread.sleep(LOOK_MILLIS);
                                } catch (InterruptedException e) {
                                    return;
                                }
                            }
                        });
    }

    /// @return nanoseconds, less all pauses
    synchronized long now() {
        long now = time.getAsLong();
        if (now - last > GAP) {
            lost += now - last;
        }
        last = now;
        return now - lost;
    }
}

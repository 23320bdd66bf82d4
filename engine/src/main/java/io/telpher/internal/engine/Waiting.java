package io.telpher.internal.engine;

import java.util.concurrent.locks.LockSupport;

/// How a thread passes the time while it waits for something short.
final class Waiting {
    private Waiting() {}

    /// Spins at first, then yields, then sleeps 50 microseconds at a time.
    ///
    /// @param round how often the caller has waited already
    static void pause(int round) {
        if (round < 64) {
            Thread.onSpinWait();
        } else if (round < 256) {
            Thread.yield();
        } else {
            LockSupport.parkNanos(50_000);
        }
    }
}

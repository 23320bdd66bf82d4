package io.telpher.internal.engine;

import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;

/// Threads of one endpoint that wait for what other threads do: dials, handshakes, lanes that join,
/// connections to accept. For what is rare: whatever changes, all look again.
final class Gate {
    private final Platform platform;
    private final ConcurrentLinkedQueue<Thread> waiting = new ConcurrentLinkedQueue<>();

    Gate(Platform platform) {
        this.platform = platform;
    }

    /// Waits until something is so; whoever makes it so calls [#changed()] afterwards. Without
    /// locks.
    ///
    /// @param doing what is interrupted when the thread is
    /// @return whether it is so; false at the deadline
    /// @throws TelpherException.Cancelled when the thread is interrupted; it stays so
    boolean await(BooleanSupplier condition, Deadline deadline, String doing) {
        if (condition.getAsBoolean()) {
            return true;
        }
        Thread thread = Thread.currentThread();
        waiting.add(thread);
        try {
            while (!condition.getAsBoolean()) {
                long left = deadline.left();
                if (left <= 0) {
                    return false;
                }
                if (thread.isInterrupted()) {
                    throw new TelpherException.Cancelled("interrupted while " + doing);
                }
                platform.park(this, left);
            }
            return true;
        } finally {
            boolean removed = waiting.remove(thread);
            assert removed;
        }
    }

    /// Something changed that somebody may wait for.
    void changed() {
        for (Thread thread : waiting) {
            platform.unpark(thread);
        }
    }
}

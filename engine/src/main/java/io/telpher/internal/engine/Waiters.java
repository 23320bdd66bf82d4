package io.telpher.internal.engine;

import io.telpher.TelpherException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BooleanSupplier;

/// Threads that wait for something on a connection: they poll it themselves for a while, then park.
/// Any thread may wait that holds neither lock nor tokens; any may wake the others.
final class Waiters {
    private final ConnectionCore connection;
    private final Platform platform;
    private final ConcurrentLinkedQueue<Thread> parked = new ConcurrentLinkedQueue<>();

    Waiters(ConnectionCore connection) {
        this.connection = connection;
        this.platform = connection.platform;
    }

    /// Whether nobody is parked.
    boolean isEmpty() {
        return parked.isEmpty();
    }

    private void remove(Thread thread) {
        boolean removed = parked.remove(thread);
        assert removed;
    }

    /// Lets those that are parked look again.
    void wake() {
        if (!parked.isEmpty()) {
            for (Thread thread : parked) {
                platform.unpark(thread);
            }
        }
    }

    /// Waits until something is so; polls, then parks.
    ///
    /// @return whether it is so
    boolean waitFor(BooleanSupplier done, long nanos) {
        if (done.getAsBoolean()) {
            return true;
        }
        long start = platform.nanoTime();
        // Who does not want to spin looks once.
        int leastRounds = connection.spinNanos() > 0 ? 256 : 0;
        int round = 0;
        while (true) {
            if (connection.poll() > 0) {
                round = 0;
            }
            if (done.getAsBoolean()) {
                return true;
            }
            if ((++round & 31) == 0 || leastRounds == 0) {
                long passed = platform.nanoTime() - start;
                if (passed >= nanos) {
                    return false;
                }
                if (passed > connection.spinNanos() && round >= leastRounds) {
                    break;
                }
                Thread.yield();
            } else {
                Thread.onSpinWait();
            }
        }
        return park(done, start, nanos);
    }

    private boolean park(BooleanSupplier done, long start, long nanos) {
        Thread thread = Thread.currentThread();
        parked.add(thread);
        try {
            connection.endpoint().progress().takeOver(connection);
            while (!done.getAsBoolean()) {
                long left = nanos - (platform.nanoTime() - start);
                if (left <= 0) {
                    return false;
                }
                if (Thread.interrupted()) {
                    thread.interrupt();
                    throw new TelpherException.Cancelled(
                            "interrupted while waiting for "
                                    + connection.peerText()
                                    + "; what was posted goes on");
                }
                if (connection.endpoint().progress().isCurrent()) {
                    // A callback waits: nobody else makes progress or ends what is late.
                    connection.tick(platform.nanoTime());
                    int frames = connection.poll();
                    platform.park(connection, frames > 0 ? 1 : 50_000);
                    continue;
                }
                platform.park(connection, Math.min(left, 100_000_000));
            }
            return true;
        } finally {
            remove(thread);
        }
    }
}

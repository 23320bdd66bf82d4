package io.telpher.python;

import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.TimeUnit;

/// What Python's callback thread has to hear of: handles of transfers that have ended;
/// 0 wakes it up.
final class Completions {
    private static final Queue<Long> QUEUE = new ArrayDeque<>();

    private Completions() {}

    static void add(long handle) {
        synchronized (QUEUE) {
            QUEUE.add(handle);
            QUEUE.notifyAll();
        }
    }

    /// Waits until there is something.
    ///
    /// @param room how many handles fit
    /// @return how many there are
    static long take(long nanos, long into, long room) throws InterruptedException {
        long until = System.nanoTime() + nanos;
        synchronized (QUEUE) {
            long left;
            while (QUEUE.isEmpty() && (left = until - System.nanoTime()) > 0) {
                TimeUnit.NANOSECONDS.timedWait(QUEUE, left);
            }
            int taken = 0;
            Long next;
            while (taken < room && (next = QUEUE.poll()) != null) {
                Request.put(into, 8 * taken++, next);
            }
            return taken;
        }
    }
}

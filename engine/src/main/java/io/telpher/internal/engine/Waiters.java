package io.telpher.internal.engine;

import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.LockSupport;

/// Threads that are parked until something happens on a connection.
final class Waiters {
    private final ConcurrentLinkedQueue<Thread> parked = new ConcurrentLinkedQueue<>();

    boolean isEmpty() {
        return parked.isEmpty();
    }

    void add(Thread thread) {
        parked.add(thread);
    }

    void remove(Thread thread) {
        boolean removed = parked.remove(thread);
        assert removed;
    }

    void wake() {
        if (!parked.isEmpty()) {
            for (Thread thread : parked) {
                LockSupport.unpark(thread);
            }
        }
    }
}

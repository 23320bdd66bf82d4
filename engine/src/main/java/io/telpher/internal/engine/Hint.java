package io.telpher.internal.engine;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/// A number that others may look at without the lock to learn whether a closer look is worth it. It
/// is written and read in one piece and becomes visible soon, but orders nothing: where a decision
/// hangs on it, a fence stands beside it.
final class Hint {
    private static final VarHandle VALUE;

    static {
        try {
            VALUE = MethodHandles.lookup().findVarHandle(Hint.class, "value", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private long value;

    long get() {
        return (long) VALUE.getAcquire(this);
    }

    void set(long now) {
        VALUE.setRelease(this, now);
    }

    boolean isSet() {
        return get() != 0;
    }

    void set() {
        set(1);
    }

    void clear() {
        set(0);
    }

    /// One more; for a single writer at a time.
    void count() {
        set(value + 1);
    }
}

package io.telpher.internal.engine;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/// A number that others may look at without the lock to learn whether a closer look is worth it. It
/// is written after what it speaks of and read before a look at that (release and acquire), no
/// more: where a lost look would be a lost wake-up, a full fence stands beside it. Read as a field,
/// which is the same once compiled well, and much cheaper before.
final class Hint {
    private static final VarHandle VALUE;

    static {
        try {
            VALUE = MethodHandles.lookup().findVarHandle(Hint.class, "value", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private volatile long value;

    long get() {
        return value;
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

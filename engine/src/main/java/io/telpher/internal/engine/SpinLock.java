package io.telpher.internal.engine;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import org.jspecify.annotations.Nullable;

/// A lock for sections of some ten nanoseconds. Giving it back is one plain store, where a
/// `ReentrantLock` needs a fence and a look at its queue; a message passes three such sections.
/// Nothing blocks while holding it, and it cannot be taken twice.
final class SpinLock {
    private static final VarHandle HELD;

    static {
        try {
            HELD = MethodHandles.lookup().findVarHandle(SpinLock.class, "held", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final Platform platform;

    private volatile int held;

    /// Only kept with assertions.
    private @Nullable Thread owner;

    SpinLock(Platform platform) {
        this.platform = platform;
    }

    void lock() {
        assert owner != Thread.currentThread() : "taken twice";
        int round = 0;
        while (held != 0 || !HELD.compareAndSet(this, 0, 1)) {
            platform.pause(round++);
        }
        assert own(Thread.currentThread());
    }

    void unlock() {
        assert own(null);
        HELD.setRelease(this, 0);
    }

    /// With assertions only: whether the calling thread holds it.
    boolean isMine() {
        return owner == Thread.currentThread();
    }

    private boolean own(@Nullable Thread thread) {
        owner = thread;
        return true;
    }
}

package io.telpher.internal.engine;

import io.telpher.spi.Deadline;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/// A lock that is never held while blocking and mostly tried rather than waited for: the right to
/// use one half of a lane.
final class Token {
    private static final VarHandle HELD;

    static {
        try {
            HELD = MethodHandles.lookup().findVarHandle(Token.class, "held", int.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final Platform platform;

    volatile int held;

    Token(Platform platform) {
        this.platform = platform;
    }

    /// @return whether the caller has it now
    boolean tryTake() {
        return held == 0 && HELD.compareAndSet(this, 0, 1);
    }

    /// Waits for it: holders do not block.
    void take() {
        int round = 0;
        while (!tryTake()) {
            platform.pause(round++);
        }
    }

    /// As [#take()], but not for ever: threads that take it again and again leave gaps, but nobody
    /// says when another one hits one, and a thread may be stopped while it holds it.
    ///
    /// @return whether the caller has it now
    boolean take(Deadline deadline) {
        int round = 0;
        while (!tryTake()) {
            if (deadline.passed()) {
                return false;
            }
            platform.pause(round++);
        }
        return true;
    }

    /// Gives it back, with a full fence: what a failed [#tryTake()] left to the holder must be seen
    /// by the holder's look after this.
    void giveBack() {
        HELD.setRelease(this, 0);
        VarHandle.fullFence();
    }

    /// Gives it back without a fence: for tokens whose failed takers leave nothing to the holder.
    void release() {
        HELD.setRelease(this, 0);
    }
}

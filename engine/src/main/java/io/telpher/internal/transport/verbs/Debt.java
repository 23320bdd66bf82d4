package io.telpher.internal.transport.verbs;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;

/// For how long a device owes the end of what was posted. Whoever posts and takes completions does
/// not read the clock, which costs a fifth of a short write: who asks does, again and again, and a
/// time in which nothing moves begins with such a look.
final class Debt {
    private static final VarHandle STAMP;

    static {
        try {
            STAMP = MethodHandles.lookup().findVarHandle(Debt.class, "stamp", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    /// 0 while nothing is owed; else another number after each change. Written without a fence: who
    /// must not miss what another thread has posted looks under the monitor under which that posts.
    private volatile long stamp;

    private long stamps;

    // Of whoever asks, one thread at a time.
    private long seen;
    private long since;

    boolean isOwed() {
        return stamp != 0;
    }

    /// Something was posted while nothing was owed, or has completed. One thread at a time.
    ///
    /// @param owed whether something is under way
    void changed(boolean owed) {
        STAMP.setRelease(this, owed ? ++stamps : 0);
    }

    /// @return nanoseconds for which nothing of it has moved; 0 when nothing is owed
    long silence() {
        long now = System.nanoTime();
        long what = stamp;
        if (what != seen) {
            seen = what;
            since = now;
        }
        return what == 0 ? 0 : now - since;
    }
}

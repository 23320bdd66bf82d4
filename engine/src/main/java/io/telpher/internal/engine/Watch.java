package io.telpher.internal.engine;

import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/// The progress thread's view of one connection, and the parking of its lanes. Belongs to that
/// thread; others read the condition and set `asked`.
final class Watch {
    /// So many quick ticks without operations in flight, and they become slow.
    static final int QUIET_TICKS = 4;

    /// One of so many slow ticks takes a turn; a power of two.
    private static final int TURNED_TICKS = 4;

    private static final long QUICK_NANOS = Progress.TICK_MILLIS * 1_000_000L;
    private static final long SLOW_NANOS = Progress.SLOW_TICK_MILLIS * 1_000_000L;

    enum Condition {
        ACTIVE,
        ARMED,
        LEASED
    }

    final ConnectionCore connection;
    volatile Condition condition = Condition.ARMED;

    /// It is among those to be looked after.
    final AtomicBoolean asked = new AtomicBoolean();

    /// The next of those; written by who sets `asked`, cleared by the progress thread before it
    /// clears that.
    @Nullable Watch nextAsked;

    long pollsSeen = -1;

    /// When its users were found polling it.
    long leasedSince;

    long quietSince;

    /// It is looked at once a second: who posts something with a deadline clears this and
    /// rings. The progress thread sets it only where it has read that it is not set: to set it
    /// again would undo what somebody has just cleared, and the ring would lead to no look.
    volatile boolean slow;

    /// Ticks in a row that have found no operation in flight.
    private int quietTicks;

    /// Ticks, while it is looked at once a second.
    private int slowTicks;

    /// When it is looked at again.
    long nextLook;

    Watch(ConnectionCore connection) {
        this.connection = connection;
    }

    /// Has it looked at often again.
    void hurry() {
        quietTicks = 0;
        slow = false;
    }

    /// Whether a tick looks at it. Half of the time early is in time, so that those that are slow
    /// come to be looked at in the same tick.
    boolean isDue(long now) {
        return !slow || nextLook - now <= SLOW_NANOS / 2 || connection.isOver();
    }

    /// Whether a tick takes a turn of the armed connection, lest a wake-up was ever lost: none is
    /// known to be. Of idle ones each fourth does: with many of them the turns are what costs. It
    /// would find such a frame 4 s late on the first lane, and 32 s on the others, which each
    /// eighth turn looks at.
    boolean isToBeTurned() {
        return !slow || (slowTicks++ & TURNED_TICKS - 1) == 0;
    }

    /// A tick has looked at the connection.
    ///
    /// @param busy whether operations are in flight
    void ticked(long now, boolean busy) {
        ticked(now, busy, slow);
    }

    /// A tick has looked at the connection.
    ///
    /// @param before `slow`, as it was read after the look: by now somebody may have cleared it
    void ticked(long now, boolean busy, boolean before) {
        boolean posted = quietTicks >= QUIET_TICKS && !before; // by somebody, since
        quietTicks = busy || posted ? 0 : quietTicks + 1;
        boolean slowly = quietTicks >= QUIET_TICKS;
        // What is posted after this is announced by a ring; what was posted before it, and after
        // the look, is found by one more quick tick.
        if (slowly != before) {
            slow = slowly;
        }
        nextLook = now + (slowly && before ? SLOW_NANOS : QUICK_NANOS);
    }

    /// Parks all lanes.
    ///
    /// @return false when there is something to do after all
    boolean arm(Sources sources) {
        condition = Condition.ARMED;
        boolean armed = false;
        try {
            armed = parkAll(sources);
            return armed;
        } finally {
            if (!armed) {
                condition = Condition.ACTIVE;
            }
        }
    }

    private boolean parkAll(Sources sources) {
        if (connection.devices.isPolled() || connection.streams.isFilled()) {
            return false; // no event tells of what GPUs do
        }
        if (connection.endings.hasWork()) {
            return false; // told by a thread that takes no turns
        }
        for (LaneState s : connection.lanes.all()) {
            if (s.dead) {
                continue;
            }
            s.pollToken.take();
            try {
                if (s.closed) {
                    continue;
                }
                if (!connection.keeper.confirming.beforePark(s) || !s.lane.park()) {
                    return false;
                }
                s.parked = true;
                sources.arm(s, this);
            } finally {
                s.pollToken.giveBack();
            }
        }
        return true;
    }

    /// An event has come for a parked lane.
    static void wake(LaneState s) {
        s.pollToken.take();
        try {
            if (s.parked && !s.closed) {
                unpark(s);
            }
        } finally {
            s.pollToken.giveBack();
        }
    }

    /// A parked lane has something. Under its poll token.
    static void unpark(LaneState s) {
        s.parked = false;
        s.lane.unpark();
    }
}

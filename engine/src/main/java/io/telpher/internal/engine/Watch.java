package io.telpher.internal.engine;

import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/// The progress thread's view of one connection, and the parking of its lanes. Belongs to that
/// thread; others read the condition and set `asked`.
final class Watch {
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

    Watch(ConnectionCore connection) {
        this.connection = connection;
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

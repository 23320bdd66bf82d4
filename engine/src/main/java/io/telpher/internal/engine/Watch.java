package io.telpher.internal.engine;

import java.util.concurrent.atomic.AtomicBoolean;

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

    /// It is in the queue of those to be looked after.
    final AtomicBoolean asked = new AtomicBoolean();

    long pollsSeen = -1;
    long quietSince;

    Watch(ConnectionCore connection) {
        this.connection = connection;
    }

    /// Parks all lanes.
    ///
    /// @return false when there is something to do after all
    boolean arm(Sources sources) {
        condition = Condition.ARMED;
        for (LaneState s : connection.lanes.all()) {
            if (s.dead) {
                continue;
            }
            s.pollToken.take();
            try {
                if (s.closed) {
                    continue;
                }
                if (!connection.keeper.confirmBeforePark(s) || !s.lane.park()) {
                    condition = Condition.ACTIVE;
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

    /// A parked lane has something.
    static void unpark(LaneState s) {
        s.pollToken.take();
        try {
            if (s.parked && !s.closed) {
                s.parked = false;
                s.lane.unpark();
            }
        } finally {
            s.pollToken.giveBack();
        }
    }
}

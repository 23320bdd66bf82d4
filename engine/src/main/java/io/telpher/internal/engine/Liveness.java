package io.telpher.internal.engine;

import java.time.Duration;

/// Judges which lanes of a connection still lead to the peer: gives up those that stand still while
/// others go on, and all when nothing is acknowledged for the liveness time. Guarded by the
/// connection's lock.
final class Liveness {
    /// A lane that confirmed nothing for so long, while another was heard, is given up; where its
    /// link is slower to send again what was lost, after its [io.telpher.spi.Lane#patience].
    private static final long STALL = 1_000_000_000L;

    private final ConnectionCore connection;
    private final Lanes lanes;
    private final Outbound outbound;
    private final LaneKeeper keeper;
    private long lastTick;

    Liveness(ConnectionCore connection, Outbound outbound, LaneKeeper keeper) {
        this.connection = connection;
        this.lanes = connection.lanes;
        this.outbound = outbound;
        this.keeper = keeper;
        this.lastTick = connection.platform.nanoTime();
    }

    /// Looks after lanes that stand still. Under the lock; every 50 to 1000 ms.
    void tick(long now) {
        long pause = now - lastTick;
        lastTick = now;
        keeper.fenceAgain();
        if (pause > 3_000_000_000L) {
            return; // this process was stopped itself: first take in what has arrived meanwhile
        }
        long liveness = connection.endpoint().options().liveness().toNanos();
        boolean suspicious = false;
        for (LaneState s : lanes.all()) {
            if (s.dead || s.closed) {
                continue;
            }
            if (s.framesReceived != s.framesSeen) {
                s.framesSeen = s.framesReceived;
                s.heardAt = now;
            }
            long silence = s.lane.silence();
            long stall = Math.max(STALL, s.lane.patience());
            if (silence >= stall && !s.stalled) {
                s.stalls++;
            }
            s.stalled = silence >= stall;
            if (silence >= liveness - liveness / 3) { // it was heard at the last probe, or before
                s.death =
                        "nothing was acknowledged for "
                                + Failures.seconds(Duration.ofNanos(silence));
                s.dead = true;
                keeper.buryLater();
            } else if (silence >= stall) {
                suspicious = true;
                if (heardElsewhere(s, now)) {
                    s.death =
                            "nothing was acknowledged for "
                                    + Failures.seconds(Duration.ofNanos(silence))
                                    + " while other lanes went on";
                    s.dead = true;
                    keeper.buryLater();
                }
            }
        }
        // Lanes watch idle links by themselves; a probe shows which of them still lead to the peer.
        for (LaneState s : lanes.all()) {
            if (suspicious && !s.dead && !s.lane.confirmsNatively()) {
                s.pingDue = true;
                outbound.urgent();
            }
        }
    }

    private boolean heardElsewhere(LaneState stalled, long now) {
        for (LaneState s : lanes.all()) {
            if (s != stalled
                    && !s.dead
                    && now - s.heardAt < STALL / 2
                    && s.lane.silence() < STALL / 2) {
                return true;
            }
        }
        return false;
    }
}

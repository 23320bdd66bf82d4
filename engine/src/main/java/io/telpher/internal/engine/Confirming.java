package io.telpher.internal.engine;

/// Tells the peer how far the lanes came, and takes in how far it came: when it is worth it, since
/// each costs a frame, or moves a cache line between the two sides. Lanes without a word for it in
/// shared memory carry `APPLIED` instead.
///
/// Called by whoever polls a lane, under its poll token, unless it is said otherwise.
final class Confirming {
    /// So many frames are confirmed even while more come in.
    private static final int LATE = 32;

    /// Confirmations are looked for at every eighth idle poll.
    private static final int LOOK = 7;

    /// While a peer never pauses, its confirmation is looked at every so many polls.
    private static final int BUSY_LOOK = 31;

    /// What nobody waits for is confirmed when nothing more has come for so long, in nanoseconds:
    /// until then an answer may go out, which carries the confirmation.
    private static final long PATIENCE = 5_000;

    private static final long UNREPORTED_BYTES = 4 << 20;

    private final ConnectionCore connection;
    private final SpinLock lock;
    private final Lanes lanes;
    private final Outbound outbound;

    Confirming(ConnectionCore connection, SpinLock lock, Outbound outbound) {
        this.connection = connection;
        this.lock = lock;
        this.lanes = connection.lanes;
        this.outbound = outbound;
    }

    /// Whether the peer should hear how far it came: when it waits, when much has piled up, or when
    /// nothing else is to do.
    boolean isDue(LaneState s, int n) {
        if (s.received() == s.reported) {
            return false;
        }
        if (s.urgent
                || isIdle(s, n)
                || s.received() - s.reported >= LaneKeeper.BATCH
                || s.unreportedBytes >= UNREPORTED_BYTES) {
            s.urgent = false;
            s.unreportedBytes = 0;
            if (s.heldCount == 0) {
                return true;
            }
            lock.lock();
            try {
                return s.reportable() > s.reported;
            } finally {
                lock.unlock();
            }
        }
        return false;
    }

    /// Whether a lane that has brought something has brought nothing more for a while.
    private boolean isIdle(LaneState s, int n) {
        if (n > 0) {
            s.idleSince = 0;
            return false;
        }
        if (connection.endpoint().progress().isCurrent()) {
            return true; // it yields after every turn: its next look may be long in coming
        }
        long now = connection.platform.nanoTime();
        if (s.idleSince == 0) {
            s.idleSince = now;
            return false;
        }
        return now - s.idleSince >= PATIENCE;
    }

    /// Confirmations of lanes that have a word for it in shared memory. Both the writing and the
    /// reading of such a word move a cache line between the two sides, so both wait until there is
    /// nothing better to do.
    ///
    /// @return how many more frames were taken in
    int confirmBoth(LaneState s, int n) {
        int taken = 0;
        long unreported = s.received() - s.reported;
        if (unreported >= LATE || (unreported > 0 && ((n == 0 && s.urgent) || isIdle(s, n)))) {
            s.urgent = false;
            confirmNow(s);
        }
        long unconfirmed = s.sent - s.acked;
        if (unconfirmed == 0) {
            return 0;
        }
        if (n == 0
                ? (++s.looks & LOOK) == 0 || unconfirmed >= LaneState.WINDOW / 2
                : (++s.busyLooks & BUSY_LOOK) == 0) {
            long upTo = s.lane.confirmed();
            if (upTo > s.acked) {
                // A refusal was published before the confirmation that covers it: take it in first.
                int more;
                do {
                    int room = s.inbound.staging.room(LaneKeeper.BATCH);
                    if (room == 0) {
                        return taken;
                    }
                    more = s.lane.poll(s.inbound, room);
                    taken += Math.max(more, 0);
                } while (more > 0);
                confirmed(s, upTo);
            }
        }
        // While frames come in an answer may be due: first things first.
        long told = s.told - s.acked;
        if (n == 0 ? told > 0 : told >= LATE) {
            confirmed(s, s.told);
        }
        return taken;
    }

    /// The peer says how far it came. Under the poll token.
    void confirmed(LaneState s, long upTo) {
        if (!connection.reports.applied(s, upTo)) {
            connection.confirmedTooMuch(upTo);
        }
    }

    /// Under the poll token, for lanes that have a word for it.
    void confirmNow(LaneState s) {
        long upTo = s.received();
        if (s.heldCount != 0) {
            lock.lock();
            try {
                upTo = s.reportable();
            } finally {
                lock.unlock();
            }
        }
        if (upTo > s.reported) {
            s.reported = upTo;
            s.lane.confirm(upTo);
        }
    }

    /// Before a lane is parked: what is not confirmed by then would not be until the next frame.
    /// Under the poll token.
    ///
    /// @return false when there is something to do first
    boolean beforePark(LaneState s) {
        if (s.lane.confirmsNatively()) {
            confirmNow(s);
            if (s.told > s.acked) {
                confirmed(s, s.told);
                return false;
            }
            // Frames may have said more than the word, which then was not looked at: a lane does
            // not park while the word holds news.
            return s.lane.confirmed() <= s.acked;
        }
        if (s.received() == s.reported) {
            return true;
        }
        lock.lock();
        try {
            if (s.reportable() <= s.reported) {
                return true; // held by a refusal that the peer does not know of yet
            }
            outbound.acknowledge(s);
            // A link that takes nothing wakes the thread when it does; until then there is no way.
            LaneState control = lanes.control();
            return control != null && control.blocked;
        } finally {
            lock.unlock();
        }
    }

    /// Says of every lane how far it came: the last chance before this side leaves.
    void all() {
        for (LaneState s : lanes.all()) {
            boolean own = s.lane.confirmsNatively();
            s.pollToken.take();
            lock.lock();
            try {
                long upTo = s.reportable();
                if (own && !s.closed) {
                    s.reported = upTo;
                    s.lane.confirm(upTo);
                } else if (!own && !s.dead) {
                    outbound.acknowledge(s);
                }
            } finally {
                lock.unlock();
                s.pollToken.giveBack();
            }
        }
    }
}

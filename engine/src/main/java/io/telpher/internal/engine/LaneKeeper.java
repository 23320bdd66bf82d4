package io.telpher.internal.engine;

import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Deadline;
import io.telpher.spi.Lane;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// The lanes of one connection: polls them, notices their end, and fences them.
///
/// A lane that died is closed at once. What it had not confirmed goes out again on the others only
/// after the peer has closed it too and said how far it came (`FENCE`, `FENCED`): nothing is ever
/// on two lanes. The last lane's end is the connection's.
///
/// Polling runs under each lane's poll token, and so does what [Confirming] does then; fencing and
/// liveness under the connection's lock, in the turns of whichever thread makes progress; [#settle]
/// and [#letGo] take tokens themselves.
final class LaneKeeper {
    /// Frames that are taken in at once, and that are confirmed at the latest.
    static final int BATCH = 64;

    /// A bulk lane that brought nothing so often is looked at only every eighth time.
    private static final int QUIET = 64;

    private static final int SKIP = 7;

    private final ConnectionCore connection;
    private final SpinLock lock;
    private final Lanes lanes;
    private final Outbound outbound;
    final Confirming confirming;

    /// Some lane has died and has to be closed.
    private volatile boolean burials;

    LaneKeeper(ConnectionCore connection, SpinLock lock, Outbound outbound) {
        this.connection = connection;
        this.lock = lock;
        this.lanes = connection.lanes;
        this.outbound = outbound;
        this.confirming = new Confirming(connection, lock, outbound);
    }

    // --- polling --------------------------------------------------------------------------------

    /// Takes in what has arrived on all lanes.
    ///
    /// @param into where a short notification goes that nobody is before, or null
    /// @return for [#frames] and [#noteLength]
    long poll(@Nullable MemorySegment into) {
        long all = 0;
        for (LaneState s : lanes.all()) {
            if (s.quietPolls > QUIET && (++s.skipped & SKIP) != 0) {
                continue; // looking at a stream costs a system call
            }
            long polled = poll(s, noteLength(all) < 0 ? into : null);
            all += polled;
            if (polled != 0) {
                s.quietPolls = 0;
            } else if (s.index > 0) {
                s.quietPolls++;
            }
        }
        return all;
    }

    /// @return how many frames a poll has taken in
    static int frames(long polled) {
        return (int) polled;
    }

    /// @return length of the notification that a poll has taken, or -1
    static int noteLength(long polled) {
        return (int) (polled >>> 32) - 1;
    }

    private long poll(LaneState s, @Nullable MemorySegment into) {
        if (s.dead || !s.pollToken.tryTake()) {
            return 0;
        }
        int n = 0;
        long note = 0;
        boolean acknowledge = false;
        boolean woken = false;
        try {
            if (s.closed) {
                return 0;
            }
            int room = s.inbound.staging.room(BATCH);
            if (room == 0) {
                return 0; // until a GPU has emptied a buffer
            }
            s.inbound.want(into);
            n = s.lane.poll(s.inbound, room);
            if (n > 0 && s.parked) {
                Watch.unpark(s);
                woken = true;
            }
            boolean own = s.lane.confirmsNatively();
            acknowledge = n >= 0 && !own && confirming.isDue(s, n);
            if (n >= 0 && own) {
                // Frames that came in meanwhile count: they must be confirmed before anybody parks.
                n += confirming.confirmBoth(s, n);
            } else if (n == Lane.DEAD && own) {
                // What the peer has confirmed before it ended is done.
                long upTo = Math.max(s.told, s.lane.confirmed());
                if (upTo > s.acked) {
                    confirming.confirmed(s, upTo);
                }
            }
        } catch (Throwable e) {
            broken(s, e);
        } finally {
            note = s.inbound.wanted();
            s.pollToken.release();
        }
        if (n == Lane.DEAD) {
            died(s);
            n = 0;
        }
        if (acknowledge) {
            lock.lock();
            try {
                outbound.acknowledge(s);
            } finally {
                lock.unlock();
            }
        }
        if (woken) {
            // No event will tell the progress thread of what this thread has taken in and may leave
            // behind, such as a confirmation.
            connection.endpoint().progress().attend(connection);
        }
        return note << 32 | n;
    }

    // --- ends -----------------------------------------------------------------------------------

    /// Marks a lane as dead; it is closed by [#settle()]. May be called with tokens or the lock.
    void died(LaneState s) {
        if (!s.dead) {
            String why = s.lane.failure();
            s.death = why == null ? "closed" : why;
            s.dead = true;
        }
        burials = true;
    }

    /// A lane met something that should not be, an Error or a bug: it ends, rather than meet it
    /// again and again, or go on behind a frame that was taken in by half.
    void broken(LaneState s, Throwable e) {
        Failures.letThrough(e);
        s.death = Failures.internal(e);
        s.dead = true;
        burials = true;
        Log.error("a lane failed", e);
    }

    boolean hasWork() {
        return burials;
    }

    /// Closes dead lanes and starts their fencing. Without tokens and lock.
    void settle() {
        if (!burials) {
            return;
        }
        burials = false;
        boolean settled = false;
        try {
            boolean buried = false;
            for (LaneState s : lanes.all()) {
                if (s.dead && !s.closed) {
                    buried |= close(s);
                }
            }
            settle(buried);
            settled = true;
        } finally {
            if (!settled) {
                burials = true; // for the next turn
            }
        }
    }

    private void settle(boolean buried) {
        lock.lock();
        try {
            if (buried) {
                askAgain(); // what was asked for may have been on its way over this lane
            }
            afterBurials();
        } finally {
            lock.unlock();
        }
    }

    /// Closes a lane under both tokens, unless GPUs are copying from or to its memory: the last
    /// that ends has it closed.
    ///
    /// @return whether it is closed
    boolean close(LaneState s) {
        s.sendToken.take();
        s.pollToken.take();
        try {
            if (!s.closed) {
                if (s.copies.get() > 0) {
                    return false;
                }
                s.closed = true;
                s.encoded = false;
                s.payloadOwner = null;
                try {
                    takeBack(s);
                    s.inbound.abandon();
                    s.out.close();
                } finally {
                    hangUp(s);
                }
                String death = s.death;
                if (death != null) {
                    Events.laneDied(connection, s, death);
                }
            }
            return true;
        } finally {
            s.pollToken.giveBack();
            s.sendToken.giveBack();
        }
    }

    /// Under the poll token as arming is: a descriptor that is closed while it is watched would
    /// stay in the tables, and its number may be another lane's soon.
    private void hangUp(LaneState s) {
        try {
            connection.unwatch(s);
            s.lane.close();
            s.gone = true;
        } catch (Throwable e) {
            Failures.letThrough(e);
            // What the peer sends over it may still arrive, so no fence can be answered; and
            // nothing may stand still for that.
            connection.fail(Failures.internal(connection, e));
            Log.error("a lane could not be closed", e);
        }
    }

    private void takeBack(LaneState s) {
        lock.lock();
        try {
            s.out.takeBack();
        } finally {
            lock.unlock();
        }
    }

    /// A GPU does not copy any more from or to a lane's memory.
    void copied(LaneState s) {
        if (s.copies.decrementAndGet() == 0 && s.dead) {
            burials = true;
        }
    }

    /// A copy into this side's memory has ended. Under the poll token.
    void landed(LaneState s) {
        s.inbound.settle();
        if (!s.closed && s.lane.confirmsNatively()) {
            confirming.confirmNow(s); // the far side waits for the buffer
        }
    }

    /// A lane was found to be dead: the next [#settle] closes it.
    void buryLater() {
        burials = true;
    }

    /// Asks once more for the ends of lanes that are not known: signals may be lost. Under the
    // lock.
    void fenceAgain() {
        for (LaneState s : lanes.all()) {
            if (s.gone && (!s.fenced || s.fenceOwed)) {
                askAgain();
                burials = true;
                return;
            }
        }
    }

    private void askAgain() {
        for (LaneState s : lanes.all()) {
            s.fenceAsked = false;
        }
    }

    private void afterBurials() {
        LaneState live = lanes.control();
        if (live == null) {
            StringBuilder text = new StringBuilder();
            for (LaneState s : lanes.all()) {
                text.append(text.isEmpty() ? "" : "; ")
                        .append(s.name())
                        .append(": ")
                        .append(s.death);
            }
            connection.fail(
                    new TelpherException.PeerLost(
                            "lost %s, its last lane ended: %s"
                                    .formatted(connection.peerText(), text)));
            return;
        }
        for (LaneState s : lanes.all()) {
            if (!s.gone) {
                continue;
            }
            if (!s.fenced && !s.fenceAsked) {
                s.fenceAsked = true;
                outbound.signal(Frame.FENCE, s.index, 0, 0);
            }
            answerFence(s);
        }
        for (LaneState s : lanes.all()) {
            if (!s.dead && !s.lane.confirmsNatively()) {
                // What was said of this lane over one that died may not have arrived.
                s.reported = 0;
                outbound.acknowledge(s);
            }
        }
    }

    /// The peer wants a lane to end. Under a poll token, so the lane itself is closed later.
    void fenceAsked(LaneState s) {
        lock.lock();
        try {
            s.fenceOwed = true;
        } finally {
            lock.unlock();
        }
        if (!s.closed) {
            if (s.death == null) {
                String why = s.lane.failure();
                s.death = why == null ? "the peer gave it up" : why;
            }
            s.dead = true;
        }
        burials = true;
    }

    /// A refusal of a lane has become known: the answer to a fence may say so now. Under the lock.
    void known(LaneState s) {
        if (s.fenceOwed) {
            burials = true;
        }
    }

    /// Says how far a lane came, at once: what the peer takes back may be the very word that it
    /// knows of our refusals, and the answer must not wait for that.
    private void answerFence(LaneState s) {
        if (s.fenceOwed && s.gone) {
            s.fenceOwed = s.heldCount > 0;
            outbound.signal(Frame.FENCED, s.index, s.received(), s.heldCount);
        }
    }

    /// The peer has closed a lane and says how far it came: the rest goes out again. What has
    /// arrived counts as applied when there is no refusal among it any more that this side may not
    /// have heard of. Under the lock.
    ///
    /// @param refusals how many such refusals there are
    boolean fenced(LaneState s, long upTo, long refusals) {
        if (s.fenced) {
            return true;
        }
        if (!s.gone || upTo > s.sent) {
            return false;
        }
        long arrived = Math.max(upTo, s.acked);
        outbound.resending.takeBack(s, arrived);
        if (refusals > 0) {
            return true; // it will say so again
        }
        s.fenced = true;
        connection.oneSided.queued.fenced(s);
        return outbound.applied(s, arrived);
    }

    // --- memory that lanes must not touch any more ----------------------------------------------

    /// Makes sure that no lane touches an operation's memory any more. Without lock and tokens.
    void letGo(Operation op) {
        connection.pump.letGo(op);
        for (LaneState s : lanes.all()) {
            s.pollToken.take();
            discardInbound(s, op);
        }
    }

    /// Makes sure that no lane writes into a region any more. Without lock and tokens.
    ///
    /// @return null; or who may still do, though the deadline has passed
    @Nullable String letGo(RegionImpl region, Deadline deadline) {
        String holder = null;
        for (LaneState s : lanes.all()) {
            if (s.pollToken.take(deadline)) {
                discardInbound(s, region);
            } else if (holder == null) {
                holder = "a thread of this process still takes in what " + s.name() + " brings";
            }
        }
        return holder;
    }

    /// With the poll token, which is given back.
    private static void discardInbound(LaneState s, Object owner) {
        try {
            if (!s.closed) {
                s.lane.discardInbound(owner);
            }
        } finally {
            s.pollToken.giveBack();
        }
    }
}

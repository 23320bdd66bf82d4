package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.internal.memory.Raw;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import java.lang.invoke.VarHandle;
import org.jspecify.annotations.Nullable;

/// Gives frames to the lanes. Whoever holds a lane's send token takes the next frame for it, as
/// [Schedule] says, until nothing is left or the lane takes no more; a poster that finds the token
/// taken leaves its work to the holder.
///
/// Owns what the send token guards in [LaneState]: the encoded frame, and whether the lane is dirty
/// or blocked. Called without lock and tokens, but for [#claim], by posting threads and in every
/// turn.
final class Pump {
    private final ConnectionCore connection;
    private final SpinLock lock;
    private final Lanes lanes;
    private final Outbound outbound;
    private final Schedule schedule;

    Pump(ConnectionCore connection) {
        this.connection = connection;
        this.lock = connection.lock;
        this.lanes = connection.lanes;
        this.outbound = connection.outbound;
        this.schedule = outbound.schedule;
    }

    private boolean hasWork(LaneState s) {
        return s.encoded || s.dirty || s.blocked || schedule.hasWork(s);
    }

    /// Sends what can be sent on all lanes.
    void turn() {
        for (LaneState s : lanes.all()) {
            turn(s);
        }
    }

    /// Sends what can be sent on one lane, unless somebody else is doing so already: that one will
    /// see what there is.
    void turn(LaneState s) {
        while (!s.dead && hasWork(s)) {
            if (!s.sendToken.tryTake()) {
                // The holder looks again after giving the token back; this fence makes it see our
                // work, or us the free token.
                VarHandle.fullFence();
                if (!s.sendToken.tryTake()) {
                    return;
                }
            }
            long seen;
            try {
                seen = pumpHeld(s);
            } catch (Throwable e) {
                connection.keeper.broken(s, e);
                return;
            } finally {
                s.sendToken.giveBack();
            }
            if (seen == outbound.stamp()) {
                return; // what is left cannot be sent now: confirmations or room have to come first
            }
        }
    }

    /// Lets the poster of a short operation send it itself: takes the first lane's send token, if
    /// it is free and nothing is left over there, and encodes the next frame. Under the lock.
    ///
    /// @param note a notification that is in no queue, if it is to be the next frame
    /// @return the lane, for [#dispatch], or null
    @Nullable LaneState claim(@Nullable Operation note) {
        LaneState s = lanes.control();
        if (s == null || (note == null && !outbound.hasShort()) || !s.sendToken.tryTake()) {
            return null;
        }
        boolean encoded = false;
        try {
            if (!s.encoded && !s.blocked && !s.dirty && !s.staged && !s.dead) {
                encoded = note == null ? schedule.next(s) : schedule.atOnce(note, s);
                s.encoded = encoded;
            }
        } finally {
            if (!encoded) {
                s.sendToken.giveBack();
            }
        }
        return encoded ? s : null;
    }

    /// Sends what [#claim] has encoded, and what else there is. Without the lock.
    void dispatch(LaneState s) {
        long seen;
        try {
            seen = pumpHeld(s);
        } catch (Throwable e) {
            connection.keeper.broken(s, e);
            return;
        } finally {
            s.sendToken.giveBack();
        }
        if (seen != outbound.stamp()) {
            turn(s);
        }
    }

    /// @return the stamp up to which all work was looked at
    private long pumpHeld(LaneState s) {
        Lane lane = s.lane;
        if (s.dead) {
            return outbound.stamp();
        }
        s.out.start(); // what claim has cut under the lock
        if (s.blocked || s.dirty) {
            int result = lane.flush();
            if (result != Lane.OK) {
                return stopped(s, result);
            }
            s.blocked = false;
            s.dirty = false;
            s.out.letGo();
            // An encoded frame that the lane has not taken yet may be what lies there.
            s.staged &= s.encoded;
        }
        long seen;
        while (true) {
            seen = outbound.stamp();
            if (!s.encoded) {
                if (!schedule.hasWork(s)) {
                    break;
                }
                if (s.staged) {
                    int result = lane.flush();
                    if (result != Lane.OK) {
                        return stopped(s, result);
                    }
                    s.staged = false;
                    s.dirty = false;
                }
                lock.lock();
                try {
                    seen = outbound.stamp();
                    s.encoded = schedule.next(s);
                } finally {
                    lock.unlock();
                }
                s.out.start();
                if (!s.encoded) {
                    break;
                }
            }
            int result = give(s);
            if (result == Lane.OK) {
                taken(s);
                continue;
            }
            if (result == Lane.FULL) {
                int flushed = lane.flush();
                if (flushed == Lane.OK) {
                    s.out.letGo();
                    // Room again: offer the frame once more.
                    if (give(s) == Lane.OK) {
                        taken(s);
                        continue;
                    }
                    lane.flush();
                }
            }
            return stopped(s, result);
        }
        if (s.dirty) {
            int result = lane.flush();
            if (result != Lane.OK) {
                return stopped(s, result);
            }
            s.dirty = false;
            s.staged = false;
            s.out.letGo();
        }
        return seen;
    }

    /// The lane has taken the encoded frame.
    private static void taken(LaneState s) {
        s.encoded = false;
        s.dirty = true;
        s.out.taken();
        s.framesSent++;
        s.bytesSent += s.payloadLength + Frame.inlined(Raw.ALL, s.header);
    }

    /// Offers the encoded frame to the lane. One whose payload the caller has taken away, by
    /// closing its arena, goes out empty, and only its operation fails.
    private int give(LaneState s) {
        try {
            return send(s);
        } catch (IllegalStateException | WrongThreadException e) {
            if (!(s.payloadOwner instanceof Operation op)) {
                throw e;
            }
            lock.lock();
            try {
                connection.endings.revokeLater(
                        op,
                        Connection.STALE,
                        "the local memory is not accessible: " + e.getMessage());
            } finally {
                lock.unlock();
            }
            blank(s, op);
            return send(s);
        }
    }

    private static int send(LaneState s) {
        return s.lane.send(
                Raw.ALL, s.header, s.payload, s.payloadOffset, s.payloadLength, s.payloadOwner);
    }

    private long stopped(LaneState s, int result) {
        if (result == Lane.DEAD) {
            connection.keeper.died(s);
        } else {
            s.blocked = true;
        }
        return outbound.stamp();
    }

    /// Empties the frame that a lane has not taken. Under the send token.
    private void blank(LaneState s, Operation op) {
        s.blank();
        lock.lock();
        try {
            long sequence = s.sent - 1;
            LaneState.Sent kind = s.kind(sequence);
            long offset = s.offset(sequence);
            int length = s.length(sequence);
            s.annul(sequence);
            outbound.resending.dropped(op, kind, offset, length);
        } finally {
            lock.unlock();
        }
    }

    /// Makes sure that no lane reads an operation's memory any more. Takes the send tokens one
    /// after the other; the caller holds neither a token nor the lock.
    void letGo(Operation op) {
        for (LaneState s : lanes.all()) {
            s.sendToken.take();
            try {
                if (s.encoded && s.payloadOwner == op) {
                    blank(s, op);
                }
                if (!s.closed) {
                    s.lane.releaseOutbound(op);
                }
            } finally {
                s.sendToken.giveBack();
            }
        }
    }
}

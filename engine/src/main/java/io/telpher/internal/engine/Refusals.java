package io.telpher.internal.engine;

import io.telpher.internal.wire.Frame;
import java.lang.foreign.MemorySegment;
import java.util.LinkedHashSet;
import java.util.Set;

/// Refuses frames of one lane that may not be applied, and remembers which tails must not fire
/// because their data was refused. Guarded by the lane's poll token; what the peer is told is
/// queued under the connection's lock.
final class Refusals {
    private final ConnectionCore connection;
    private final LaneState lane;

    /// Transfers whose data was refused on this lane and whose tail follows.
    private final Set<Long> tailsToDrop = new LinkedHashSet<>();

    Refusals(ConnectionCore connection, LaneState lane) {
        this.connection = connection;
        this.lane = lane;
    }

    /// A tail has come.
    ///
    /// @return whether its data was refused
    boolean drops(long transfer) {
        return !tailsToDrop.isEmpty() && tailsToDrop.remove(transfer);
    }

    /// Refuses a frame. Without the lock.
    ///
    /// @param tailFollows whether its tail comes on this lane, and must be dropped
    void refuse(MemorySegment h, long at, int reason, boolean tailFollows, long c, long e) {
        if (tailFollows) {
            if (tailsToDrop.size() > LaneState.WINDOW) {
                // The tail of the oldest is not on its way any more: it would be too far behind.
                tailsToDrop.remove(tailsToDrop.iterator().next());
            }
            tailsToDrop.add(Frame.field(h, at, Frame.TRANSFER));
        }
        connection.lock.lock();
        try {
            ControlFrame frame = refusal(h, at, reason).with(Frame.C, c).with(Frame.E, e);
            tell(frame);
        } finally {
            connection.lock.unlock();
        }
    }

    /// The same under the lock.
    void refuseLocked(MemorySegment h, long at, int reason, long c, long d) {
        tell(refusal(h, at, reason).with(Frame.C, c).with(Frame.D, d));
    }

    /// When the connection is over here, receives have ended with it: the peer hears of that, and
    /// nobody has cancelled anything. The frame stays unconfirmed all the same.
    private void tell(ControlFrame frame) {
        if (!connection.isOver()) {
            connection.outbound.enqueue(frame);
        }
    }

    /// The confirmation of this lane stays behind the refused frame until the peer has said
    /// `KNOWN`: a confirmation can never overtake a refusal, whichever lanes they take.
    private ControlFrame refusal(MemorySegment h, long at, int reason) {
        long sequence = lane.sequence;
        if (lane.held.size() > 4 * LaneState.WINDOW) {
            connection.violated("refusals that it does not take notice of");
        }
        ControlFrame frame =
                connection
                        .outbound
                        .control(
                                Frame.REFUSED,
                                Frame.URGENT,
                                -reason,
                                Frame.field(h, at, Frame.TRANSFER))
                        .with(Frame.A, lane.index)
                        .with(Frame.B, sequence);
        lane.held.add(sequence);
        lane.heldCount = lane.held.size();
        return frame;
    }
}

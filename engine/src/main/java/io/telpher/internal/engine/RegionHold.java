package io.telpher.internal.engine;

import org.jspecify.annotations.Nullable;

/// The region that a slot is counted into, as the one of its operation. The slot stays counted when
/// the operation has ended, so that the next one in the same region, as most are, needs no atomic
/// update for it, neither to enter nor to leave.
///
/// Whoever closes the region has marked it closed before he takes the lock of each connection,
/// under which slots that are not in use let go of it ([Endings#letGo]); what looks whether
/// it is open, to enter or to stay, does so under that lock. So either the one sees the slot, or
/// the other that the region is closed. When the connection is over they let go likewise
/// ([Endings#revokeAll]), and nothing stays.
///
/// Guarded by the connection's lock.
final class RegionHold {
    private @Nullable RegionImpl region;

    /// The slot's operation is under way, and is counted by this.
    private boolean used;

    /// An operation begins.
    ///
    /// @return false when the region is closed: then it is in none
    boolean enter(RegionImpl wanted) {
        if (region != wanted) {
            drop();
            if (!wanted.enter()) {
                return false;
            }
            region = wanted;
        } else if (!wanted.isOpen()) {
            drop();
            return false;
        }
        used = true;
        return true;
    }

    /// The operation has ended; harmless where it was not counted here.
    ///
    /// @param stays whether the slot may stay counted
    void leave(boolean stays) {
        used = false;
        RegionImpl of = region;
        if (of != null && !(stays && of.isOpen())) {
            drop();
        }
    }

    /// Has a slot that is not in use let go of a region.
    void letGo(RegionImpl closed) {
        if (region == closed) {
            letGo();
        }
    }

    /// The same, of whichever region.
    void letGo() {
        if (!used) {
            drop();
        }
    }

    private void drop() {
        RegionImpl of = region;
        if (of != null) {
            region = null;
            of.exit();
        }
    }

    /// @return whether it is counted into a region
    boolean isIn(RegionImpl which) {
        return region == which;
    }
}

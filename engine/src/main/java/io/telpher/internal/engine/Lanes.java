package io.telpher.internal.engine;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// The lanes of one connection, in the order of their index, dead ones too. Lanes are added under
/// the connection's lock; anybody may look.
final class Lanes {
    private volatile LaneState[] all = new LaneState[0];

    /// @return all of them; not to be changed
    LaneState[] all() {
        return all;
    }

    /// Adds a lane. Under the lock.
    void add(LaneState added) {
        LaneState[] before = all;
        LaneState[] after = Arrays.copyOf(before, before.length + 1);
        int at = before.length;
        while (at > 0 && after[at - 1].index > added.index) {
            after[at] = after[at - 1];
            at--;
        }
        after[at] = added;
        all = after;
    }

    @Nullable LaneState find(int index) {
        for (LaneState s : all) {
            if (s.index == index) {
                return s;
            }
        }
        return null;
    }

    /// The lane that carries control and short operations: the first live one.
    @Nullable LaneState control() {
        for (LaneState s : all) {
            if (!s.dead) {
                return s;
            }
        }
        return null;
    }

    /// The path of what goes over the first live lane.
    String path() {
        LaneState s = control();
        return s == null ? "" : s.lane.path();
    }

    /// Whether a lane carries bulk data: the first does only when there is no other.
    boolean carriesBulk(LaneState s) {
        if (s != control()) {
            return true;
        }
        for (LaneState other : all) {
            if (other != s && !other.dead) {
                return false;
            }
        }
        return true;
    }

    /// Whether some lane waits for its link to drain.
    boolean isBlocked() {
        for (LaneState s : all) {
            if (s.blocked && !s.dead) {
                return true;
            }
        }
        return false;
    }
}

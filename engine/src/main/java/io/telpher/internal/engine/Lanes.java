package io.telpher.internal.engine;

import java.util.Arrays;
import java.util.BitSet;
import org.jspecify.annotations.Nullable;

/// The lanes of one connection, in the order of their index, dead ones too. Lanes are added under
/// the connection's lock; anybody may look.
final class Lanes {
    /// As many as a handshake can tell apart.
    static final int MOST = 256;

    private volatile LaneState[] all = new LaneState[0];

    /// Written under the connection's lock.
    private volatile int most;

    /// Indices that no lane can have any more: one has it, had it, or will never come. Guarded by
    /// the connection's lock.
    private final BitSet spent = new BitSet(MOST);

    /// Indices of lanes that the peer has been let in with and that are not there yet. Guarded by
    /// the connection's lock.
    private final BitSet expected = new BitSet(MOST);

    /// @return all of them; not to be changed
    LaneState[] all() {
        return all;
    }

    /// Whether no lane may have an index any more. Under the lock.
    boolean isSpent(int index) {
        return spent.get(index);
    }

    /// Keeps an index from every lane that may still come. Under the lock.
    void spend(int index) {
        spent.set(index);
    }

    /// Lets the peer add a lane, or not. Under the lock.
    ///
    /// @param bound how many lanes there may be
    boolean expect(int index, int bound) {
        boolean room = !expected.get(index) && live() + expected.cardinality() < bound;
        if (room) {
            expected.set(index);
        }
        return room;
    }

    /// The lane that was expected is there, or does not come. Under the lock.
    void expectNoMore(int index) {
        expected.clear(index);
    }

    /// Adds a lane, whose index is spent with that. Under the lock.
    void add(LaneState added) {
        spend(added.index);
        expectNoMore(added.index);
        LaneState[] before = all;
        LaneState[] after = Arrays.copyOf(before, before.length + 1);
        int at = before.length;
        while (at > 0 && after[at - 1].index > added.index) {
            after[at] = after[at - 1];
            at--;
        }
        after[at] = added;
        all = after;
        most = Math.max(most, live());
    }

    @Nullable LaneState find(int index) {
        for (LaneState s : all) {
            if (s.index == index) {
                return s;
            }
        }
        return null;
    }

    /// @return how many live lanes there are
    int live() {
        int n = 0;
        for (LaneState s : all) {
            n += s.dead ? 0 : 1;
        }
        return n;
    }

    /// @return most live lanes that there ever were
    int most() {
        return most;
    }

    /// @return how many live lanes go one way to the peer
    int live(String way) {
        int n = 0;
        for (LaneState s : all) {
            n += !s.dead && s.way.equals(way) ? 1 : 0;
        }
        return n;
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

    /// Whether closing the lanes now keeps nothing from the peer that they have taken.
    boolean isDrained() {
        for (LaneState s : all) {
            if (!s.dead && !s.lane.isDrained()) {
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

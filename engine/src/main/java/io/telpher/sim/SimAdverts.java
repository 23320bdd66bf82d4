package io.telpher.sim;

import io.telpher.spi.Adverts;
import java.util.HashMap;
import java.util.Map;

/// What one side of a stream says of the receives of both, and sees of the other side: a word for
/// each slot, as links of shared memory have.
final class SimAdverts implements Adverts {
    /// What one side says.
    static final class Said {
        private final Map<Integer, Long> open = new HashMap<>();
        private final Map<Integer, Long> inside = new HashMap<>();
    }

    private final SimProcess process;
    private final StreamEnd there;
    private final Said own;
    private final Said peers;

    SimAdverts(SimProcess process, StreamEnd here, StreamEnd there) {
        this.process = process;
        this.there = there;
        this.own = here.said;
        this.peers = there.said;
    }

    private static int slot(long receive) {
        return (int) receive;
    }

    private static boolean says(Map<Integer, Long> words, long receive) {
        return words.getOrDefault(slot(receive), ~receive) == receive;
    }

    @Override
    public void admit(long receive) {
        own.open.put(slot(receive), receive);
    }

    @Override
    public void keepOut(long receive) {
        own.open.remove(slot(receive));
    }

    @Override
    public boolean isInside(long receive) {
        return says(peers.inside, receive) && !there.process().isOver();
    }

    @Override
    public boolean enter(long receive) {
        process.scheduler().preempt();
        long before = own.inside.getOrDefault(slot(receive), receive);
        if ((((int) (before >>> 32) - (int) (receive >>> 32)) << 1) > 0) {
            return false;
        }
        own.inside.put(slot(receive), receive);
        process.scheduler().preempt();
        if (!isOpen(receive)) {
            exit(receive);
            return false;
        }
        return true;
    }

    @Override
    public boolean isOpen(long receive) {
        return says(peers.open, receive);
    }

    @Override
    public void exit(long receive) {
        own.inside.remove(slot(receive), receive);
    }
}

package io.telpher.sim;

import io.telpher.spi.Adverts;
import java.util.HashSet;
import java.util.Set;

/// What one side of a stream says of the receives of both, and sees of the other side.
final class SimAdverts implements Adverts {
    /// What one side says.
    static final class Said {
        private final Set<Long> open = new HashSet<>();
        private final Set<Long> inside = new HashSet<>();
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

    @Override
    public void admit(long receive) {
        own.open.add(receive);
    }

    @Override
    public void keepOut(long receive) {
        own.open.remove(receive);
    }

    @Override
    public boolean isInside(long receive) {
        return peers.inside.contains(receive) && !there.process().isOver();
    }

    @Override
    public boolean isOwnProcess() {
        return process == there.process();
    }

    @Override
    public boolean enter(long receive) {
        own.inside.add(receive);
        process.scheduler().preempt();
        if (!isOpen(receive)) {
            own.inside.remove(receive);
            return false;
        }
        return true;
    }

    @Override
    public boolean isOpen(long receive) {
        return peers.open.contains(receive);
    }

    @Override
    public void exit(long receive) {
        own.inside.remove(receive);
    }
}

package io.telpher.sim;

import java.util.Objects;

/// What a TCP connection is: two pipes between two processes over one link.
final class Stream {
    private final SimLink link;
    private final String name;
    private final StreamEnd[] ends;
    private final Pipe[] pipes;
    private final Ring[] rings;

    /// @param from the process that dials
    Stream(SimLink link, int number, SimProcess from, SimProcess to) {
        this.link = link;
        this.name = "stream " + number;
        this.ends = new StreamEnd[] {new StreamEnd(this, from, 0), new StreamEnd(this, to, 1)};
        this.pipes =
                new Pipe[] {
                    new Pipe(this, ends[0], ends[1]), new Pipe(this, ends[1], ends[0]),
                };
        ends[0].connect(pipes[1], pipes[0]);
        ends[1].connect(pipes[0], pipes[1]);
        this.rings = new Ring[] {new Ring(this), new Ring(this)};
        link.add(this);
    }

    Scheduler scheduler() {
        return link.simulation().scheduler;
    }

    SimLink link() {
        return link;
    }

    String name() {
        return name;
    }

    StreamEnd end(int side) {
        return Objects.requireNonNull(ends[side]);
    }

    /// The ring that a side writes.
    Ring ring(int side) {
        return Objects.requireNonNull(rings[side]);
    }

    /// Both ends learn of the death, at different moments; what was under way is lost.
    void reset(String why) {
        Scheduler scheduler = scheduler();
        scheduler.log(name, "reset: " + why);
        boolean unreadToo = scheduler.random.nextBoolean();
        for (int i = 0; i < 2; i++) {
            pipes[i].breakUp(unreadToo);
            StreamEnd end = ends[i];
            scheduler.in(scheduler.random.nextInt(2_000_000), () -> end.fail(why));
        }
    }

    void stall(long until) {
        scheduler().log(name, "stalls");
        for (Pipe pipe : pipes) {
            pipe.stall(until);
        }
    }

    void goOn() {
        for (Pipe pipe : pipes) {
            pipe.goOn();
        }
    }

    void closed() {
        if ((ends[0].isClosed() || ends[0].isVanished())
                && (ends[1].isClosed() || ends[1].isVanished())) {
            link.remove(this);
        }
    }
}

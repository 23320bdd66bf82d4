package io.telpher.bootstrap;

import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// What a client knows of its job: the records as of a revision, and who waits for changes to them.
/// The follower thread applies what the store tells, any thread waits. Guarded by its own monitor.
final class Mirror {
    /// Events that a watch keeps before a snapshot takes their place.
    private static final int QUEUE = 1024;

    /// A record that cannot be opened.
    private record Unreadable(String why) {
        TelpherException exception() {
            return new TelpherException.AccessDenied(why);
        }
    }

    private final Seal seal;
    private final Map<Integer, Member> members = new TreeMap<>();

    /// Ranks whose records cannot be opened, and why.
    private final Map<Integer, Unreadable> unreadable = new TreeMap<>();

    /// Last generation heard of each barrier that somebody waits at, -1 for none.
    private final Map<String, Long> barriers = new HashMap<>();

    private final List<Queue> watches = new CopyOnWriteArrayList<>();
    private long instance;
    private long revision = -1;
    private long disturbances;

    /// Makes the exception that tells why nothing comes any more; null while all is well.
    private @Nullable Supplier<? extends RuntimeException> end;

    private @Nullable TelpherException unreachable;

    Mirror(Seal seal) {
        this.seal = seal;
    }

    synchronized Request.Changes next(String job, int waitMillis) {
        return new Request.Changes(job, instance, revision, waitMillis);
    }

    synchronized void apply(Answer answer) {
        unreachable = null;
        switch (answer) {
            case Answer.Snapshot snapshot -> restore(snapshot);
            case Answer.Events events -> {
                for (Answer.Change change : events.changes()) {
                    if (change.revision() != revision + 1) {
                        forget(); // the next answer is a snapshot
                        break;
                    }
                    revision++;
                    apply(change);
                }
            }
            default ->
                    throw new TelpherException.ProtocolViolation(
                            "the rendezvous server answered " + answer + " to a watch");
        }
        notifyAll();
    }

    private void forget() {
        instance = 0;
        revision = -1;
    }

    private void restore(Answer.Snapshot snapshot) {
        instance = snapshot.instance();
        revision = snapshot.revision();
        members.clear();
        unreadable.clear();
        snapshot.entries().forEach(this::put);
        barriers.replaceAll((name, generation) -> -1L);
        disturbances++;
        tell(snapshot());
        unreadable.values().forEach(this::tell);
    }

    private RendezvousEvent.Snapshot snapshot() {
        return new RendezvousEvent.Snapshot(revision, List.copyOf(members.values()));
    }

    private void apply(Answer.Change change) {
        switch (change) {
            case Answer.BarrierChange passed -> {
                barriers.replace(passed.barrier(), passed.generation());
                tell(
                        new RendezvousEvent.Passed(
                                passed.revision(), passed.barrier(), passed.generation()));
            }
            case Answer.RecordChange record -> {
                int rank = record.entry().rank();
                Member known = members.remove(rank);
                unreadable.remove(rank);
                switch (record.kind()) {
                    case JOINED -> {
                        put(record.entry());
                        Member member = members.get(rank);
                        if (member != null) {
                            tell(new RendezvousEvent.Joined(revision, member));
                        } else {
                            tell(unreadable.get(rank));
                        }
                    }
                    case LEFT -> {
                        if (known != null) {
                            tell(new RendezvousEvent.Left(revision, known));
                        }
                    }
                    case LOST -> {
                        if (known != null) {
                            tell(new RendezvousEvent.Lost(revision, known));
                        }
                    }
                }
            }
        }
    }

    private void put(Answer.Entry entry) {
        try {
            members.put(
                    entry.rank(),
                    new Member(entry.rank(), entry.incarnation(), entry.epoch(), seal.open(entry)));
        } catch (TelpherException.AccessDenied e) {
            unreadable.put(entry.rank(), new Unreadable(String.valueOf(e.getMessage())));
        }
    }

    private void tell(@Nullable Object item) {
        if (item != null) {
            watches.forEach(watch -> watch.add(item));
        }
    }

    /// The store did not answer.
    synchronized void unreachable(TelpherException why) {
        unreachable = why;
    }

    /// Whether the store has answered the last time, as far as is known.
    synchronized boolean isReachable() {
        return unreachable == null;
    }

    /// Whoever waits for a barrier shall ask again: this rank's record is a new one.
    synchronized void disturb() {
        disturbances++;
        notifyAll();
    }

    /// Nothing comes any more; the first reason counts.
    synchronized void end(Supplier<? extends RuntimeException> why) {
        if (end == null) {
            end = why;
        }
        notifyAll();
    }

    /// @throws RuntimeException why it has ended, if it has
    synchronized void check() {
        Supplier<? extends RuntimeException> why = end;
        if (why != null) {
            throw why.get();
        }
    }

    synchronized List<Member> members() {
        return List.copyOf(members.values());
    }

    synchronized List<Member> awaitMembers(int world, Deadline deadline) {
        boolean all =
                await(
                        () -> {
                            if (!unreadable.isEmpty()) {
                                throw unreadable.values().iterator().next().exception();
                            }
                            return members.size() == world;
                        },
                        deadline);
        if (!all) {
            List<Integer> missing = new ArrayList<>();
            for (int rank = 0; rank < world; rank++) {
                if (!members.containsKey(rank)) {
                    missing.add(rank);
                }
            }
            throw new TelpherException.TimedOut(
                    "missing at the rendezvous: %s of %d%s"
                            .formatted(Ranks.text(missing), world, silence()));
        }
        return members();
    }

    synchronized Member awaitMember(int rank, Deadline deadline) {
        Member[] found = new Member[1];
        boolean there =
                await(
                        () -> {
                            Unreadable record = unreadable.get(rank);
                            if (record != null) {
                                throw record.exception();
                            }
                            Member member = members.get(rank);
                            if (member != null) {
                                found[0] = member;
                            }
                            return member != null;
                        },
                        deadline);
        if (!there) {
            throw new TelpherException.TimedOut(
                    "missing at the rendezvous: rank " + rank + silence());
        }
        return found[0];
    }

    /// Waits under the monitor.
    ///
    /// @return whether it became true in time
    private boolean await(Supplier<Boolean> what, Deadline deadline) {
        try {
            while (true) {
                check();
                if (what.get()) {
                    return true;
                }
                if (deadline.passed()) {
                    return false;
                }
                wait(deadline.leftMillis());
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted at the rendezvous");
        }
    }

    /// @return for the end of a message: why nothing is heard, if that is so
    synchronized String silence() {
        TelpherException why = unreachable;
        return why == null ? "" : "; the server does not answer: " + why.getMessage();
    }

    // --- barriers -------------------------------------------------------------------------------

    /// What became of a wait at a barrier.
    enum Wait {
        /// All have come.
        PASSED,
        /// Ask again.
        DISTURBED,
        /// The deadline passed.
        LATE
    }

    /// @throws IllegalStateException when another thread waits at it
    synchronized void enter(String barrier) {
        if (barriers.putIfAbsent(barrier, -1L) != null) {
            throw new IllegalStateException(
                    "another thread of this rank waits at barrier '" + barrier + "'");
        }
    }

    synchronized void exit(String barrier) {
        barriers.remove(barrier);
    }

    synchronized long disturbances() {
        return disturbances;
    }

    synchronized Wait awaitPassed(
            String barrier, long generation, long disturbancesBefore, Deadline deadline) {
        Wait[] result = {Wait.LATE};
        boolean ignored =
                await(
                        () -> {
                            if (barriers.getOrDefault(barrier, -1L) > generation) {
                                result[0] = Wait.PASSED;
                            } else if (disturbances != disturbancesBefore) {
                                result[0] = Wait.DISTURBED;
                            }
                            return result[0] != Wait.LATE;
                        },
                        deadline);
        assert ignored || result[0] == Wait.LATE;
        return result[0];
    }

    // --- watches --------------------------------------------------------------------------------

    synchronized Watch watch() {
        check();
        Queue queue = new Queue();
        if (revision >= 0) {
            queue.add(snapshot());
            unreadable.values().forEach(queue::add);
        }
        watches.add(queue);
        return queue;
    }

    private final class Queue implements Watch {
        /// Events and [Unreadable] records.
        private final ArrayDeque<Object> items = new ArrayDeque<>();

        private boolean closed;

        /// Under the mirror's monitor.
        void add(Object item) {
            if (items.size() < QUEUE) {
                items.add(item);
            } else {
                items.clear();
                items.add(snapshot());
            }
        }

        @Override
        public RendezvousEvent next(Duration atMost) {
            synchronized (Mirror.this) {
                boolean came =
                        items.isEmpty()
                                && await(() -> closed || !items.isEmpty(), Deadline.in(atMost));
                if (closed) {
                    throw new TelpherException.Closed("the watch was closed");
                }
                Object item = items.poll();
                if (item == null) {
                    assert !came;
                    throw new TelpherException.TimedOut(
                            "no event of the rendezvous within %d ms%s"
                                    .formatted(atMost.toMillis(), silence()));
                }
                if (item instanceof Unreadable record) {
                    throw record.exception();
                }
                return (RendezvousEvent) item;
            }
        }

        @Override
        public void close() {
            watches.remove(this);
            synchronized (Mirror.this) {
                closed = true;
                Mirror.this.notifyAll();
            }
        }
    }
}

package io.telpher.bootstrap;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// The ranks of a job and the connections between them. Thread-safe.
///
/// A group connects from both sides and needs no accepting: leave [Endpoint#accept(Duration)] of
/// its endpoint alone. The connections belong to the endpoint: they outlive the group and do not
/// need the rendezvous.
public final class Group implements AutoCloseable {
    /// Connections that one rank makes at a time: the first few hide each other's round trips, more
    /// only crowd hosts with many ranks.
    private static final int AT_A_TIME = 2;

    private static final long RETRY_MILLIS = 50;

    /// The connection with one other rank.
    private static final class Slot {
        final ReentrantLock lock = new ReentrantLock();
        volatile @Nullable Connection connection;
    }

    private final Endpoint endpoint;
    private final Rendezvous rendezvous;
    private final @Nullable RendezvousServer server;
    private final int rank;
    private final List<Slot> slots = new ArrayList<>();

    private Group(
            Endpoint endpoint,
            Rendezvous rendezvous,
            @Nullable RendezvousServer server,
            int rank,
            int world) {
        this.endpoint = endpoint;
        this.rendezvous = rendezvous;
        this.server = server;
        this.rank = rank;
        for (int i = 0; i < world; i++) {
            slots.add(new Slot());
        }
    }

    /// Joins as the launcher says, with the secret of `TELPHER_SECRET`, and waits until all ranks
    /// are there. Rank 0 serves the rendezvous, unless somebody else does.
    ///
    /// @throws TelpherException.TimedOut and the others that [Rendezvous#join] throws
    /// @throws TelpherException.Unsupported when rank 0 cannot listen on the port
    public static Group join(Endpoint endpoint, Launch launch, Duration atMost) {
        return join(endpoint, launch, RendezvousOptions.of(launch), atMost);
    }

    /// The same with options that do not all come from this process's variables.
    ///
    /// @param options where and how to meet; the port that rank 0 serves on is that of `launch`
    public static Group join(
            Endpoint endpoint, Launch launch, RendezvousOptions options, Duration atMost) {
        RendezvousServer server =
                launch.rank() == 0 && launch.host() == Launch.Host.RANK_0
                        ? RendezvousServer.listen(launch.rendezvous().getPort(), options.secret())
                        : null;
        boolean joined = false;
        try {
            Rendezvous rendezvous = Rendezvous.open(options);
            Group group = new Group(endpoint, rendezvous, server, launch.rank(), launch.world());
            group.join(atMost);
            joined = true;
            return group;
        } finally {
            if (!joined && server != null) {
                server.close();
            }
        }
    }

    /// Joins at a rendezvous that belongs to the group from here on, and waits until all ranks are
    /// there.
    ///
    /// @throws TelpherException.TimedOut and the others that [Rendezvous#join] throws; the
    ///     rendezvous is closed then
    public static Group join(
            Endpoint endpoint, Rendezvous rendezvous, int rank, int world, Duration atMost) {
        Group group = new Group(endpoint, rendezvous, null, rank, world);
        group.join(atMost);
        return group;
    }

    private void join(Duration atMost) {
        boolean joined = false;
        try {
            rendezvous.join(rank, slots.size(), endpoint.address(), atMost);
            joined = true;
        } finally {
            if (!joined) {
                rendezvous.close();
            }
        }
    }

    /// @return this process's rank
    public int rank() {
        return rank;
    }

    /// @return how many ranks the job has
    public int size() {
        return slots.size();
    }

    /// @return the members as last heard, by rank
    public List<Member> members() {
        return rendezvous.members();
    }

    /// Waits until every rank has called this with the same name.
    ///
    /// @throws TelpherException.TimedOut names the ranks that did not come
    public void barrier(String name, Duration atMost) {
        rendezvous.barrier(name, atMost);
    }

    /// Follows who comes and goes, from a snapshot of now.
    public Watch watch() {
        return rendezvous.watch();
    }

    /// The connection with a rank, within the endpoint's connect deadline.
    public Connection connection(int other) {
        return connection(other, endpoint.options().connectDeadline());
    }

    /// The connection with a rank. Connects when there is none yet, or when the last one has ended
    /// or leads to an earlier start of the rank; waits for a rank that is missing.
    ///
    /// @throws TelpherException.TimedOut when that did not succeed in time, with the last failure
    public Connection connection(int other, Duration atMost) {
        if (other < 0 || other >= slots.size() || other == rank) {
            throw new IllegalArgumentException(
                    "rank %d has no connection with rank %d in a world of %d"
                            .formatted(rank, other, slots.size()));
        }
        return connection(other, Deadline.in(atMost));
    }

    private Connection connection(int other, Deadline deadline) {
        Slot slot = slots.get(other);
        try {
            if (!slot.lock.tryLock(Math.max(0, deadline.left()), TimeUnit.NANOSECONDS)) {
                throw new TelpherException.TimedOut(
                        "another thread is still connecting to rank " + other);
            }
            try {
                return connect(slot, other, deadline);
            } finally {
                slot.lock.unlock();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while connecting to rank " + other);
        }
    }

    /// Tries until it works: a rank that was killed is in the members until its lease ends, and one
    /// that has just been started again may not be there yet.
    private Connection connect(Slot slot, int other, Deadline deadline)
            throws InterruptedException {
        String last = null;
        while (true) {
            Member member = current(other);
            Connection known = slot.connection;
            if (known != null && known.isOpen()) {
                if (member == null || known.peer().incarnation() == member.incarnation()) {
                    return known;
                }
                known.close();
            }
            try {
                if (member == null) {
                    member = rendezvous.awaitMember(other, left(deadline));
                }
                Connection made =
                        endpoint.connect(
                                member.address(),
                                left(deadline.or(endpoint.options().connectDeadline())));
                slot.connection = made;
                return made;
            } catch (TelpherException.ConnectFailed
                    | TelpherException.AccessDenied // another endpoint has the port by now
                    | TelpherException.PeerLost
                    | TelpherException.TimedOut e) {
                last = last == null || !deadline.passed() ? e.getMessage() : last;
                if (deadline.left() < RETRY_MILLIS * 1_000_000) {
                    throw new TelpherException.TimedOut(
                            "no connection with rank " + other + " in time: " + last);
                }
            }
            Thread.sleep(RETRY_MILLIS);
        }
    }

    private @Nullable Member current(int other) {
        for (Member member : rendezvous.members()) {
            if (member.rank() == other) {
                return member;
            }
        }
        return null;
    }

    private static Duration left(Deadline deadline) {
        return Duration.ofNanos(Math.max(1, deadline.left()));
    }

    /// Connects with every other rank. Each rank dials half of the others first; the rest have
    /// mostly dialled it by then, and where both do at the same time the engine makes one
    /// connection of it.
    ///
    /// @throws TelpherException.ConnectFailed names the ranks that could not be connected, and why
    public void connectAll(Duration atMost) {
        Deadline deadline = Deadline.in(atMost);
        List<Integer> order = new ArrayList<>();
        List<Integer> later = new ArrayList<>();
        for (int step = 1; step < size(); step++) { // not all to rank 0 at once
            int other = (rank + step) % size();
            (dialsFirst(other) ? order : later).add(other);
        }
        order.addAll(later);
        TreeMap<Integer, CompletableFuture<Connection>> attempts = new TreeMap<>();
        try (ExecutorService workers =
                Executors.newFixedThreadPool(
                        Math.clamp(size() - 1, 1, AT_A_TIME),
                        Thread.ofPlatform().daemon().name("telpher-group-", 0).factory())) {
            for (int other : order) {
                attempts.put(
                        other,
                        CompletableFuture.supplyAsync(() -> connection(other, deadline), workers));
            }
        }
        List<String> failures = new ArrayList<>();
        List<Integer> failed = new ArrayList<>();
        attempts.forEach(
                (other, attempt) -> {
                    if (attempt.isCompletedExceptionally()) {
                        failed.add(other);
                        failures.add("rank " + other + ": " + attempt.exceptionNow().getMessage());
                    }
                });
        if (!failed.isEmpty()) {
            throw new TelpherException.ConnectFailed(
                    "rank %d has no connection with %d of %d other ranks"
                            .formatted(rank, failed.size(), size() - 1),
                    failures);
        }
    }

    /// Of two ranks exactly one dials the other first, and everybody half of the others.
    private boolean dialsFirst(int other) {
        return (rank + other) % 2 == 0 ? rank < other : rank > other;
    }

    /// Leaves the job; ends the rendezvous where this rank serves it, once the others have heard
    /// the last news (a second at most). Connections stay. Closing again does nothing.
    @Override
    public void close() {
        rendezvous.close();
        if (server != null) {
            server.close();
        }
    }
}

package io.telpher.bootstrap;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// A member, or somebody who only watches. Callers ask the store; the follower thread renews the
/// lease and keeps the [Mirror] up to date.
final class RendezvousClient implements Rendezvous {
    private static final SecureRandom RANDOM = new SecureRandom();

    /// How long one attempt may take before it is made again on a new connection.
    private static final Duration ATTEMPT = Duration.ofSeconds(3);

    /// An answer that is older says nothing of why there is none now.
    private static final Duration RECENT = Duration.ofSeconds(1);

    /// How long the follower waits for changes at a time.
    private static final int FOLLOW_MILLIS = 1000;

    private static final int LEAST_PAUSE_MILLIS = 20;
    private static final int MOST_PAUSE_MILLIS = 500;

    /// Announcements for each lease.
    private static final int BEATS = 4;

    /// How much later than its deadline a barrier may end that asks who is missing.
    private static final Duration LAST_WORD = Duration.ofMillis(500);

    /// How long leaving may take.
    private static final Duration FAREWELL = Duration.ofSeconds(1);

    /// Who this is, once it has asked to be a member.
    private record Self(int rank, int world, long incarnation, byte[] sealed) {}

    private final RendezvousOptions options;
    private final Store store;
    private final Seal seal;
    private final Mirror mirror;
    private final CountDownLatch closed = new CountDownLatch(1);

    /// Arrivals that could not be taken back when their deadline passed.
    private final Queue<Request> withdrawals = new ConcurrentLinkedQueue<>();

    /// Held while a record is announced again or left, so that nothing announces it after that.
    private final ReentrantLock membership = new ReentrantLock();

    private @Nullable Thread follower;
    private volatile @Nullable Self self;

    /// Epoch of the last record, 0 before the first.
    private volatile long epoch;

    private volatile long nextBeat;

    RendezvousClient(RendezvousOptions options, Store store) {
        this.options = options;
        this.store = store;
        this.seal = new Seal(options.secret(), options.job());
        this.mirror = new Mirror(seal);
    }

    static RendezvousClient open(RendezvousOptions options) {
        if (options.server().getScheme().equals("tcp")) {
            return new RendezvousClient(options, new TcpStore(options.server(), options.secret()));
        }
        try {
            // Asked here, since the JVM refuses to load RedisStore itself without Jedis.
            Class<?> ignored = Class.forName("redis.clients.jedis.Jedis");
            assert ignored != null;
        } catch (ClassNotFoundException e) {
            throw new TelpherException.Unsupported(
                    "a redis:// rendezvous needs Jedis: put redis.clients:jedis on the class path, or"
                            + " on the module path with --add-modules redis.clients.jedis");
        }
        return new RendezvousClient(options, new RedisStore(options.server()));
    }

    // --- membership -----------------------------------------------------------------------------

    @Override
    public List<Member> join(int rank, int world, EndpointAddress address, Duration atMost) {
        if (world < 1 || rank < 0 || rank >= world) {
            throw new IllegalArgumentException(
                    "rank " + rank + " of a world of " + world + ": ranks are 0 to world - 1");
        }
        if (address.incarnation() == 0) {
            throw new IllegalArgumentException(
                    address + " is no whole address: join with Endpoint.address()");
        }
        Self me = new Self(rank, world, address.incarnation(), seal.seal(rank, world, address));
        synchronized (this) {
            if (self != null) {
                throw new IllegalStateException("this process has joined already: open another");
            }
            self = me;
        }
        Deadline deadline = Deadline.in(atMost);
        boolean done = false;
        try {
            announce(me, deadline);
            done = true;
        } finally {
            self = done ? me : null;
        }
        follow();
        return mirror.awaitMembers(world, deadline);
    }

    /// Asks until the rank is this process's own. Who has it may be dead: then its lease ends soon;
    /// or it renews the lease meanwhile: then it is alive.
    private void announce(Self me, Deadline deadline) {
        long given = 0;
        long holder = 0;
        Answer last = null;
        long heard = 0;
        while (true) {
            Answer answer;
            try {
                answer = call(beat(me), deadline);
            } catch (TelpherException.TimedOut e) {
                long ago = System.nanoTime() - heard;
                if (last == null || ago > RECENT.toNanos()) {
                    throw e; // the server is silent now, whatever it said before
                }
                throw refusedUntil(me, last, ago);
            }
            heard = System.nanoTime();
            last = answer;
            if (answer instanceof Answer.Ok ok) {
                announced(ok);
                return;
            }
            int left =
                    switch (answer) {
                        case Answer.Held held -> held.leaseMillis();
                        case Answer.OtherWorld other -> other.leaseMillis();
                        default -> throw unexpected(answer);
                    };
            long who = answer instanceof Answer.Held held ? held.incarnation() : 0;
            if (given == 0 || who != holder) {
                holder = who;
                given = System.nanoTime() + (left + 50L) * 1_000_000;
            } else if (System.nanoTime() - given > 0) {
                throw refusal(me, answer);
            }
            pause(Math.clamp(left, LEAST_PAUSE_MILLIS, 100), deadline);
            if (deadline.passed()) { // asked with no time left the server would be blamed
                throw refusedUntil(me, answer, System.nanoTime() - heard);
            }
        }
    }

    private Request.Announce beat(Self me) {
        return new Request.Announce(
                options.job(),
                me.rank,
                me.world,
                me.incarnation,
                epoch,
                (int) options.lease().toMillis(),
                me.sealed);
    }

    private void announced(Answer.Ok ok) {
        nextBeat = System.nanoTime() + options.lease().toNanos() / BEATS;
        if (epoch != ok.epoch()) {
            epoch = ok.epoch();
            mirror.disturb();
        }
    }

    private RendezvousException refusal(Self me, Answer answer) {
        return switch (answer) {
            case Answer.Held held ->
                    new RendezvousException.RankTaken(
                            "rank %d of job '%s' is held by endpoint %016x (epoch %d), which is alive: is the rank started twice, or the job's name used twice?"
                                    .formatted(
                                            me.rank,
                                            options.job(),
                                            held.incarnation(),
                                            held.epoch()));
            case Answer.OtherWorld other ->
                    new RendezvousException.WorldDiffers(
                            "rank %d says that job '%s' has %d ranks, those that are there say %d: start all with one number, or name the job otherwise"
                                    .formatted(me.rank, options.job(), me.world, other.world()));
            default -> throw unexpected(answer);
        };
    }

    /// The deadline has passed while the rank was not to be had; who has it may be alive or not.
    private RuntimeException refusedUntil(Self me, Answer last, long agoNanos) {
        if (!(last instanceof Answer.Held held)) {
            return refusal(me, last);
        }
        return new TelpherException.TimedOut(
                "rank %d of job '%s' is still held by endpoint %016x (epoch %d), whose lease had %d ms left %d ms ago: a rank that was killed can be taken when its lease has ended, so join with a longer deadline"
                        .formatted(
                                me.rank,
                                options.job(),
                                held.incarnation(),
                                held.epoch(),
                                held.leaseMillis(),
                                TimeUnit.NANOSECONDS.toMillis(agoNanos)));
    }

    private static TelpherException unexpected(Answer answer) {
        return new TelpherException.ProtocolViolation(
                answer instanceof Answer.Refused refused
                        ? "the rendezvous server refused: " + refused.reason()
                        : "the rendezvous server answered " + answer);
    }

    @Override
    public List<Member> awaitMembers(Duration atMost) {
        return mirror.awaitMembers(joined().world, Deadline.in(atMost));
    }

    @Override
    public Member awaitMember(int rank, Duration atMost) {
        follow();
        return mirror.awaitMember(rank, Deadline.in(atMost));
    }

    private Self joined() {
        mirror.check();
        Self me = self;
        if (me == null) {
            throw new IllegalStateException("join the rendezvous first");
        }
        return me;
    }

    @Override
    public List<Member> members() {
        return mirror.members();
    }

    @Override
    public Watch watch() {
        follow();
        return mirror.watch();
    }

    // --- barriers -------------------------------------------------------------------------------

    @Override
    public void barrier(String name, Duration atMost) {
        if (name.isEmpty() || name.length() > 128) {
            throw new IllegalArgumentException(
                    "a barrier's name has 1 to 128 characters, this has " + name.length());
        }
        Self me = joined();
        mirror.enter(name);
        try {
            await(name, me, RANDOM.nextLong(), Deadline.in(atMost), atMost);
        } finally {
            mirror.exit(name);
        }
    }

    private void await(String name, Self me, long ticket, Deadline deadline, Duration atMost) {
        Request arrive = new Request.Arrive(options.job(), name, me.rank, me.incarnation, ticket);
        boolean over = false;
        try {
            while (true) {
                long disturbances = mirror.disturbances();
                switch (call(arrive, deadline)) {
                    case Answer.Passed _ -> {
                        over = true;
                        return;
                    }
                    case Answer.Gone _ -> announceAgain(me, deadline);
                    case Answer.Waiting waiting -> {
                        switch (mirror.awaitPassed(
                                name, waiting.generation(), disturbances, deadline)) {
                            case PASSED -> {
                                over = true;
                                return;
                            }
                            case DISTURBED -> {}
                            case LATE -> {
                                Answer last = withdraw(name, me, ticket);
                                over = true;
                                if (last instanceof Answer.Passed) {
                                    return;
                                }
                                throw late(name, atMost, last);
                            }
                        }
                    }
                    case Answer other -> throw unexpected(other);
                }
            }
        } catch (TelpherException.Cancelled e) {
            boolean interrupted = Thread.interrupted(); // which would end the taking back as well
            try {
                over = true;
                if (!(withdraw(name, me, ticket) instanceof Answer.Passed)) {
                    throw e;
                }
            } finally {
                restore(interrupted);
            }
        } finally {
            if (!over) {
                withdrawals.add(withdrawal(name, me, ticket));
            }
        }
    }

    private static void restore(boolean interrupted) {
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private Request.Withdraw withdrawal(String name, Self me, long ticket) {
        return new Request.Withdraw(options.job(), name, me.rank, me.incarnation, ticket);
    }

    /// Takes the arrival back, or leaves that to the follower: the deadline has passed, and nobody
    /// shall wait for a server that is known not to answer.
    private @Nullable Answer withdraw(String name, Self me, long ticket) {
        Request.Withdraw request = withdrawal(name, me, ticket);
        if (mirror.isReachable()) {
            try {
                return store.call(request, Deadline.in(LAST_WORD));
            } catch (TelpherException e) {
                mirror.unreachable(e);
            }
        }
        withdrawals.add(request);
        return null;
    }

    private TelpherException late(String name, Duration atMost, @Nullable Answer last) {
        String who =
                last instanceof Answer.Withdrawn withdrawn && !withdrawn.missing().isEmpty()
                        ? "missing: " + Ranks.text(withdrawn.missing())
                        : "not all ranks came";
        return new TelpherException.TimedOut(
                "barrier '%s' of job '%s' was not passed within %d ms: %s%s"
                        .formatted(name, options.job(), atMost.toMillis(), who, mirror.silence()));
    }

    // --- the server -----------------------------------------------------------------------------

    /// Asks until there is an answer.
    private Answer call(Request request, Deadline deadline) {
        int pause = LEAST_PAUSE_MILLIS;
        while (true) {
            mirror.check();
            try {
                return store.call(request, deadline.or(ATTEMPT));
            } catch (TelpherException.AccessDenied
                    | TelpherException.Unsupported
                    | TelpherException.Cancelled e) {
                throw e;
            } catch (TelpherException e) {
                mirror.check(); // closed meanwhile: say that
                if (deadline.left() < TimeUnit.MILLISECONDS.toNanos(pause)) {
                    throw new TelpherException.TimedOut(
                            "the rendezvous at %s did not answer in time: %s"
                                    .formatted(
                                            RendezvousOptions.hidden(options.server()),
                                            e.getMessage()));
                }
            }
            pause(pause, deadline);
            pause = Math.min(2 * pause, MOST_PAUSE_MILLIS);
        }
    }

    private void pause(int millis, Deadline deadline) {
        try {
            boolean over =
                    closed.await(Math.min(millis, deadline.leftMillis()), TimeUnit.MILLISECONDS);
            if (over) {
                mirror.check();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted at the rendezvous");
        }
    }

    // --- the follower ---------------------------------------------------------------------------

    private synchronized void follow() {
        mirror.check();
        if (follower == null) {
            follower =
                    Thread.ofPlatform()
                            .daemon()
                            .name("telpher-rendezvous-follower")
                            .start(this::followChanges);
        }
    }

    private void followChanges() {
        int pause = LEAST_PAUSE_MILLIS;
        while (closed.getCount() > 0) {
            try {
                // Whether a server is back shall be known at once.
                int wait = mirror.isReachable() ? FOLLOW_MILLIS : 1;
                Self me = self;
                if (me != null && epoch != 0) {
                    long due = nextBeat - System.nanoTime();
                    if (due <= 0) {
                        announceAgain(me, Deadline.in(ATTEMPT));
                        due = nextBeat - System.nanoTime();
                    }
                    wait = Math.clamp(due / 1_000_000, 1, wait);
                }
                Request withdrawal;
                while ((withdrawal = withdrawals.peek()) != null) {
                    Answer ignored = store.call(withdrawal, Deadline.in(ATTEMPT));
                    assert ignored != null;
                    boolean removed = withdrawals.remove(withdrawal);
                    assert removed;
                }
                Request.Changes request = mirror.next(options.job(), wait);
                mirror.apply(
                        store.changes(
                                request, Deadline.in(ATTEMPT.plusMillis(request.waitMillis()))));
                pause = LEAST_PAUSE_MILLIS;
            } catch (RendezvousException e) {
                return; // the mirror knows why
            } catch (TelpherException e) {
                mirror.unreachable(e);
                try {
                    boolean over = closed.await(pause, TimeUnit.MILLISECONDS);
                    assert over == (closed.getCount() == 0);
                } catch (InterruptedException interrupted) {
                    return; // nobody has this thread: the JVM is going down
                }
                pause = Math.min(2 * pause, MOST_PAUSE_MILLIS);
            }
        }
    }

    /// Renews the lease, or makes a new record where the last one was lost.
    ///
    /// @throws RendezvousException when the rank is another's by now
    private void announceAgain(Self me, Deadline deadline) {
        membership.lock();
        try {
            mirror.check();
            announceOnce(me, deadline.or(ATTEMPT));
        } finally {
            membership.unlock();
        }
    }

    private void announceOnce(Self me, Deadline deadline) {
        Answer answer = store.call(beat(me), deadline);
        switch (answer) {
            case Answer.Ok ok -> announced(ok);
            case Answer.Held held -> {
                String end =
                        "rank %d of job '%s' belongs to endpoint %016x now (epoch %d; this one had %d): this process was silent for longer than its lease of %d ms"
                                .formatted(
                                        me.rank,
                                        options.job(),
                                        held.incarnation(),
                                        held.epoch(),
                                        epoch,
                                        options.lease().toMillis());
                mirror.end(() -> new RendezvousException.Superseded(end));
                throw new RendezvousException.Superseded(end);
            }
            case Answer.OtherWorld other -> {
                mirror.end(() -> refusal(me, other));
                throw refusal(me, other);
            }
            default -> throw unexpected(answer);
        }
    }

    @Override
    public void close() {
        Thread last;
        synchronized (this) {
            last = follower;
            if (closed.getCount() == 0) {
                return;
            }
            closed.countDown();
        }
        mirror.end(() -> new TelpherException.Closed("the rendezvous was closed"));
        boolean interrupted = Thread.interrupted(); // such a thread leaves in good order, too
        try {
            leave();
        } catch (TelpherException e) {
            // Then the lease runs out.
        } finally {
            restore(interrupted);
        }
        store.close();
        try {
            if (last != null && last != Thread.currentThread()) {
                boolean ended = last.join(FAREWELL);
                assert ended || last.isAlive();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void leave() {
        Self me = self;
        Deadline deadline = Deadline.in(FAREWELL);
        try {
            if (me == null || !membership.tryLock(FAREWELL.toMillis(), TimeUnit.MILLISECONDS)) {
                return;
            }
            try {
                Answer ignored =
                        store.call(
                                new Request.Leave(options.job(), me.rank, me.incarnation),
                                deadline);
                assert ignored != null;
            } finally {
                membership.unlock();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}

package io.telpher.internal.engine;

import io.telpher.EndpointMetrics;
import io.telpher.internal.observe.Log;
import io.telpher.internal.observe.MetricsPage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/// The one thread of this process that makes progress when nobody else does. It parks in one epoll.
///
/// A connection is in one of three conditions, which only this thread changes (its [Watch]):
/// - *active*: this thread polls it, spinning for a while after the last frame;
/// - *armed*: its lanes are parked, and an event of the epoll makes it active;
/// - *leased*: waiting threads are polling it (its `polls` grows). Nothing is armed, so that
///   traffic does not wake this thread; it only looks every millisecond whether they still do,
///   less often when they have for long, and takes over when they do not.
///
/// A thread that parks asks for the take-over at once.
///
/// What is thrown in a connection's turn, be it an `OutOfMemoryError`, ends that connection, as
/// soon as there is memory for that much; anything else that is thrown here ends all of them, since
/// who was to be looked after may be forgotten. The thread goes on: those that connect anew find it
/// at work.
final class Progress implements Runnable {
    private static final int LEASE_MILLIS = 1;

    /// Where all processors are busy a look takes one from a thread that polls: 1000 a second on
    /// each side delay one in a hundred messages that take 3 us.
    private static final int LONGEST_LEASE_MILLIS = 10;

    /// What has been polled for a time is left alone for this part of that time: nobody who stops
    /// polling without a word stays undiscovered for longer.
    private static final int PART_OF_LEASE = 16;

    /// Somebody's stream may take any time to get where a transfer waits for it: after so long this
    /// thread sleeps between its looks.
    private static final long STREAM_SPIN_NANOS = 1_000_000;

    static final int TICK_MILLIS = 50;
    static final int SLOW_TICK_MILLIS = 1000;

    /// Slow ticks look at the page each time, quick ones about as often.
    private static final long PAGE_NANOS = 900_000_000L;

    /// After something was thrown: what is thrown again and again must not cost a processor.
    private static final long REST_NANOS = 10_000_000;

    /// How long whoever ends the thread waits for its end.
    private static final Duration GRACE = Duration.ofSeconds(5);

    private final Platform platform;
    private final Sources sources;
    private final CopyOnWriteArrayList<ConnectionCore> connections = new CopyOnWriteArrayList<>();

    /// Those to be looked after, linked through `nextAsked`: asking allocates nothing.
    private final AtomicReference<@Nullable Watch> asked = new AtomicReference<>();

    private final List<Watch> active = new ArrayList<>();
    private final List<Watch> leased = new ArrayList<>();
    private final CopyOnWriteArrayList<EndpointImpl> observed = new CopyOnWriteArrayList<>();

    /// Where other processes see the counters of `observed`; there from the first of them on.
    private volatile @Nullable MetricsPage page;

    private final Thread thread;
    private int users;
    private volatile boolean stopped;

    private volatile boolean rung;
    private long nextTick;
    private long nextLook;
    private long nextPage;

    private Progress(Platform platform) {
        this.platform = platform;
        sources = new Sources(platform.readiness());
        thread = platform.thread("telpher-progress", this);
    }

    Sources sources() {
        return sources;
    }

    /// The process's progress thread; starts it for the first user.
    static Progress acquire(Platform platform) {
        synchronized (platform) {
            Progress progress = platform.progress;
            if (progress == null) {
                progress = new Progress(platform);
                platform.progress = progress;
                platform.start(progress.thread);
            }
            progress.users++;
            return progress;
        }
    }

    /// Ends the thread with its last user.
    static void release(Progress progress) {
        Platform platform = progress.platform;
        synchronized (platform) {
            if (--progress.users > 0) {
                return;
            }
            platform.progress = null;
            progress.stopped = true;
        }
        progress.ring();
        if (Thread.currentThread() != progress.thread) {
            boolean ignored = platform.await(progress.sources::isGone, platform.in(GRACE));
            assert ignored || progress.stopped;
        }
    }

    private void ring() {
        if (!rung) {
            rung = true;
            sources.ring();
        }
    }

    // --- endpoints that other processes may look at ---------------------------------------------

    void observe(EndpointImpl endpoint) {
        synchronized (observed) {
            if (page == null) {
                MetricsPage made = platform.metricsPage();
                if (made == null) {
                    return;
                }
                page = made;
            }
        }
        observed.add(endpoint);
        ring();
    }

    void hide(EndpointImpl endpoint) {
        observed.remove(endpoint);
    }

    private void publish(long now) {
        MetricsPage open = page;
        if (open == null || now - nextPage < 0) {
            return;
        }
        nextPage = now + PAGE_NANOS;
        try {
            if (!open.isWanted(now)) {
                return;
            }
            List<EndpointMetrics> each = new ArrayList<>();
            for (EndpointImpl endpoint : observed) {
                each.add(endpoint.metrics());
            }
            open.write(each);
        } catch (Throwable e) {
            // Whoever watches sees that the snapshot grows old; transfers go on.
            Failures.letThrough(e);
            Log.warning("the counters could not be written", e);
        }
    }

    // --- connections ----------------------------------------------------------------------------

    /// Takes a connection in, or tells that it has a new lane.
    void activate(ConnectionCore connection) {
        connections.addIfAbsent(connection);
        askFor(connection);
    }

    void remove(ConnectionCore connection) {
        connections.remove(connection);
        askFor(connection);
    }

    /// A lane waits for its link to drain, or a thread is about to park: this thread must look
    /// after the connection.
    void attend(ConnectionCore connection) {
        Watch.Condition condition = connection.watch.condition;
        // Another thread cannot know whether what is active is about to be armed.
        if (condition == Watch.Condition.ARMED
                || (condition == Watch.Condition.ACTIVE && !isCurrent())) {
            askFor(connection);
        }
    }

    void takeOver(ConnectionCore connection) {
        askFor(connection);
    }

    private void askFor(ConnectionCore connection) {
        Watch watch = connection.watch;
        if (watch.asked.compareAndSet(false, true)) {
            Watch before;
            do {
                before = asked.get();
                watch.nextAsked = before;
            } while (!asked.compareAndSet(before, watch));
            ring();
        }
    }

    /// An operation with a deadline was posted.
    void keepTime(ConnectionCore connection) {
        Watch watch = connection.watch;
        if (watch.slow) {
            watch.slow = false;
            ring();
        }
    }

    // --- the thread -----------------------------------------------------------------------------

    @Override
    public void run() {
        nextTick = platform.nanoTime();
        nextPage = nextTick;
        nextLook = nextTick;
        Throwable failure = null;
        try {
            while (!stopped) {
                try {
                    if (failure != null) {
                        failAll(failure);
                    }
                    failure = null;
                    turn();
                } catch (Platform.Ended e) {
                    return;
                } catch (Throwable e) {
                    failure = e;
                }
            }
        } finally {
            try {
                MetricsPage open = page;
                if (open != null) {
                    open.close();
                }
            } finally {
                sources.close();
            }
        }
    }

    /// The thread itself has failed: whoever waits for it hears so, instead of waiting for ever.
    private void failAll(Throwable failure) {
        platform.park(this, REST_NANOS);
        Log.error("the progress thread failed", failure);
        for (ConnectionCore connection : connections) {
            connection.fail(Failures.internal(connection, failure));
        }
        nextTick = platform.nanoTime(); // which buries them
    }

    private void turn() {
        takeAsked();
        boolean worked = serveActive();
        int timeout = worked || !active.isEmpty() ? 0 : timeout();
        int n = sources.await(timeout);
        for (int i = 0; i < n; i++) {
            long key = sources.key(i);
            if (key == Readiness.BELL) {
                // It has stopped ringing before this is cleared: who rings in between is in the
                // queues that are looked at next.
                rung = false;
                nextTick = Math.min(nextTick, platform.nanoTime() + TICK_MILLIS * 1_000_000L);
                continue;
            }
            Sources.Source source = sources.source(key);
            if (source == null) {
                continue;
            }
            happened(source);
        }
        long now = platform.nanoTime();
        checkLeases(now);
        if (now - nextTick >= 0) {
            tick(now);
        }
    }

    /// The other events would not come again, whatever is thrown here.
    private void happened(Sources.Source source) {
        Watch watch = source.of();
        try {
            Runnable ready = source.ready();
            if (ready != null) {
                ready.run();
            }
            LaneState lane = source.lane();
            if (lane != null && watch != null) {
                Watch.wake(lane);
                makeActive(watch);
            }
        } catch (Throwable e) {
            if (watch != null) {
                failed(watch.connection, e);
            } else {
                Failures.letThrough(e);
                Log.error("a transport failed to take in what has come", e);
            }
        }
    }

    private int timeout() {
        if (!leased.isEmpty()) {
            return leaseMillis();
        }
        if (asked.get() != null) {
            return 0;
        }
        if (connections.isEmpty() && page == null) {
            return -1;
        }
        long left = (nextTick - platform.nanoTime()) / 1_000_000;
        return (int) Math.max(0, Math.min(left + 1, SLOW_TICK_MILLIS));
    }

    private int leaseMillis() {
        long now = platform.nanoTime();
        long millis = LONGEST_LEASE_MILLIS;
        for (Watch watch : leased) {
            millis = Math.min(millis, (now - watch.leasedSince) / PART_OF_LEASE / 1_000_000);
        }
        return (int) Math.max(LEASE_MILLIS, millis);
    }

    private void takeAsked() {
        Watch next = asked.getAndSet(null);
        while (next != null) {
            Watch watch = next;
            next = watch.nextAsked;
            watch.nextAsked = null;
            watch.asked.set(false); // from here on it may be linked again
            watch.hurry();
            if (watch.connection.isOver()) {
                active.remove(watch);
                leased.remove(watch);
            } else {
                watch.pollsSeen = watch.connection.polls();
                makeActive(watch);
            }
        }
    }

    private void makeActive(Watch watch) {
        if (watch.condition != Watch.Condition.ACTIVE) {
            if (watch.condition == Watch.Condition.LEASED) {
                leased.remove(watch);
            }
            watch.condition = Watch.Condition.ACTIVE;
            active.add(watch);
        }
        watch.quietSince = 0;
    }

    private boolean serveActive() {
        boolean worked = false;
        boolean resting = !active.isEmpty();
        for (int i = active.size() - 1; i >= 0; i--) {
            Watch watch = active.get(i);
            ConnectionCore connection = watch.connection;
            if (connection.isOver()) {
                active.remove(i);
                watch.condition = Watch.Condition.ARMED;
                bury(connection);
                continue;
            }
            if (turn(connection) > 0) {
                worked = true;
                watch.quietSince = 0;
                continue;
            }
            long now = platform.nanoTime();
            if (watch.quietSince == 0) {
                watch.quietSince = now;
            }
            if (connection.polls() != watch.pollsSeen && connection.waiters.isEmpty()) {
                // Somebody polls: leave it to them.
                watch.pollsSeen = connection.polls();
                watch.condition = Watch.Condition.LEASED;
                watch.leasedSince = now;
                leased.add(watch);
                active.remove(i);
            } else if (now - watch.quietSince >= connection.spinNanos() && arm(watch)) {
                active.remove(i);
            } else {
                resting &= isResting(watch, now);
                Thread.yield();
                continue;
            }
            resting = false;
        }
        if (resting && !worked) {
            platform.pause(Integer.MAX_VALUE);
        }
        return worked;
    }

    private static boolean isResting(Watch watch, long now) {
        return now - watch.quietSince >= STREAM_SPIN_NANOS
                && watch.connection.streams.isFilled()
                && !watch.connection.devices.isPolled();
    }

    /// One connection's failure must not stop the others.
    private static int turn(ConnectionCore connection) {
        try {
            return connection.turn();
        } catch (Throwable e) {
            failed(connection, e);
            return 0;
        }
    }

    /// What does not succeed now does at a tick.
    private static void bury(ConnectionCore connection) {
        try {
            connection.afterwards();
        } catch (Throwable e) {
            failed(connection, e);
        }
    }

    private boolean arm(Watch watch) {
        try {
            return watch.arm(sources);
        } catch (Throwable e) {
            failed(watch.connection, e);
            return false;
        }
    }

    private static void failed(ConnectionCore connection, Throwable e) {
        Failures.letThrough(e);
        Log.error("a connection failed", e);
        connection.fail(Failures.internal(connection, e));
    }

    /// Whether the calling thread is this one.
    boolean isCurrent() {
        return Thread.currentThread() == thread;
    }

    private void checkLeases(long now) {
        if (leased.isEmpty() || now - nextLook < 0) {
            return;
        }
        nextLook = now + leaseMillis() * 1_000_000L;
        for (int i = leased.size() - 1; i >= 0; i--) {
            Watch watch = leased.get(i);
            long polls = watch.connection.polls();
            if (polls == watch.pollsSeen || !watch.connection.waiters.isEmpty()) {
                leased.remove(i);
                watch.condition = Watch.Condition.ACTIVE;
                watch.quietSince = 0;
                active.add(watch);
            } else {
                watch.pollsSeen = polls;
            }
        }
    }

    private void tick(long now) {
        long next = now + SLOW_TICK_MILLIS * 1_000_000L;
        for (ConnectionCore connection : connections) {
            Watch watch = connection.watch;
            if (watch.isDue(now)) {
                watch.ticked(now, look(connection, now));
            }
            next = Math.min(next, watch.nextLook);
        }
        publish(now);
        Events.prepare();
        nextTick = next;
    }

    /// @return whether operations are in flight
    private static boolean look(ConnectionCore connection, long now) {
        try {
            boolean busy = connection.tick(now);
            Watch watch = connection.watch;
            if (watch.condition == Watch.Condition.ARMED
                    && watch.isToBeTurned()
                    && !connection.isOver()) {
                // Should a wake-up ever get lost, then not for ever.
                int frames = connection.turn();
                assert frames >= 0;
            }
            return busy;
        } catch (Throwable e) {
            failed(connection, e);
            return true;
        }
    }
}

package io.telpher.internal.engine;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Epoll;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.EventFd;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/// The one thread of this process that makes progress when nobody else does. It parks in one epoll.
///
/// A connection is in one of three conditions, which only this thread changes:
/// - *active*: this thread polls it, spinning for a while after the last frame;
/// - *armed*: its lanes are parked, and an event of the epoll makes it active;
/// - *leased*: waiting threads are polling it (its `polls` grows). Nothing is armed, so that
///   traffic does not wake this thread; it only looks every millisecond whether they still do, and
///   takes over when they do not.
///
/// A thread that parks asks for the take-over at once.
final class Progress implements Runnable {
    private static final System.Logger LOG = System.getLogger("io.telpher");
    private static final int LEASE_MILLIS = 1;
    private static final int TICK_MILLIS = 50;
    private static final int SLOW_TICK_MILLIS = 1000;

    /// So many quick ticks without operations in flight, and the ticks become slow.
    private static final int QUIET_TICKS = 20;

    private static @Nullable Progress shared;

    private enum Condition {
        ACTIVE,
        ARMED,
        LEASED
    }

    /// This thread's view of a connection.
    static final class Watch {
        final ConnectionCore connection;
        volatile Condition condition = Condition.ARMED;

        /// It is in the queue of those to be looked after.
        final AtomicBoolean asked = new AtomicBoolean();

        long pollsSeen = -1;
        long quietSince;

        Watch(ConnectionCore connection) {
            this.connection = connection;
        }
    }

    /// What an event of the epoll stands for.
    ///
    /// @param key what the epoll reports: index in the low half, a number of its own in the high
    ///     half, so that a late event finds nobody
    private record Source(
            long key,
            int descriptor,
            @Nullable Runnable ready,
            @Nullable LaneState lane,
            @Nullable Watch of) {}

    private final Arena arena = Arena.ofShared();
    private final int epoll;
    private final int bell;
    private final Epoll.Events events = new Epoll.Events(arena, 64);

    /// Guards changes of `sources` and `byDescriptor`, and the descriptors' end.
    private final Object gate = new Object();

    /// By index; looked at without the gate.
    private volatile @Nullable Source[] sources = new Source[64];

    private final HashMap<Integer, Source> byDescriptor = new HashMap<>();
    private int sourcesMade;
    private final CopyOnWriteArrayList<ConnectionCore> connections = new CopyOnWriteArrayList<>();
    private final ConcurrentLinkedQueue<Watch> asked = new ConcurrentLinkedQueue<>();
    private final List<Watch> active = new ArrayList<>();
    private final List<Watch> leased = new ArrayList<>();
    private final Thread thread;
    private int users;
    private volatile boolean stopped;

    /// The descriptors are closed; guarded by `gate`.
    private boolean gone;

    /// The thread sleeps long: who posts something with a deadline must wake it.
    private volatile boolean slow;

    private volatile boolean rung;
    private int quietTicks;
    private long nextTick;

    private Progress() {
        epoll = check("epoll_create1", Epoll.create());
        bell = check("eventfd", EventFd.create());
        check("epoll_ctl", Epoll.add(epoll, bell, Epoll.EPOLLIN, 0));
        thread = new Thread(this, "telpher-progress");
        thread.setDaemon(true);
    }

    private static int check(String call, int result) {
        if (result < 0) {
            throw new io.telpher.TelpherException.NativeFailure(
                    call, -result, Errno.describe(result));
        }
        return result;
    }

    /// The process's progress thread; starts it for the first user.
    static synchronized Progress acquire() {
        Progress progress = shared;
        if (progress == null) {
            progress = new Progress();
            shared = progress;
            progress.thread.start();
        }
        progress.users++;
        return progress;
    }

    /// Ends the thread with its last user.
    static void release(Progress progress) {
        synchronized (Progress.class) {
            if (--progress.users > 0) {
                return;
            }
            shared = null;
            progress.stopped = true;
        }
        progress.ring();
        if (Thread.currentThread() != progress.thread) {
            try {
                progress.thread.join(5_000);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void ring() {
        if (!rung) {
            rung = true;
            synchronized (gate) {
                // Late callers must not write to whatever has the descriptor's number by then.
                if (!gone) {
                    EventFd.signal(bell);
                }
            }
        }
    }

    // --- descriptors of transports --------------------------------------------------------------

    void watch(int descriptor, Runnable ready) {
        long ignored = register(descriptor, ready, null, null, Epoll.EPOLLIN | Epoll.EPOLLRDHUP);
        assert ignored >= 0;
    }

    /// @return the source's key, 0 when the thread has ended
    private long register(
            int descriptor,
            @Nullable Runnable ready,
            @Nullable LaneState lane,
            @Nullable Watch of,
            int what) {
        synchronized (gate) {
            if (gone) {
                return 0;
            }
            int index = freeIndex();
            long key = index | (long) (++sourcesMade & 0x7fff_ffff) << 32;
            Source source = new Source(key, descriptor, ready, lane, of);
            put(index, source);
            int result = Epoll.add(epoll, descriptor, what, key);
            if (result < 0) {
                put(index, null);
                check("epoll_ctl(ADD, " + descriptor + ")", result);
            }
            byDescriptor.put(descriptor, source);
            return key;
        }
    }

    /// Index 0 is the bell's.
    private int freeIndex() {
        @Nullable Source[] all = sources;
        for (int i = 1; i < all.length; i++) {
            if (all[i] == null) {
                return i;
            }
        }
        sources = Arrays.copyOf(all, all.length * 2);
        return all.length;
    }

    private void put(int index, @Nullable Source source) {
        @Nullable Source[] all = sources;
        all[index] = source;
        sources = all; // publishes the element
    }

    private @Nullable Source source(long key) {
        @Nullable Source[] all = sources;
        int index = (int) key;
        Source source = index < all.length ? all[index] : null;
        return source != null && source.key == key ? source : null;
    }

    void unwatch(int descriptor) {
        synchronized (gate) {
            Source source = byDescriptor.remove(descriptor);
            if (source != null && !gone) {
                put((int) source.key, null);
                int ignored = Epoll.remove(epoll, descriptor); // it may be closed already
                assert ignored <= 0;
            }
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
        if (Thread.currentThread() != thread && connection.watch.condition != Condition.LEASED) {
            askFor(connection);
        }
    }

    void takeOver(ConnectionCore connection) {
        askFor(connection);
    }

    private void askFor(ConnectionCore connection) {
        if (connection.watch.asked.compareAndSet(false, true)) {
            asked.add(connection.watch);
            ring();
        }
    }

    /// An operation with a deadline was posted.
    void keepTime() {
        if (slow) {
            slow = false;
            ring();
        }
    }

    void unwatch(LaneState s) {
        int descriptor = s.watched;
        if (descriptor >= 0) {
            s.watched = -1;
            unwatch(descriptor);
        }
    }

    // --- the thread -----------------------------------------------------------------------------

    @Override
    public void run() {
        nextTick = System.nanoTime();
        try {
            while (!stopped) {
                try {
                    turn();
                } catch (Throwable e) {
                    LOG.log(System.Logger.Level.ERROR, "the progress thread met a failure", e);
                }
            }
        } finally {
            synchronized (gate) {
                gone = true;
                Descriptors.close(bell);
                Descriptors.close(epoll);
            }
            arena.close();
        }
    }

    private void turn() {
        takeAsked();
        boolean worked = serveActive();
        int timeout = worked || !active.isEmpty() ? 0 : timeout();
        int n = Epoll.await(epoll, events, timeout);
        for (int i = 0; i < n; i++) {
            long key = events.data(i);
            if (key == 0) {
                // First drained, then cleared: who rings in between is in the queues that are
                // looked at next.
                long ignored = EventFd.drain(bell);
                assert ignored < Long.MAX_VALUE;
                rung = false;
                quietTicks = 0;
                nextTick = Math.min(nextTick, System.nanoTime() + TICK_MILLIS * 1_000_000L);
                continue;
            }
            Source source = source(key);
            if (source == null) {
                continue;
            }
            try {
                happened(source);
            } catch (Throwable e) {
                // The other events would not come again.
                LOG.log(System.Logger.Level.ERROR, "the progress thread met a failure", e);
            }
        }
        long now = System.nanoTime();
        checkLeases();
        if (now - nextTick >= 0) {
            tick(now);
        }
    }

    private void happened(Source source) {
        Runnable ready = source.ready;
        if (ready != null) {
            ready.run();
        }
        LaneState lane = source.lane;
        Watch watch = source.of;
        if (lane != null && watch != null) {
            unpark(lane);
            makeActive(watch);
        }
    }

    private int timeout() {
        if (!leased.isEmpty()) {
            return LEASE_MILLIS;
        }
        if (!asked.isEmpty()) {
            return 0;
        }
        if (connections.isEmpty()) {
            return -1;
        }
        long left = (nextTick - System.nanoTime()) / 1_000_000;
        return (int) Math.max(0, Math.min(left + 1, SLOW_TICK_MILLIS));
    }

    private void takeAsked() {
        Watch watch;
        while ((watch = asked.poll()) != null) {
            watch.asked.set(false);
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
        if (watch.condition != Condition.ACTIVE) {
            if (watch.condition == Condition.LEASED) {
                leased.remove(watch);
            }
            watch.condition = Condition.ACTIVE;
            active.add(watch);
        }
        watch.quietSince = 0;
    }

    private boolean serveActive() {
        boolean worked = false;
        for (int i = active.size() - 1; i >= 0; i--) {
            Watch watch = active.get(i);
            ConnectionCore connection = watch.connection;
            if (connection.isOver()) {
                connection.afterwards();
                active.remove(i);
                watch.condition = Condition.ARMED;
                continue;
            }
            if (turn(connection) > 0) {
                worked = true;
                watch.quietSince = 0;
                continue;
            }
            long now = System.nanoTime();
            if (watch.quietSince == 0) {
                watch.quietSince = now;
            }
            if (connection.polls() != watch.pollsSeen && connection.waiters.isEmpty()) {
                // Somebody polls: leave it to them.
                watch.pollsSeen = connection.polls();
                watch.condition = Condition.LEASED;
                leased.add(watch);
                active.remove(i);
            } else if (now - watch.quietSince >= connection.spinNanos() && arm(watch)) {
                active.remove(i);
            } else {
                Thread.yield();
            }
        }
        return worked;
    }

    /// One connection's failure must not stop the others.
    private static int turn(ConnectionCore connection) {
        try {
            return connection.turn();
        } catch (Throwable e) {
            LOG.log(System.Logger.Level.ERROR, "a connection failed", e);
            connection.fail(
                    new io.telpher.TelpherException.PeerLost(
                            "the engine failed at " + connection.peerText() + ": " + e));
            return 0;
        }
    }

    /// Whether the calling thread is this one.
    boolean isCurrent() {
        return Thread.currentThread() == thread;
    }

    /// Parks all lanes of a connection.
    ///
    /// @return false when there is something to do after all
    private boolean arm(Watch watch) {
        ConnectionCore connection = watch.connection;
        watch.condition = Condition.ARMED;
        for (LaneState s : connection.lanes.all()) {
            if (s.dead) {
                continue;
            }
            s.pollToken.take();
            try {
                if (s.closed) {
                    continue;
                }
                if (!s.lane.park()) {
                    watch.condition = Condition.ACTIVE;
                    return false;
                }
                s.parked = true;
                armDescriptor(s, watch);
            } finally {
                s.pollToken.giveBack();
            }
        }
        return true;
    }

    private void armDescriptor(LaneState s, Watch watch) {
        boolean write = s.blocked && s.lane.wantsWrite();
        int what = Epoll.EPOLLIN | Epoll.EPOLLONESHOT | (write ? Epoll.EPOLLOUT : 0);
        int descriptor = s.lane.descriptor();
        if (s.watched < 0) {
            s.watched = descriptor;
            s.watchKey = register(descriptor, null, s, watch, what);
        } else {
            check("epoll_ctl(MOD)", Epoll.modify(epoll, descriptor, what, s.watchKey));
        }
    }

    private static void unpark(LaneState s) {
        s.pollToken.take();
        try {
            if (s.parked && !s.closed) {
                s.parked = false;
                s.lane.unpark();
            }
        } finally {
            s.pollToken.giveBack();
        }
    }

    private void checkLeases() {
        for (int i = leased.size() - 1; i >= 0; i--) {
            Watch watch = leased.get(i);
            long polls = watch.connection.polls();
            if (polls == watch.pollsSeen || !watch.connection.waiters.isEmpty()) {
                leased.remove(i);
                watch.condition = Condition.ACTIVE;
                watch.quietSince = 0;
                active.add(watch);
            } else {
                watch.pollsSeen = polls;
            }
        }
    }

    private void tick(long now) {
        boolean any = false;
        for (ConnectionCore connection : connections) {
            try {
                any |= connection.tick(now);
            } catch (Throwable e) {
                LOG.log(System.Logger.Level.ERROR, "a connection failed", e);
            }
        }
        quietTicks = any ? 0 : quietTicks + 1;
        boolean slowly = quietTicks >= QUIET_TICKS;
        // What is posted after this is announced by a ring; what was posted before it, and after
        // the
        // look, is found by one more quick tick.
        boolean longer = slowly && slow;
        if (slow != slowly) {
            slow = slowly;
        }
        nextTick = now + (longer ? SLOW_TICK_MILLIS : TICK_MILLIS) * 1_000_000L;
    }
}

package io.telpher.internal.engine;

import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Deadline;
import org.jspecify.annotations.Nullable;

/// Ends a connection, by whatever cause.
///
/// ```
/// OPEN --close: goodbye--> LEAVING --> OVER --the first to come by--> BURYING --> BURIED
///   \\--fail: the first cause----------/ \\--what is thrown there---/
/// ```
///
/// OVER begins with the first cause: nothing is DONE from then on. The first thread that comes by
/// without lock and tokens buries: it closes the lanes, ends every operation that nothing touches
/// any more, closes the windows, and takes the connection out of the progress thread's and the
/// endpoint's lists. Nobody waits there for a GPU or for the peer: what GPUs still copy from or to,
/// what is made ready for them, and receives that the peer is storing into are left to a thread of
/// its own, which polls the copies and finishes the burial, however long they take. When something
/// is thrown in the middle of a burial, for want of memory or of a thread, whoever comes by next
/// buries anew: no step does harm when it is taken twice.
///
/// Every other thread that closes waits for the end of that, at most for the drain limit, or for
/// [DeviceQueues#LIMIT] while GPUs copy or senders store.
///
/// The states are guarded by `this`, which is held for a few instructions and within which nothing
/// else is taken; [#fail] may be called with tokens or the lock.
final class Undertaker {
    /// The part of the drain limit for which a link that takes nothing holds up a goodbye.
    private static final int PART_FOR_DRAINING = 4;

    /// Between two looks at copies that take longer than [DeviceQueues#LIMIT].
    private static final long LATE_NANOS = 10_000_000;

    private final ConnectionCore connection;
    private final SpinLock lock;
    private final Lanes lanes;
    private final Outbound outbound;
    private final LaneKeeper keeper;
    private final Endings endings;

    /// The first cause; there from OVER on.
    private volatile @Nullable TelpherException failure;

    /// Somebody closes: the peer that hears our goodbye hangs up at once, which is no failure.
    private volatile boolean closing;

    /// Who is saying goodbye right now.
    private volatile @Nullable Thread leaving;

    /// Somebody buries, or has.
    private volatile boolean taken;

    /// Who is burying right now.
    private volatile @Nullable Thread burying;

    /// A thread of its own waits for GPUs, or for senders, to finish the burial.
    private volatile boolean waiting;

    /// The burial is over.
    private volatile boolean buried;

    Undertaker(ConnectionCore connection) {
        this.connection = connection;
        this.lock = connection.lock;
        this.lanes = connection.lanes;
        this.outbound = connection.outbound;
        this.keeper = connection.keeper;
        this.endings = connection.endings;
    }

    /// What ended the connection, or null while it is open.
    @Nullable TelpherException failure() {
        return failure;
    }

    synchronized void fail(TelpherException cause) {
        if (failure == null) {
            failure = closing ? closed() : cause;
        }
    }

    private TelpherException closed() {
        return new TelpherException.Closed(
                "the connection with " + connection.peerText() + " was closed");
    }

    /// Whether the connection is over, and nobody has begun to bury it.
    boolean hasWork() {
        return failure != null && !taken;
    }

    private synchronized boolean take() {
        if (taken) {
            return false;
        }
        burying = Thread.currentThread();
        taken = true;
        return true;
    }

    /// Closes the lanes and ends every operation of a connection that is over, also when a
    /// transport fails to close something. Without lock and tokens; the first caller does it, the
    /// others go on.
    void bury() {
        TelpherException cause = failure;
        if (cause == null || !take()) {
            return;
        }
        boolean begun = false;
        try {
            begin(cause);
            begun = true;
        } finally {
            if (!begun) {
                putBack();
            }
        }
    }

    private synchronized void putBack() {
        waiting = false;
        burying = null;
        taken = false;
    }

    private void begin(TelpherException cause) {
        for (LaneState s : lanes.all()) {
            s.dead = true;
        }
        lock.lock();
        try {
            endings.letStreamsGo();
        } finally {
            lock.unlock();
        }
        boolean closed = closeLanes();
        lock.lock();
        try {
            endings.revokeAll(cause);
        } finally {
            lock.unlock();
        }
        endings.settle();
        if (!closed || !finish(cause)) {
            waiting = true;
            burying = null;
            connection.platform.start(
                    connection.platform.thread("telpher-burial", () -> awaitCopies(cause)));
        }
    }

    /// Finishes a burial when GPUs have ended what they copy.
    private void awaitCopies(TelpherException cause) {
        burying = Thread.currentThread();
        Deadline limit = connection.platform.in(DeviceQueues.LIMIT);
        boolean late = false;
        for (int round = 0; !goOn(cause); round++) {
            if (late) {
                connection.platform.park(this, LATE_NANOS);
            } else {
                connection.platform.pause(round);
            }
            if (!late && limit.passed()) {
                late = true;
                Log.warning(
                        "the connection with %s is over for %s, and %s: their memory is kept until they end"
                                .formatted(
                                        connection.peerText(),
                                        Failures.seconds(DeviceQueues.LIMIT),
                                        connection.devices.isBusy()
                                                ? connection.devices
                                                : "messages are still being stored"),
                        null);
            }
        }
        waiting = false;
    }

    private boolean goOn(TelpherException cause) {
        try {
            boolean over = finish(cause);
            endings.settle(); // what has ended with its copies
            return over;
        } catch (Throwable e) {
            Failures.letThrough(e);
            Log.error("a connection could not be buried", e);
            return false; // the next round may have what this one lacked
        }
    }

    /// Buries what is left, unless GPUs are copying or senders storing.
    ///
    /// @return whether all is buried
    private boolean finish(TelpherException cause) {
        DeviceQueues devices = connection.devices;
        attempt(
                () -> {
                    int unused = devices.poll();
                    devices.takeUp();
                },
                "copies by devices");
        if (!closeLanes() || devices.isBusy()) {
            return false;
        }
        lock.lock();
        try {
            if (!endings.forceRevocable()) {
                return false;
            }
        } finally {
            lock.unlock();
        }
        attempt(connection.oneSided::close, "the windows");
        if (devices.isBusy()) {
            return false; // a job has begun in between
        }
        lock.lock();
        try {
            endings.forceAll();
        } finally {
            lock.unlock();
        }
        endings.settle();
        connection.endpoint().progress().remove(connection);
        connection.endpoint().forget(connection);
        Events.ended(connection, cause);
        buried = true;
        burying = null;
        connection.waiters.wake();
        return true;
    }

    /// Closes the lanes from and to whose memory no GPU copies.
    ///
    /// @return whether all are closed
    private boolean closeLanes() {
        boolean closed = true;
        for (LaneState s : lanes.all()) {
            if (!s.closed) {
                attempt(() -> keeper.close(s), s.name());
                closed &= s.closed;
            }
        }
        return closed;
    }

    private void attempt(Runnable close, String what) {
        try {
            close.run();
        } catch (Throwable e) {
            Failures.letThrough(e);
            Log.error(what + " could not be closed", e);
        }
    }

    /// Whether the calling thread is ending this connection.
    boolean isBurying() {
        return burying == Thread.currentThread();
    }

    /// Says goodbye, once, ends the connection, and waits until nothing of the caller's memory is
    /// touched any more. Without lock and tokens. Whoever closes besides waits for the first; only
    /// a callback, which runs on a thread that ends the connection itself, does not.
    void close() {
        if (failure == null) {
            keeper.confirming.all();
        }
        boolean first;
        lock.lock();
        try {
            first = !closing && failure == null;
            if (first) {
                leaving = Thread.currentThread();
                outbound.enqueue(outbound.control(Frame.GOODBYE, 0, 0, 0));
            }
            closing = true;
        } finally {
            lock.unlock();
        }
        if (first) {
            sayGoodbye();
        } else {
            awaitGoodbye();
        }
        fail(closed());
        connection.afterwards();
        awaitEnd();
    }

    /// Short: the kernel or the ring takes it, or the peer notices the end of the lanes.
    private void sayGoodbye() {
        Deadline deadline = connection.platform.in(connection.endpoint().options().drainLimit());
        int round = 0;
        try {
            do {
                connection.afterwards();
                connection.platform.pause(round++);
            } while (!deadline.passed()
                    && failure == null
                    && (lanes.isBlocked() || outbound.hasControl()));
            awaitDrained();
        } finally {
            leaving = null;
        }
    }

    /// Some lanes keep what they have taken when they are closed early, the goodbye too. On a link
    /// that works this takes some microseconds.
    private void awaitDrained() {
        Deadline deadline =
                connection.platform.in(
                        connection.endpoint().options().drainLimit().dividedBy(PART_FOR_DRAINING));
        for (int round = 0; !lanes.isDrained() && failure == null && !deadline.passed(); round++) {
            int unused = connection.turn(); // tells the lane what has been sent
            connection.platform.pause(round);
        }
    }

    /// A second closer must not cut off what the first has to say.
    private void awaitGoodbye() {
        Deadline deadline = connection.platform.in(connection.endpoint().options().drainLimit());
        int round = 0;
        Thread other;
        while ((other = leaving) != null
                && other != Thread.currentThread()
                && failure == null
                && !deadline.passed()) {
            connection.platform.pause(round++);
        }
    }

    /// Another thread may be burying, or copying, or a GPU; for that one the progress thread does
    /// not wait.
    private void awaitEnd() {
        Deadline deadline = connection.platform.in(connection.endpoint().options().drainLimit());
        Deadline copies = connection.platform.in(DeviceQueues.LIMIT);
        boolean mayWait = !connection.endpoint().progress().isCurrent();
        int round = 0;
        while (burying != Thread.currentThread()
                && !(waiting && mayWait ? copies : deadline).passed()
                && (mayWait || !waiting)) {
            lock.lock();
            try {
                if (buried && endings.allEnded()) {
                    return;
                }
            } finally {
                lock.unlock();
            }
            connection.platform.pause(round++);
        }
    }
}

package io.telpher.internal.transport.verbs;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.internal.observe.Log;
import io.telpher.spi.EndpointContext;
import java.lang.foreign.Arena;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/// The queue pairs of this side's requests over one link, one for each [NicQueue]: offers each to
/// the peer, connects it when the peer has its half, makes it anew after an error, and ends it.
///
/// Verbs run on the control executor and never under the monitor: connecting may wait for the
/// network, and whoever closes must not wait for that. So a queue pair belongs to one at a time:
/// the task that makes or connects it; `offered`, while the peer is asked; its queue; the task that
/// ends it. A task that finds everything closed ends what it has in hand, to which nothing was
/// posted. For one index there is one task at a time: an offer is followed by its answer, that by
/// an error, and that by the next offer.
final class ActivePairs {
    /// Queue pairs of a link: one for small work, one for large.
    static final int COUNT = 2;

    private static final QueuePair.Shape SHAPE =
            new QueuePair.Shape(
                    "a queue of one-sided transfers",
                    NicBatches.REQUESTS,
                    1,
                    NicBatches.INLINE,
                    VerbsMemory.IBV_ACCESS_LOCAL_WRITE,
                    true);

    private final EndpointContext endpoint;
    private final Registrations memory;
    private final Device device;
    private final Rail rail;
    private final IbSettings settings;
    private final Offer peer;
    private final ControlStream control;
    private final Consumer<String> failing;
    private final Arena arena = Arena.ofShared();

    /// Nanoseconds that a peer that runs has for an answer.
    private final long patience;

    /// Whether all queues have had a queue pair, or why there is none.
    private final CompletableFuture<Void> started = new CompletableFuture<>();

    /// Empty until [#start]; written under the monitor.
    private volatile NicQueue[] queues = {};

    // Guarded by this.
    private final @Nullable QueuePair[] offered = new QueuePair[COUNT];
    private int accepted;

    /// What the peer has answered first: its flush word stays what it is there.
    private ControlMessage.@Nullable Accepted answered;

    /// Since when the peer owes an answer to an offer, or 0.
    private volatile long unansweredSince;
    private boolean closed;

    /// Makes completions wake whoever waits for the lane.
    private IntConsumer watch = descriptor -> {};

    /// @param peer what the peer has said of its port
    /// @param failing told why the link is of no use any more: its lane ends then
    ActivePairs(
            EndpointContext endpoint,
            Registrations memory,
            Rail rail,
            IbSettings settings,
            Offer peer,
            ControlStream control,
            Consumer<String> failing) {
        this.endpoint = endpoint;
        this.memory = memory;
        this.device = memory.device();
        this.rail = rail;
        this.settings = settings;
        this.peer = peer;
        this.control = control;
        this.failing = failing;
        this.patience = endpoint.options().liveness().toNanos();
    }

    /// @return one for each index; none before [#start]
    NicQueue[] queues() {
        return queues;
    }

    /// @return done when all queues have had a queue pair
    CompletableFuture<Void> started() {
        return started;
    }

    /// @param descriptors gets the descriptors that tell of each queue pair, until [#close]
    synchronized void watch(IntConsumer descriptors) {
        watch = descriptors;
    }

    /// Makes the queues, and a queue pair for each; once. Blocks.
    void start() {
        synchronized (this) {
            if (closed || queues.length > 0) {
                return;
            }
            NicQueue[] all = new NicQueue[COUNT];
            for (int i = 0; i < COUNT; i++) {
                all[i] = new NicQueue(this, i, arena);
            }
            queues = all;
        }
        try {
            for (int i = 0; i < COUNT; i++) {
                offer(i);
            }
        } catch (Throwable e) {
            startFailed(reason(e));
        }
    }

    private void startFailed(String reason) {
        boolean unused =
                started.completeExceptionally(
                        new TelpherException.Unsupported(rail + ": " + reason));
    }

    /// Whatever a task meets, an Error or a bug too, somebody waits for the end of what it does.
    private static String reason(Throwable e) {
        if (!(e instanceof TelpherException)) {
            Log.error("a task for queue pairs failed", e);
        }
        return WindowTargets.text(e);
    }

    /// Makes a queue pair and tells the peer of it.
    private void offer(int index) {
        QueuePair fresh = new QueuePair(device, rail, settings, SHAPE);
        synchronized (this) {
            if (!closed) {
                offered[index] = fresh;
                if (unansweredSince == 0) {
                    unansweredSince = System.nanoTime();
                }
                control.send(
                        new ControlMessage.Offered(
                                index, fresh.number(), fresh.psn(), WindowTargets.reads(device)));
                return;
            }
        }
        boolean unused = fresh.close();
    }

    /// The peer has a queue pair for one of this side's, or none. Does not block: there is a task
    /// for each offer, however often it is answered.
    void accepted(ControlMessage.Accepted answer) {
        QueuePair fresh = take(answer);
        if (fresh == null) {
            return;
        }
        try {
            endpoint.control().execute(() -> connect(fresh, answer));
        } catch (Throwable e) {
            boolean unused = fresh.close();
            useless("no thread to connect a queue pair: " + reason(e));
        }
    }

    /// Connects what the peer has answered for. Blocks.
    private void connect(QueuePair fresh, ControlMessage.Accepted answer) {
        int index = answer.index();
        boolean used = false;
        try {
            if (answer.status() != ControlMessage.Status.GOOD) {
                throw new TelpherException.Unsupported("the peer says: " + answer.reason());
            }
            checkFlush(answer);
            int reads = Math.clamp(answer.reads(), 1, WindowTargets.reads(device));
            fresh.connect(peer.with(answer.number(), answer.packet()), reads);
            long flush = answer.flushAddress();
            used =
                    hand(
                            index,
                            fresh,
                            flush == 0 ? null : memory.flushWord().read(flush, answer.flushKey()));
            if (used) {
                queues[index].ready();
                count();
            }
        } catch (Throwable e) {
            useless(reason(e));
        } finally {
            if (!used) {
                boolean unused = fresh.close();
            }
        }
    }

    /// What is posted again over another queue pair names the word of the one before.
    ///
    /// @throws TelpherException.ProtocolViolation when the peer names another flush word, or none
    synchronized void checkFlush(ControlMessage.Accepted answer) {
        ControlMessage.Accepted first = answered;
        if (first == null) {
            answered = answer;
        } else if (first.flushAddress() != answer.flushAddress()
                || first.flushKey() != answer.flushKey()) {
            throw new TelpherException.ProtocolViolation(
                    "the peer names %#x (key %#x) as its flush word, and named %#x (key %#x) before"
                            .formatted(
                                    answer.flushAddress(),
                                    answer.flushKey(),
                                    first.flushAddress(),
                                    first.flushKey()));
        }
    }

    /// There is no queue pair to go on with.
    private void useless(String reason) {
        if (started.isDone() && !started.isCompletedExceptionally()) {
            failUnlessClosed(reason);
        } else {
            startFailed(reason);
        }
    }

    /// The peer's program runs: something has come from it. Then it answers offers, too, or is
    /// waited for no longer; one that is stopped, and says nothing at all, may take its time. Under
    /// the lane's poll token.
    void heard() {
        long since = unansweredSince;
        if (since != 0 && System.nanoTime() - since > patience) {
            unansweredSince = 0;
            useless("the peer runs, and did not answer the offer of a queue pair in time");
        }
    }

    /// @return the queue pair that an answer is for, or null when there is none any more
    private synchronized @Nullable QueuePair take(ControlMessage.Accepted answer) {
        QueuePair asked = offered[answer.index()];
        if (asked == null || asked.number() != answer.offered()) {
            return null;
        }
        offered[answer.index()] = null;
        boolean others = false;
        for (QueuePair each : offered) {
            others |= each != null;
        }
        unansweredSince = others ? System.nanoTime() : 0;
        return asked;
    }

    /// Gives a queue its queue pair. Under the monitor, since the lane's epoll set goes when this
    /// has been closed; what takes longer is done without, for the closer holds tokens.
    ///
    /// @return false when this was closed meanwhile: the queue pair stays the caller's
    private synchronized boolean hand(int index, QueuePair fresh, FlushWord.@Nullable Read flush) {
        if (closed) {
            return false;
        }
        watch.accept(fresh.descriptor());
        watch.accept(fresh.alarm());
        queues[index].take(fresh, flush);
        return true;
    }

    /// One more queue is ready.
    private void count() {
        boolean all;
        synchronized (this) {
            all = ++accepted == COUNT;
        }
        if (all) {
            boolean unused = started.complete(null);
        }
    }

    /// A queue's queue pair is of no use any more: has another one made. Any thread, under the
    /// queue's monitor.
    void recover(NicQueue queue) {
        try {
            endpoint.control().execute(() -> renew(queue));
        } catch (Throwable e) {
            fail("no thread to make a queue pair anew: " + reason(e));
        }
    }

    private void renew(NicQueue queue) {
        QueuePair old = queue.takeBroken();
        if (old == null) {
            return; // the lane was closed, and has ended it
        }
        try {
            if (end(old, queue)) {
                offer(queue.index());
            } else {
                failUnlessClosed("a queue pair that has failed could not be destroyed");
            }
        } catch (Throwable e) {
            failUnlessClosed(reason(e));
        }
    }

    /// Whatever is thrown, the queue hears: work waits for that.
    ///
    /// @return whether the queue pair is gone
    private static boolean end(QueuePair old, NicQueue queue) {
        boolean gone = false;
        try {
            gone = old.close();
        } finally {
            if (gone) {
                queue.ended();
            } else {
                queue.stuck();
            }
        }
        return gone;
    }

    /// The link is of no use any more: its lane ends, and the peer gives it up too. Under the
    /// monitor of a queue that is not closed.
    void fail(String reason) {
        failing.accept("one-sided transfers: " + reason);
    }

    /// The same, on a task's thread: after [#close] there is no lane that could be told.
    private synchronized void failUnlessClosed(String reason) {
        if (!closed) {
            fail(reason);
        }
    }

    /// Ends all queue pairs and then all work, but for what a task has in hand: that ends it. With
    /// the lane, once.
    void close() {
        @Nullable QueuePair[] unanswered;
        synchronized (this) {
            closed = true;
            unanswered = offered.clone();
            offered[0] = null;
            offered[1] = null;
        }
        for (NicQueue queue : queues) {
            queue.close();
        }
        for (QueuePair each : unanswered) {
            if (each != null) {
                boolean unused = each.close();
            }
        }
        arena.close();
        boolean unused =
                started.completeExceptionally(
                        new TelpherException.Closed(rail + ": the link is closed"));
    }
}

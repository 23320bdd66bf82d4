package io.telpher.internal.transport.verbs;

import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.ffi.verbs.VerbsMemory;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import io.telpher.spi.WorkQueue;
import java.lang.foreign.Arena;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/// One-sided transfers over one link: asks the peer where its regions are, and has the queue pairs
/// of this side's requests, made with the first region that is opened and made anew after an error.
/// The peer's half of each is in its [WindowTargets], as this side's are in `targets`.
///
/// Thread-safe. What blocks runs on the control executor, under `life`.
final class VerbsWindows implements Windows, WorkQueue, ControlStream.Handler {
    /// Queue pairs for each direction: one for small work, one for large.
    static final int QUEUES = 2;

    /// Inline: what is small enough that the device need not fetch it.
    private static final QueuePair.Shape SHAPE =
            new QueuePair.Shape(
                    "a queue of one-sided transfers",
                    NicQueue.REQUESTS,
                    1,
                    128,
                    VerbsMemory.IBV_ACCESS_LOCAL_WRITE);

    private final EndpointContext endpoint;
    private final Registrations memory;
    private final Rail rail;
    private final IbSettings settings;
    private final Offer peer;
    private final ControlStream control;
    private final WindowTargets targets;
    private final Consumer<String> failing;
    private final Consumer<VerbsWindows> ended;
    private final Arena arena = Arena.ofShared();
    private final AtomicLong ids = new AtomicLong();
    private final Map<Long, Asked> asked = new ConcurrentHashMap<>();

    /// A question for a region that was not answered yet.
    private record Asked(long name, CompletableFuture<Window> answer) {}

    /// By [WindowTargets#name]; guarded by itself.
    private final Map<Long, VerbsWindow> windows = new HashMap<>();

    /// Held while queue pairs are made and ended, which blocks.
    private final Object life = new Object();

    /// Empty until the first region is opened; written under `life`.
    private volatile NicQueue[] queues = {};

    /// Whether all queues have had a queue pair, or why there is none.
    private final CompletableFuture<Void> started = new CompletableFuture<>();

    // Guarded by `life`.
    private final @Nullable QueuePair[] offered = new QueuePair[QUEUES];
    private int accepted;
    private boolean closed;

    /// Why the peer could not let a region be reached, last; for people.
    private volatile String refusal = "";

    /// Makes completions wake whoever waits for the lane.
    private volatile IntConsumer watch = descriptor -> {};

    /// @param peer what the peer has said of its port
    /// @param failing told why the link is of no use any more
    /// @param ended told when these are closed
    VerbsWindows(
            EndpointContext endpoint,
            Registrations memory,
            Rail rail,
            IbSettings settings,
            Offer peer,
            ControlStream control,
            Consumer<String> failing,
            Consumer<VerbsWindows> ended) {
        this.endpoint = endpoint;
        this.memory = memory;
        this.rail = rail;
        this.settings = settings;
        this.peer = peer;
        this.control = control;
        this.failing = failing;
        this.ended = ended;
        this.targets = new WindowTargets(endpoint, memory, rail, settings, peer, control);
        control.handle(this);
    }

    WindowTargets targets() {
        return targets;
    }

    // --- windows --------------------------------------------------------------------------------

    @Override
    public Window open(RemoteMemory remote, Deadline deadline) {
        start();
        await(started, deadline, "a queue pair for " + remote);
        long id = ids.incrementAndGet();
        CompletableFuture<Window> answer = new CompletableFuture<>();
        asked.put(id, new Asked(WindowTargets.name(remote.region(), remote.generation()), answer));
        try {
            synchronized (life) {
                if (closed) {
                    throw new TelpherException.Closed(rail + ": the link is closed");
                }
            }
            control.send(
                    new ControlMessage.Resolve(
                            id, remote.region(), remote.generation(), remote.key()));
            return await(answer, deadline, "where " + remote + " is");
        } finally {
            asked.remove(id);
        }
    }

    private static <T> T await(CompletableFuture<T> future, Deadline deadline, String what) {
        try {
            return future.get(Math.max(0, deadline.left()), TimeUnit.NANOSECONDS);
        } catch (TimeoutException e) {
            throw new TelpherException.TimedOut("the peer has not said in time: " + what);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new TelpherException.Cancelled("interrupted while waiting for " + what);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof TelpherException known
                    ? known
                    : new IllegalStateException(e.getCause());
        }
    }

    @Override
    public boolean take(ControlMessage message) {
        switch (message) {
            case ControlMessage.Resolve m -> endpoint.control().execute(() -> targets.resolve(m));
            case ControlMessage.Offered m -> endpoint.control().execute(() -> targets.accept(m));
            case ControlMessage.Accepted m -> endpoint.control().execute(() -> accepted(m));
            case ControlMessage.Resolved m -> resolved(m);
            case ControlMessage.Revoked m -> revoked(m);
        }
        return true;
    }

    /// The window is listed before anything else that the peer says is looked at: a region that
    /// closes right after finds it.
    private void resolved(ControlMessage.Resolved answer) {
        Asked question = asked.get(answer.id());
        if (question == null) {
            return; // too late
        }
        CompletableFuture<Window> waiting = question.answer();
        switch (answer.status()) {
            case GOOD -> {
                long name = question.name();
                VerbsWindow window = new VerbsWindow(this, name, answer);
                synchronized (windows) {
                    windows.put(name, window);
                }
                waiting.complete(window);
            }
            case STALE ->
                    waiting.completeExceptionally(
                            new TelpherException.StaleRegion("the region was closed by its owner"));
            case DENIED ->
                    waiting.completeExceptionally(
                            new TelpherException.AccessDenied(
                                    "wrong key, or its owner allows peers nothing"));
            case FAILED -> {
                refusal = answer.reason();
                waiting.completeExceptionally(
                        new TelpherException.Unsupported(
                                rail + ": the peer says: " + answer.reason()));
            }
        }
    }

    private void revoked(ControlMessage.Revoked which) {
        VerbsWindow window;
        synchronized (windows) {
            window = windows.remove(WindowTargets.name(which.region(), which.generation()));
        }
        if (window != null) {
            window.end();
        }
    }

    /// A window is not wanted any more.
    void forget(long name, VerbsWindow window) {
        synchronized (windows) {
            windows.remove(name, window);
        }
    }

    @Override
    public WorkQueue queue() {
        return this;
    }

    @Override
    public String explain() {
        String why = refusal;
        return "verbs over %s - %s%s"
                .formatted(
                        rail,
                        Rail.text(peer.gid()),
                        why.isEmpty() ? "" : "; refused for a region: " + why);
    }

    // --- work -----------------------------------------------------------------------------------

    @Override
    public void prepare(LocalRegion region) {
        RegionKeys unused = memory.register(region);
    }

    @Override
    public boolean reaches(LocalRegion region) {
        return memory.find(region.index(), region.generation()) != null;
    }

    @Override
    public Work work(Source source) {
        NicQueue[] all = queues;
        return new NicWork(all[0], all[1], memory, source);
    }

    // --- queue pairs ----------------------------------------------------------------------------

    private void start() {
        synchronized (life) {
            if (closed || queues.length > 0) {
                return;
            }
            NicQueue[] all = new NicQueue[QUEUES];
            for (int i = 0; i < QUEUES; i++) {
                all[i] = new NicQueue(this, i, arena);
            }
            queues = all;
            try {
                for (int i = 0; i < QUEUES; i++) {
                    offer(i);
                }
            } catch (TelpherException e) {
                started.completeExceptionally(unusable(e));
            }
        }
    }

    private TelpherException unusable(TelpherException e) {
        return new TelpherException.Unsupported(rail + ": " + e.getMessage());
    }

    /// Makes a queue pair and tells the peer of it. Under `life`.
    private void offer(int index) {
        QueuePair fresh = new QueuePair(memory.device(), rail, settings, SHAPE);
        offered[index] = fresh;
        control.send(
                new ControlMessage.Offered(
                        index, fresh.number(), fresh.psn(), WindowTargets.reads(memory.device())));
    }

    /// The peer has a queue pair for one of this side's, or none.
    private void accepted(ControlMessage.Accepted answer) {
        synchronized (life) {
            QueuePair fresh = offered[answer.index()];
            if (closed || fresh == null || fresh.number() != answer.offered()) {
                return; // of another one
            }
            offered[answer.index()] = null;
            boolean used = false;
            try {
                if (answer.status() != ControlMessage.Status.GOOD) {
                    throw new TelpherException.Unsupported("the peer says: " + answer.reason());
                }
                int most = WindowTargets.reads(memory.device());
                fresh.connect(
                        peer.with(answer.number(), answer.packet()),
                        Math.clamp(answer.reads(), 1, most));
                watch.accept(fresh.descriptor());
                watch.accept(fresh.alarm());
                used = queues[answer.index()].ready(fresh);
                if (++accepted == QUEUES) {
                    started.complete(null);
                }
            } catch (TelpherException e) {
                if (started.isDone() && !started.isCompletedExceptionally()) {
                    fail(String.valueOf(e.getMessage()));
                } else {
                    started.completeExceptionally(unusable(e));
                }
            } finally {
                if (!used) {
                    boolean unused = fresh.close();
                }
            }
        }
    }

    /// A queue's queue pair is of no use any more: makes another one.
    void recover(NicQueue queue) {
        endpoint.control()
                .execute(
                        () -> {
                            synchronized (life) {
                                if (!closed) {
                                    renew(queue);
                                }
                            }
                        });
    }

    private void renew(NicQueue queue) {
        QueuePair old = queue.broken();
        if (old != null) {
            boolean unused = old.close();
        }
        queue.recovered();
        try {
            offer(queue.index());
        } catch (TelpherException e) {
            fail(String.valueOf(e.getMessage()));
        }
    }

    /// The link is of no use any more: its lane ends, and the peer gives it up too. Under `life`,
    /// or the monitor of a queue that is not closed.
    void fail(String reason) {
        failing.accept("one-sided transfers: " + reason);
    }

    // --- the lane -------------------------------------------------------------------------------

    /// @param descriptors gets the descriptor of each queue pair's completions
    void watch(IntConsumer descriptors) {
        watch = descriptors;
    }

    /// Takes completions.
    void poll() {
        for (NicQueue queue : queues) {
            boolean unused = queue.poll();
        }
    }

    /// @return false when there was something
    boolean park() {
        boolean quiet = true;
        for (NicQueue queue : queues) {
            quiet &= queue.park();
        }
        return quiet;
    }

    void unpark() {
        for (NicQueue queue : queues) {
            queue.takeEvents();
        }
    }

    /// @return nanoseconds for which the link owes the end of what was posted
    long silence() {
        long silence = 0;
        for (NicQueue queue : queues) {
            silence = Math.max(silence, queue.silence());
        }
        return silence;
    }

    /// Ends everything, both ways: nothing of this side's memory is touched over this link any
    /// more. With the lane, which the engine closes first; harmless when it was done.
    @Override
    public void close() {
        synchronized (life) {
            if (closed) {
                return;
            }
            closed = true;
            targets.close();
            for (NicQueue queue : queues) {
                queue.close();
            }
            for (int i = 0; i < QUEUES; i++) {
                QueuePair fresh = offered[i];
                if (fresh != null) {
                    offered[i] = null;
                    boolean unused = fresh.close();
                }
            }
            arena.close();
        }
        ended.accept(this);
        TelpherException over = new TelpherException.Closed(rail + ": the link is closed");
        boolean unused = started.completeExceptionally(over);
        asked.values().forEach(question -> question.answer().completeExceptionally(over));
        synchronized (windows) {
            windows.values().forEach(VerbsWindow::end);
            windows.clear();
        }
    }

    @Override
    public String toString() {
        return "windows over " + rail;
    }
}

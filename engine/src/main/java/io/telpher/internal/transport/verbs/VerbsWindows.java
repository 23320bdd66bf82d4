package io.telpher.internal.transport.verbs;

import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.spi.Deadline;
import io.telpher.spi.EndpointContext;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import io.telpher.spi.WorkQueue;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.IntConsumer;

/// One-sided transfers over one link: asks the peer where its regions are, and has the queues of
/// this side's requests, made with the first region that is opened. The peer's half of each queue
/// pair is in its [WindowTargets], as this side's are in `targets`.
///
/// Thread-safe. What blocks runs on the control executor.
final class VerbsWindows implements Windows, WorkQueue, ControlStream.Handler {
    private final EndpointContext endpoint;
    private final Registrations memory;
    private final Rail rail;
    private final Offer peer;
    private final ControlStream control;
    private final WindowTargets targets;
    private final ActivePairs pairs;
    private final Consumer<VerbsWindows> ended;
    private final RegionQuestions questions;

    /// By [WindowTargets#name]; guarded by itself.
    private final Map<Long, VerbsWindow> windows = new HashMap<>();

    /// Why the peer could not let a region be reached, last; for people.
    private volatile String refusal = "";

    /// Guarded by this.
    private boolean closed;

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
        this.peer = peer;
        this.control = control;
        this.ended = ended;
        this.targets = new WindowTargets(endpoint, memory, rail, settings, peer, control);
        this.pairs = new ActivePairs(endpoint, memory, rail, settings, peer, control, failing);
        this.questions = new RegionQuestions(control, this::opened);
        control.handle(this);
    }

    WindowTargets targets() {
        return targets;
    }

    // --- windows --------------------------------------------------------------------------------

    @Override
    public CompletableFuture<Window> open(RemoteMemory remote, Deadline deadline) {
        pairs.start();
        return pairs.started().thenCompose(unused -> questions.ask(remote));
    }

    @Override
    public boolean take(ControlMessage message) {
        return switch (message) {
            case ControlMessage.Resolve m -> asked(() -> targets.resolve(m));
            case ControlMessage.Offered m -> asked(() -> targets.accept(m));
            case ControlMessage.Accepted m -> accepted(m);
            case ControlMessage.Resolved m -> questions.answered(m);
            case ControlMessage.Revoked m -> revoked(m);
        };
    }

    /// The peer asks for something that may block.
    ///
    /// @return false when it has asked for more than it may while it waits for answers
    private boolean asked(Runnable task) {
        boolean mayAsk = control.owe();
        if (mayAsk) {
            endpoint.control().execute(task);
        }
        return mayAsk;
    }

    private boolean accepted(ControlMessage.Accepted answer) {
        pairs.accepted(answer);
        return true;
    }

    /// The window is listed before anything else that the peer says is looked at: a region that
    /// closes right after finds it.
    private Window opened(long name, ControlMessage.Resolved answer) {
        return switch (answer.status()) {
            case GOOD -> {
                VerbsWindow window = new VerbsWindow(this, name, answer);
                synchronized (windows) {
                    windows.put(name, window);
                }
                yield window;
            }
            case STALE ->
                    throw new TelpherException.StaleRegion("the region was closed by its owner");
            case DENIED ->
                    throw new TelpherException.AccessDenied(
                            "wrong key, or its owner allows peers nothing");
            case FAILED -> {
                refusal = answer.reason();
                throw new TelpherException.Unsupported(
                        rail + ": the peer says: " + answer.reason());
            }
        };
    }

    private boolean revoked(ControlMessage.Revoked which) {
        VerbsWindow window;
        synchronized (windows) {
            window = windows.remove(WindowTargets.name(which.region(), which.generation()));
        }
        if (window != null) {
            window.end();
        }
        return true;
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
        NicQueue[] all = pairs.queues();
        return new NicWork(all[0], all[1], memory, source);
    }

    // --- the lane -------------------------------------------------------------------------------

    /// @param descriptors gets the descriptor of each queue pair's completions
    void watch(IntConsumer descriptors) {
        pairs.watch(descriptors);
    }

    /// Frames have come over the lane.
    void heard() {
        pairs.heard();
    }

    /// Takes completions.
    void poll() {
        for (NicQueue queue : pairs.queues()) {
            boolean unused = queue.poll();
        }
    }

    /// @return false when there was something
    boolean park() {
        boolean quiet = true;
        for (NicQueue queue : pairs.queues()) {
            quiet &= queue.park();
        }
        return quiet;
    }

    void unpark() {
        for (NicQueue queue : pairs.queues()) {
            queue.takeEvents();
        }
    }

    /// @return nanoseconds for which the link owes the end of what was posted
    long silence() {
        long silence = 0;
        for (NicQueue queue : pairs.queues()) {
            silence = Math.max(silence, queue.silence());
        }
        return silence;
    }

    /// Ends everything, both ways. With the lane, which the engine closes first; harmless when it
    /// was done.
    ///
    /// @throws TelpherException.Unsupported when a queue pair could not be destroyed: what
    ///     the peer sends may still arrive
    @Override
    public void close() {
        synchronized (this) {
            if (closed) {
                return;
            }
            closed = true;
        }
        boolean quiet = targets.close();
        pairs.close();
        ended.accept(this);
        TelpherException over = new TelpherException.Closed(rail + ": the link is closed");
        questions.close(over);
        synchronized (windows) {
            windows.values().forEach(VerbsWindow::end);
            windows.clear();
        }
        if (!quiet) {
            throw new TelpherException.Unsupported(
                    "%s: a queue pair could not be destroyed: what %s writes may still arrive"
                            .formatted(rail, Rail.text(peer.gid())));
        }
    }

    @Override
    public String toString() {
        return "windows over " + rail;
    }
}

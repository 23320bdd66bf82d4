package io.telpher.internal.engine;

import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Deadline;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.jspecify.annotations.Nullable;

/// Opens windows to regions of the peer for [Direct], and has [DeviceReach] make devices ready.
/// What blocks runs on the control executor; no thread is kept while the peer is asked, or while
/// another one opens the same window. Thread-safe.
final class WindowOpening {
    /// So long an operation waits for the peer to say where its memory is. Then it goes by frames;
    /// the question stays, and later operations have what comes of it.
    private static final long PATIENCE = 2_000_000_000;

    private static final CompletableFuture<Void> OVER = CompletableFuture.completedFuture(null);

    /// An operation that waits for windows.
    ///
    /// @param all done when each is open, or cannot be opened, or at `until`
    /// @param until nanoseconds of the clock
    private record Waiting(CompletableFuture<Void> all, long until) {}

    private final ConnectionCore connection;
    private final Windows windows;
    private final Direct direct;
    private final Queue<Waiting> waits = new ConcurrentLinkedQueue<>();

    WindowOpening(ConnectionCore connection, Windows windows, Direct direct) {
        this.connection = connection;
        this.windows = windows;
        this.direct = direct;
    }

    /// @return what opens every window that an operation needs, and has it called back then, on the
    ///     control executor; it blocks, and does not look at the operation any more
    Runnable of(Operation op, Runnable then) {
        OperationRegions regions = op.regions.of(op);
        RemoteMemory[] there = regions.allRemotes();
        RegionImpl[] here = regions.locals();
        Device own = regions.device();
        boolean several = regions.onSeveral();
        Operation.Kind kind = op.kind;
        CounterUpdate counter = op.counter;
        Deadline deadline = new Deadline(connection.platform, op.deadline());
        Runnable opened =
                () -> {
                    try {
                        QueuedCopies queued = direct.queued;
                        if (queued != null) {
                            queued.prepare(here);
                        } else {
                            direct.reach.prepare(kind, own, several, here, there);
                        }
                    } catch (Throwable e) {
                        Failures.letThrough(e);
                        Log.error("memory could not be made ready for copies; by frames", e);
                    }
                    then.run(); // whatever happened: the operation waits for nothing else
                };
        return () -> {
            List<CompletableFuture<Void>> each = new ArrayList<>();
            for (RemoteMemory memory : there) {
                each.add(open(memory, deadline));
            }
            if (counter != null) {
                each.add(open(counter.memory(), deadline));
            }
            await(CompletableFuture.allOf(each.toArray(CompletableFuture<?>[]::new)), opened);
        };
    }

    private void await(CompletableFuture<Void> all, Runnable then) {
        if (all.isDone()) {
            then.run();
            return;
        }
        Waiting wait = new Waiting(all, connection.platform.nanoTime() + PATIENCE);
        waits.add(wait);
        CompletableFuture<Void> unused =
                all.thenRun(
                        () -> {
                            waits.remove(wait);
                            connection.endpoint().control().execute(then);
                        });
    }

    /// Lets those go on that have waited too long. Without the lock.
    void tick(long now) {
        for (Waiting wait : waits) {
            if (now - wait.until >= 0 && wait.all.complete(null)) {
                connection.note(
                        "one-sided: the peer did not say in %s where a region is; by frames until it does"
                                .formatted(Failures.seconds(Duration.ofNanos(PATIENCE))));
            }
        }
    }

    /// @return done when the window is open, or cannot be opened
    private CompletableFuture<Void> open(RemoteMemory memory, Deadline deadline) {
        PeerRegion slot = place(memory);
        if (slot == null) {
            return OVER;
        }
        CompletableFuture<Void> mine = new CompletableFuture<>();
        CompletableFuture<Void> others = slot.opening.compareAndExchange(null, mine);
        if (others != null) {
            return others;
        }
        if (slot.window != null || slot.refusal != null) {
            over(slot, mine);
            return OVER;
        }
        CompletableFuture<Window> opening;
        try {
            opening = windows.open(memory, deadline);
        } catch (Throwable e) {
            Failures.letThrough(e);
            opening = CompletableFuture.failedFuture(e);
        }
        CompletableFuture<Window> unused =
                opening.whenComplete(
                        (opened, failure) -> {
                            try {
                                if (opened != null) {
                                    use(slot, memory, opened);
                                } else {
                                    refuse(slot, memory, failure);
                                }
                            } finally {
                                over(slot, mine);
                            }
                        });
        return mine;
    }

    private static void over(PeerRegion slot, CompletableFuture<Void> opening) {
        slot.opening.set(null);
        boolean first = opening.complete(null);
        assert first;
    }

    private void use(PeerRegion slot, RemoteMemory memory, Window opened) {
        slot.onDevice = opened.device() != null;
        slot.window = opened;
        if (direct.slot(memory) != slot) {
            slot.giveBack(); // another life of the region has its place: nobody finds it
        } else {
            Events.chosen(connection, opened.path() + " to " + name(memory));
        }
    }

    private void refuse(PeerRegion slot, RemoteMemory memory, Throwable failure) {
        Throwable inner = failure instanceof CompletionException e ? e.getCause() : null;
        Throwable why = inner == null ? failure : inner;
        switch (why) {
            case TelpherException.TimedOut ignored -> {} // the next operation tries again
            case TelpherException.Cancelled ignored -> {}
            case TelpherException e -> {
                slot.refusal = e;
                Events.rejected(connection, "window to " + name(memory) + ": " + e.getMessage());
            }
            default ->
                    slot.refusal =
                            new TelpherException.Unsupported("cannot open " + memory + ": " + why);
        }
    }

    /// Finds the slot of a region, or makes one. The window of another life of its index is looked
    /// at and given back without the monitor, which those who only count must not wait for.
    ///
    /// @return null for an old or a wrong descriptor: its owner refuses it
    private @Nullable PeerRegion place(RemoteMemory memory) {
        int index = memory.region();
        if (index >= RegionTable.CAPACITY) {
            return null;
        }
        while (true) {
            PeerRegion found = direct.slot(memory);
            if (found != null) {
                return found;
            }
            PeerRegion old = direct.at(index);
            if (old != null && old.isAlive()) {
                return null;
            }
            PeerRegion slot = new PeerRegion(memory.generation(), memory.key());
            if (!direct.replace(index, old, slot)) {
                continue; // another thread was faster
            }
            if (old != null) {
                old.giveBack(); // or else whoever is opening it does
            }
            return slot;
        }
    }

    private static String name(RemoteMemory memory) {
        return "region %d.%d".formatted(memory.region(), memory.generation());
    }
}

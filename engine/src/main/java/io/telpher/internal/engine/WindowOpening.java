package io.telpher.internal.engine;

import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Deadline;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
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
    /// So long operations wait for the peer to say where its memory is, counted from when it was
    /// asked, and each for half of its time at most. Then they go by frames; the question stays,
    /// and later operations have what comes of it.
    private static final long PATIENCE = 2_000_000_000;

    /// A window that is being opened.
    ///
    /// @param end done when it is open, or cannot be opened
    /// @param since nanoseconds of the clock
    record Opening(CompletableFuture<Void> end, long since) {}

    /// An operation that waits for windows.
    ///
    /// @param all done when each is open, or cannot be opened, or at `until`
    /// @param until nanoseconds of the clock
    /// @param meanwhile how what needs the windows goes without
    private record Waiting(CompletableFuture<Void> all, long until, String meanwhile) {}

    private final ConnectionCore connection;
    private final Windows windows;
    private final Direct direct;
    private final Queue<Waiting> waits = new ConcurrentLinkedQueue<>();

    WindowOpening(ConnectionCore connection, Windows windows, Direct direct) {
        this.connection = connection;
        this.windows = windows;
        this.direct = direct;
    }

    /// @param meanwhile how it goes without them, for people
    /// @return what opens every window that an operation needs, and has it called back then, on the
    ///     control executor; it blocks, and does not look at the operation any more
    Runnable of(Operation op, String meanwhile, Runnable then) {
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
            List<Opening> under = new ArrayList<>();
            for (RemoteMemory memory : there) {
                open(memory, deadline, under);
            }
            if (counter != null) {
                open(counter.memory(), deadline, under);
            }
            await(under, deadline, meanwhile, opened);
        };
    }

    private void await(List<Opening> under, Deadline deadline, String meanwhile, Runnable then) {
        long now = connection.platform.nanoTime();
        long patience = deadline.left() / 2;
        for (Opening each : under) {
            patience = Math.min(patience, each.since + PATIENCE - now);
        }
        CompletableFuture<Void> all =
                CompletableFuture.allOf(
                        under.stream().map(Opening::end).toArray(CompletableFuture<?>[]::new));
        if (all.isDone() || patience <= 0) {
            then.run();
            return;
        }
        Waiting wait = new Waiting(all, now + patience, meanwhile);
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
                        "one-sided: the peer did not say in time where a region is; "
                                + wait.meanwhile
                                + " until it does");
            }
        }
    }

    /// Opens a window, unless it is open or cannot be opened.
    ///
    /// @param under gets what is under way then
    private void open(RemoteMemory memory, Deadline deadline, List<Opening> under) {
        PeerRegion slot = place(memory);
        if (slot == null) {
            return;
        }
        Opening mine = new Opening(new CompletableFuture<>(), connection.platform.nanoTime());
        Opening others = slot.opening.compareAndExchange(null, mine);
        if (others != null) {
            under.add(others);
            return;
        }
        if (slot.window != null || slot.refusal != null) {
            over(slot, mine);
            return;
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
        under.add(mine);
    }

    private static void over(PeerRegion slot, Opening opening) {
        slot.opening.set(null);
        boolean first = opening.end.complete(null);
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

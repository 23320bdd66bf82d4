package io.telpher.internal.engine;

import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.Runtimes;
import io.telpher.spi.Deadline;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/// Opens windows to regions of the peer for [Direct], and makes devices able to copy through them.
/// Blocks, on the control executor; thread-safe.
final class WindowOpening {
    private final ConnectionCore connection;
    private final Windows windows;
    private final Direct direct;

    WindowOpening(ConnectionCore connection, Windows windows, Direct direct) {
        this.connection = connection;
        this.windows = windows;
        this.direct = direct;
    }

    /// @return what opens every window that an operation needs, and then calls back; it blocks, and
    ///     does not look at the operation any more
    Runnable of(Operation op, Runnable then) {
        OperationRegions regions = op.regions.of(op);
        RemoteMemory[] there = regions.allRemotes();
        RegionImpl[] here = regions.locals();
        Device own = regions.device();
        boolean several = regions.onSeveral();
        Operation.Kind kind = op.kind;
        CounterUpdate counter = op.counter;
        Deadline deadline = new Deadline(connection.platform, op.deadline());
        return () -> {
            for (RemoteMemory memory : there) {
                open(memory, deadline);
            }
            if (counter != null) {
                open(counter.memory(), deadline);
            }
            QueuedCopies queued = direct.queued;
            Device by =
                    queued != null
                            ? null
                            : direct.devices.choose(kind, own, several, there, there.length);
            if (queued != null) {
                queued.prepare(here);
            } else if (by != null) {
                prepare(by, here, there);
            }
            then.run();
        };
    }

    /// Makes a device able to reach both sides. What it cannot reach goes by frames.
    private void prepare(Device by, RegionImpl[] here, RemoteMemory[] there) {
        for (RemoteMemory memory : there) {
            PeerRegion slot = direct.slot(memory);
            if (slot != null) {
                prepare(slot, by);
            }
        }
        for (RegionImpl region : here) {
            prepare(region, by);
        }
    }

    private void prepare(PeerRegion slot, Device by) {
        Window window = slot.window;
        if (window == null || slot.refusing.contains(by)) {
            return;
        }
        Device of = window.device();
        try {
            if (of == null || isTried(slot, window.path(), by, of)) {
                window.prepare(by);
                Events.chosen(connection, window.path() + " by " + by);
            }
        } catch (TelpherException e) {
            slot.refusing.add(by);
            connection.refused(
                    by, "path %s by %s: %s".formatted(window.path(), by, e.getMessage()));
        }
    }

    /// Whether two devices have been seen to copy as they should. While that is being found out
    /// bytes go by frames.
    private boolean isTried(PeerRegion slot, String path, Device by, Device of) {
        Gpu gpu = Runtimes.open(by);
        if (gpu.unreachable(of) != null) {
            return true; // which is told when it is prepared
        }
        CompletableFuture<Gpu.Trial> trial = gpu.tried(of);
        if (trial.isDone()) {
            return tried(slot, path, by, trial.join());
        }
        slot.refusing.add(by);
        connection.note(
                "path %s: a child process tries %s with %s; by frames until it has, the log says what keeps it"
                        .formatted(path, by, of));
        CompletableFuture<Void> unused =
                trial.thenAccept(
                        found -> {
                            if (tried(slot, path, by, found)) {
                                slot.refusing.remove(by); // the next operation prepares it
                            }
                        });
        return false;
    }

    private boolean tried(PeerRegion slot, String path, Device by, Gpu.Trial found) {
        if (!found.good()) {
            slot.refusing.add(by);
            connection.refused(
                    by,
                    "path %s by %s: a trial has shown that it does not work: %s"
                            .formatted(path, by, found.reason()));
        } else if (!found.reason().isEmpty()) {
            connection.note("path %s by %s is not tried: %s".formatted(path, by, found.reason()));
        }
        return found.good();
    }

    private void prepare(RegionImpl region, Device by) {
        if (!region.enter()) {
            return;
        }
        try {
            region.prepare(by);
        } catch (TelpherException e) {
            region.refuse(by);
            connection.refused(by, "%s by %s: %s".formatted(region, by, e.getMessage()));
        } finally {
            region.exit();
        }
    }

    private void open(RemoteMemory memory, Deadline deadline) {
        PeerRegion slot = place(memory);
        if (slot == null) {
            return;
        }
        for (int round = 0; !slot.opening.compareAndSet(false, true); round++) {
            if (deadline.passed()) {
                return;
            }
            connection.platform.pause(round);
        }
        try {
            if (slot.window == null && slot.refusal == null) {
                open(slot, memory, deadline);
            }
        } finally {
            slot.opening.set(false);
        }
    }

    private void open(PeerRegion slot, RemoteMemory memory, Deadline deadline) {
        try {
            Window opened = windows.open(memory, deadline);
            slot.onDevice = opened.device() != null;
            slot.window = opened;
            if (direct.slot(memory) != slot) {
                slot.giveBack(); // another life of the region has its place: nobody finds it
                return;
            }
            Events.chosen(connection, opened.path() + " to " + name(memory));
        } catch (TelpherException.TimedOut | TelpherException.Cancelled e) {
            return; // the operation ends by its own deadline; the next one tries again
        } catch (TelpherException e) {
            slot.refusal = e;
            Events.rejected(connection, "window to " + name(memory) + ": " + e.getMessage());
        } catch (Throwable e) {
            Failures.letThrough(e);
            slot.refusal = new TelpherException.Unsupported("cannot open " + memory + ": " + e);
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

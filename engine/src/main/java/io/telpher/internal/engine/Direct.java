package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.internal.device.Runtimes;
import io.telpher.spi.Deadline;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;

/// Transfers that this side carries out by itself, through windows into the peer's memory. The
/// thread that posts a transfer copies; only opening a window, once per region, goes to the control
/// executor.
final class Direct {
    /// Result: no window can be had for this memory, frames have to do.
    static final int NO_WINDOW = -100;

    /// Result: the window has to be opened first.
    static final int NOT_OPEN = -101;

    /// Result: only a device can copy this.
    static final int BY_DEVICE = -103;

    /// Copies up to this size are made without looking at deadlines.
    static final long SHORT = 256 * 1024;

    private static final Window.Guard ALWAYS = () -> true;

    /// What is known of one life of one region of the peer.
    private static final class Slot {
        final int generation;
        final long key;
        volatile @Nullable Window window;
        volatile @Nullable TelpherException refusal;

        /// It is a device's memory: only devices copy.
        boolean onDevice;

        /// Devices of this side that cannot reach it.
        final Set<Device> refusing = ConcurrentHashMap.newKeySet();

        /// A thread is opening the window. No monitor: others wait for it no longer than they may,
        /// and in a simulation as well.
        private final AtomicBoolean opening = new AtomicBoolean();

        /// Whether the window was given back: its owner has closed the region.
        private final AtomicBoolean over = new AtomicBoolean();

        /// What short copies have done by themselves. Plain numbers in the object that the copy
        /// has just looked at, since anything more is felt in a copy of 8 bytes: racing threads
        /// lose a few, and the fences of the windows make them seen.
        private long done;

        private long written;
        private long read;

        Slot(int generation, long key) {
            this.generation = generation;
            this.key = key;
        }

        void count(Operation.Kind kind, long transfers, long bytes) {
            done += transfers;
            if (kind == Operation.Kind.READ) {
                read += bytes;
            } else {
                written += bytes;
            }
        }

        void count(Tally into) {
            Window open = window;
            if (open != null) {
                Tally.OfPath path = into.of(open.path());
                path.done += done;
                path.written += written;
                path.read += read;
            }
        }

        boolean isHeldInVain() {
            return window != null && !over.get() && !isAlive();
        }

        /// Gives the window back, once, whoever asks for it.
        void giveBack() {
            Window open = window;
            if (open != null && over.compareAndSet(false, true)) {
                open.close();
            }
        }

        /// Whether its owner still has the region open.
        boolean isAlive() {
            Window open = window;
            int ticket = open == null ? Window.STALE : open.enter();
            if (open == null || ticket < 0) {
                return false;
            }
            open.exit(ticket);
            return true;
        }
    }

    private final Windows windows;
    private final ConnectionCore connection;

    /// What GPUs copy.
    final DeviceCopies devices;

    private volatile @Nullable Slot[] slots = new Slot[16];

    /// What slots have counted that others stand in the place of; guarded by `this`.
    private final Tally replaced = new Tally();

    Direct(Windows windows, ConnectionCore connection) {
        this.windows = windows;
        this.connection = connection;
        this.devices = new DeviceCopies(connection, this);
    }

    /// Adds what short copies have done.
    synchronized void count(Tally into) {
        into.add(replaced);
        for (Slot slot : slots) {
            if (slot != null) {
                slot.count(into);
            }
        }
    }

    /// A short copy did not count after all.
    void uncount(Operation.Kind kind, RemoteMemory remote, long length) {
        Slot slot = slot(remote);
        if (slot != null) {
            slot.count(kind, -1, -length);
        }
    }

    String explain() {
        return windows.explain();
    }

    private @Nullable Slot slot(RemoteMemory memory) {
        @Nullable Slot[] all = slots;
        int index = memory.region();
        if (index >= all.length) {
            return null;
        }
        Slot slot = all[index];
        return slot != null && slot.generation == memory.generation() && slot.key == memory.key()
                ? slot
                : null;
    }

    /// @return 0 when the window is open, or why not
    private int ready(RemoteMemory memory) {
        Slot slot = slot(memory);
        if (slot == null) {
            return NOT_OPEN;
        }
        if (slot.window != null) {
            return 0;
        }
        TelpherException refusal = slot.refusal;
        if (refusal == null) {
            return NOT_OPEN;
        }
        // For want of anything else, frames still do it, and the owner says what is wrong.
        return switch (refusal) {
            case TelpherException.StaleRegion ignored -> Connection.STALE;
            case TelpherException.AccessDenied ignored -> Connection.DENIED;
            default -> NO_WINDOW;
        };
    }

    /// Why a window was missed. It may have been opened since: then the next try finds it.
    private int whyNot(RemoteMemory memory) {
        int reason = ready(memory);
        return reason == 0 ? NOT_OPEN : reason;
    }

    /// @return the name of the path to a peer's region, or null while it is not known
    @Nullable String path(RemoteMemory memory) {
        Slot slot = slot(memory);
        Window window = slot == null ? null : slot.window;
        return window == null ? null : window.path();
    }

    /// Copies one range.
    ///
    /// @return `DONE` or a reason, [#NO_WINDOW], [#NOT_OPEN]
    private int copy(
            Slot slot,
            Operation.Kind kind,
            RegionImpl local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length,
            Window.Guard guard) {
        Window window = slot.window;
        if (window == null) {
            return whyNot(remote);
        }
        if (slot.onDevice || !local.isHost()) {
            return BY_DEVICE;
        }
        int ticket = window.enter();
        if (ticket < 0) {
            return reason(ticket);
        }
        try {
            return move(
                    kind,
                    window,
                    ticket,
                    local.segment(),
                    localOffset,
                    remote.offset() + remoteOffset,
                    length,
                    guard);
        } catch (IllegalStateException e) {
            return Connection.STALE; // the caller closed the arena under its region
        } finally {
            window.exit(ticket);
        }
    }

    /// Copies all of a range. A copy that stops early is tried again with the rest, which names the
    /// reason.
    private static int move(
            Operation.Kind kind,
            Window window,
            int ticket,
            MemorySegment local,
            long at,
            long offset,
            long length,
            Window.Guard guard) {
        long done = 0;
        while (true) {
            long left = length - done;
            long n =
                    kind == Operation.Kind.READ
                            ? window.read(ticket, local, at + done, offset + done, left, guard)
                            : window.write(ticket, local, at + done, offset + done, left, guard);
            if (n == left) {
                return Connection.DONE;
            }
            if (n < 0) {
                return reason((int) n);
            }
            if (!guard.goOn()) {
                return Connection.TIMED_OUT;
            }
            if (n == 0) {
                return Connection.FAILED;
            }
            done += n;
        }
    }

    /// A short copy of one range, and counts it.
    ///
    /// @return `DONE` or a reason, [#NO_WINDOW], [#NOT_OPEN]
    int copy(
            Operation.Kind kind,
            RegionImpl local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length) {
        Slot slot = slot(remote);
        if (slot == null) {
            return whyNot(remote);
        }
        int result = copy(slot, kind, local, localOffset, remote, remoteOffset, length, ALWAYS);
        if (result == Connection.DONE) {
            slot.count(kind, 1, length);
        }
        return result;
    }

    static int reason(int status) {
        return switch (status) {
            case Window.STALE -> Connection.STALE;
            case Window.LOST -> Connection.PEER_LOST;
            case Window.DENIED -> Connection.DENIED;
            case Window.STOPPED -> Connection.TIMED_OUT;
            default -> Connection.FAILED;
        };
    }

    /// Carries out an operation with pieces or of any length, or has a device do it.
    ///
    /// @return as [#copy]; [DeviceCopies#LAUNCHED]
    int run(Operation op) {
        MemorySlices local = op.localPieces;
        RemoteSlices remote = op.remotePieces;
        RemoteMemory only = op.remote;
        RegionImpl region = op.region;
        if (local == null && remote == null && only != null && region != null) {
            Slot slot = slot(only);
            int result =
                    slot == null
                            ? whyNot(only)
                            : copy(
                                    slot,
                                    op.kind,
                                    region,
                                    op.localOffset,
                                    only,
                                    op.remoteOffset,
                                    op.length,
                                    op);
            return result == BY_DEVICE ? runByDevice(op) : result;
        }
        int result = allReady(op);
        if (result != 0) {
            return result;
        }
        return needsDevice(op) ? runByDevice(op) : runPieces(op);
    }

    /// Has a device carry out the next part of an operation.
    ///
    /// @return [DeviceCopies#LAUNCHED], or as [#copy]
    int runByDevice(Operation op) {
        Device by = devices.by(op);
        return by == null ? NO_WINDOW : devices.launch(op, by);
    }

    /// Whether some memory of an operation is a device's. Its windows are open.
    private boolean needsDevice(Operation op) {
        MemorySlices local = op.localPieces;
        RegionImpl region = op.region;
        if (local == null) {
            if (region != null && !region.isHost()) {
                return true;
            }
        } else {
            for (int i = 0; i < (local.isStrided() ? 1 : local.count()); i++) {
                if (!((RegionImpl) local.region(i)).isHost()) {
                    return true;
                }
            }
        }
        RemoteSlices remote = op.remotePieces;
        int targets = remote == null ? 1 : remote.isStrided() ? 1 : remote.count();
        RemoteMemory before = null;
        for (int i = 0; i < targets; i++) {
            RemoteMemory memory = remote == null ? op.remote : remote.memory(i);
            if (memory != null && (before == null || !sameRegion(before, memory))) {
                Slot slot = slot(memory);
                if (slot != null && slot.onDevice) {
                    return true;
                }
                before = memory;
            }
        }
        return false;
    }

    /// Whether a device of this side cannot reach a peer's region.
    boolean refuses(RemoteMemory memory, Device by) {
        Slot slot = slot(memory);
        return slot != null && slot.refusing.contains(by);
    }

    /// Whether windows are there for everything that an operation names.
    private int allReady(Operation op) {
        RemoteSlices remote = op.remotePieces;
        if (remote == null) {
            RemoteMemory only = op.remote;
            return only == null ? NO_WINDOW : ready(only);
        }
        RemoteMemory before = null;
        for (int i = 0; i < (remote.isStrided() ? 1 : remote.count()); i++) {
            RemoteMemory memory = remote.memory(i);
            if (before == null || !sameRegion(before, memory)) {
                int result = ready(memory);
                if (result != 0) {
                    return result;
                }
                before = memory;
            }
        }
        return 0;
    }

    static boolean sameRegion(RemoteMemory a, RemoteMemory b) {
        return a.region() == b.region() && a.generation() == b.generation();
    }

    private int runPieces(Operation op) {
        PieceWalk walk = new PieceWalk();
        walk.start(op, 0, op.length);
        Window window = null;
        RemoteMemory entered = null;
        int ticket = -1;
        int copies = 0;
        try {
            while (walk.next()) {
                RemoteMemory memory = walk.memory;
                RegionImpl region = walk.region;
                if (memory == null || region == null) {
                    return Connection.FAILED;
                }
                if (entered == null || (memory != entered && !sameRegion(entered, memory))) {
                    if (window != null) {
                        window.exit(ticket);
                        window = null;
                    }
                    Window next = window(memory);
                    if (next == null) {
                        return Connection.STALE;
                    }
                    ticket = next.enter();
                    if (ticket < 0) {
                        return reason(ticket);
                    }
                    window = next;
                    entered = memory;
                }
                if (window == null || ((++copies & 1023) == 0 && !op.goOn())) {
                    return Connection.TIMED_OUT;
                }
                int result =
                        move(
                                op.kind,
                                window,
                                ticket,
                                region.segment(),
                                walk.localOffset,
                                walk.remoteOffset,
                                walk.bytes,
                                op);
                if (result != Connection.DONE) {
                    return result;
                }
            }
            return Connection.DONE;
        } catch (IllegalStateException e) {
            return Connection.STALE;
        } finally {
            if (window != null) {
                window.exit(ticket);
            }
        }
    }

    /// @return the open window to a peer's region, or null
    @Nullable Window window(RemoteMemory memory) {
        Slot slot = slot(memory);
        return slot == null ? null : slot.window;
    }

    /// Changes a counter of the peer.
    ///
    /// @return `DONE` or a reason, [#NO_WINDOW] when a frame has to do it, [#NOT_OPEN]
    int update(CounterUpdate counter) {
        RemoteMemory memory = counter.memory();
        Slot slot = slot(memory);
        Window window = slot == null ? null : slot.window;
        if (window == null) {
            return whyNot(memory);
        }
        if (!window.updatesCounters()) {
            return NO_WINDOW;
        }
        int ticket = window.enter();
        if (ticket < 0) {
            return reason(ticket);
        }
        try {
            int result = window.update(ticket, memory.offset(), counter.kind(), counter.value());
            return result == 0 ? Connection.DONE : reason(result);
        } finally {
            window.exit(ticket);
        }
    }

    /// @return what opens every window that an operation needs, and then calls back; it blocks, and
    ///     does not look at the operation any more
    Runnable opening(Operation op, Runnable then) {
        RemoteSlices remote = op.remotePieces;
        RemoteMemory only = op.remote;
        CounterUpdate counter = op.counter;
        Deadline deadline = new Deadline(connection.platform, op.deadline());
        Set<RegionImpl> here = localRegions(op);
        return () -> {
            if (only != null) {
                open(only, deadline);
            }
            if (remote != null) {
                for (int i = 0; i < (remote.isStrided() ? 1 : remote.count()); i++) {
                    open(remote.memory(i), deadline);
                }
            }
            if (counter != null) {
                open(counter.memory(), deadline);
            }
            prepare(here, only, remote);
            then.run();
        };
    }

    private static Set<RegionImpl> localRegions(Operation op) {
        Set<RegionImpl> regions = new HashSet<>();
        MemorySlices pieces = op.localPieces;
        if (pieces == null) {
            RegionImpl region = op.region;
            if (region != null) {
                regions.add(region);
            }
        } else {
            for (int i = 0; i < (pieces.isStrided() ? 1 : pieces.count()); i++) {
                regions.add((RegionImpl) pieces.region(i));
            }
        }
        return regions;
    }

    /// Makes the device that is to copy able to reach both sides. What it cannot reach goes by
    /// frames.
    private void prepare(
            Set<RegionImpl> here, @Nullable RemoteMemory only, @Nullable RemoteSlices remote) {
        Set<Slot> there = new LinkedHashSet<>();
        int targets = remote == null ? 1 : remote.isStrided() ? 1 : remote.count();
        for (int i = 0; i < targets; i++) {
            RemoteMemory memory = remote == null ? only : remote.memory(i);
            Slot slot = memory == null ? null : slot(memory);
            if (slot != null && slot.window != null) {
                there.add(slot);
            }
        }
        Device by = null;
        for (RegionImpl region : here) {
            DeviceMemory memory = region.deviceMemory();
            by = memory == null ? by : memory.device();
        }
        for (Slot slot : there) {
            Window window = slot.window;
            Device of = window == null ? null : window.device();
            by = by == null && of != null ? Runtimes.copierFor(of) : by;
        }
        if (by == null) {
            return;
        }
        for (Slot slot : there) {
            prepare(slot, by);
        }
        devices.prepare(here, by);
    }

    private void prepare(Slot slot, Device by) {
        Window window = slot.window;
        if (window == null || slot.refusing.contains(by)) {
            return;
        }
        try {
            window.prepare(by);
            Events.chosen(connection, window.path() + " by " + by);
        } catch (TelpherException e) {
            slot.refusing.add(by);
            connection.note("path %s by %s: %s".formatted(window.path(), by, e.getMessage()));
        }
    }

    private void open(RemoteMemory memory, Deadline deadline) {
        Slot slot = place(memory);
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

    private void open(Slot slot, RemoteMemory memory, Deadline deadline) {
        try {
            Window opened = windows.open(memory, deadline);
            slot.onDevice = opened.device() != null;
            slot.window = opened;
            if (slot(memory) != slot) {
                slot.giveBack(); // another life of the region has its place: nobody finds it
                return;
            }
            Events.chosen(connection, opened.path() + " to " + name(memory));
        } catch (TelpherException.TimedOut | TelpherException.Cancelled e) {
            return; // the operation ends by its own deadline; the next one tries again
        } catch (TelpherException e) {
            slot.refusal = e;
            Events.rejected(connection, "window to " + name(memory) + ": " + e.getMessage());
        } catch (RuntimeException e) {
            slot.refusal = new TelpherException.Unsupported("cannot open " + memory + ": " + e);
        }
    }

    /// Finds the slot of a region, or makes one. The window of another life of its index is looked
    /// at and given back without the monitor, which those who only count must not wait for.
    ///
    /// @return null for an old or a wrong descriptor: its owner refuses it
    private @Nullable Slot place(RemoteMemory memory) {
        int index = memory.region();
        if (index >= RegionTable.CAPACITY) {
            return null;
        }
        while (true) {
            Slot found = slot(memory);
            if (found != null) {
                return found;
            }
            @Nullable Slot[] all = slots;
            Slot old = index < all.length ? all[index] : null;
            if (old != null && old.isAlive()) {
                return null;
            }
            Slot slot = new Slot(memory.generation(), memory.key());
            if (!replace(index, old, slot)) {
                continue; // another thread was faster
            }
            if (old != null) {
                old.giveBack(); // or else whoever is opening it does
            }
            return slot;
        }
    }

    /// Puts a slot in the place of another one, or of none.
    ///
    /// @return false when that other one is not there any more
    private synchronized boolean replace(int index, @Nullable Slot old, Slot slot) {
        @Nullable Slot[] all = slots;
        if (index >= all.length) {
            all = Arrays.copyOf(all, Math.max(all.length * 2, index + 1));
        }
        if (all[index] != old) {
            return false;
        }
        if (old != null) {
            old.count(replaced);
        }
        all[index] = slot;
        slots = all; // publishes the element
        return true;
    }

    /// Whether windows are still held whose regions were closed by their owner.
    boolean holdsClosed() {
        for (Slot slot : slots) {
            if (slot != null && slot.isHeldInVain()) {
                return true;
            }
        }
        return false;
    }

    /// Gives back the windows to regions that were closed: until then their memory is not free.
    /// Unmapping much of it takes a while.
    void giveBackClosed() {
        for (Slot slot : slots) {
            if (slot != null && slot.isHeldInVain()) {
                slot.giveBack();
            }
        }
    }

    private static String name(RemoteMemory memory) {
        return "region %d.%d".formatted(memory.region(), memory.generation());
    }

    /// Closes all windows.
    void close() {
        windows.close();
    }
}

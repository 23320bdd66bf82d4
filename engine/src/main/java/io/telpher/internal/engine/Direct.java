package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.spi.Adverts;
import io.telpher.spi.Window;
import io.telpher.spi.Windows;
import io.telpher.spi.WorkQueue;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// Transfers that this side carries out by itself, through windows into the peer's memory. The
/// thread that posts a transfer copies; only opening a window, once per region, goes to the control
/// executor.
final class Direct {
    /// Result: no window can be had for this memory, frames have to do.
    static final int NO_WINDOW = -100;

    /// Result: the window has to be opened first.
    static final int NOT_OPEN = -101;

    /// Result: only a device can copy this: a GPU, or a NIC.
    static final int BY_DEVICE = -103;

    /// Copies up to this size are made without looking at deadlines.
    static final long SHORT = 256 * 1024;

    /// Most bytes of several pieces between two looks whether an operation may go on, as of one.
    private static final long LOOK_BYTES = 4 << 20;

    private static final Window.Guard ALWAYS = () -> true;

    /// No bytes, for accesses that are only checked.
    private static final MemorySegment NOTHING = MemorySegment.ofArray(new byte[0]);

    private final Windows windows;

    /// The lane of the link that has the windows.
    final LaneState lane;

    /// What GPUs copy.
    final DeviceCopies devices;

    /// What the link's own queue copies, which is everything then; or null.
    final @Nullable QueuedCopies queued;

    /// Says which receives of the peer may be stored into, and which of this side's; or null.
    final @Nullable Adverts adverts;

    /// Makes them able to.
    final DeviceReach reach;

    /// Opens windows.
    final WindowOpening opening;

    /// The queue has said that the link is gone.
    private volatile boolean lost;

    private volatile @Nullable PeerRegion[] slots = new PeerRegion[16];

    /// What slots have counted that others stand in the place of; guarded by `this`.
    private final Tally replaced = new Tally();

    Direct(Windows windows, ConnectionCore connection, LaneState lane) {
        this.windows = windows;
        this.lane = lane;
        WorkQueue queue = windows.queue();
        this.queued = queue == null ? null : new QueuedCopies(connection, this, queue);
        this.adverts = windows.adverts();
        this.devices = new DeviceCopies(connection, this);
        this.reach = new DeviceReach(connection, this);
        this.opening = new WindowOpening(connection, windows, this);
    }

    /// Whether the link is gone, and with it the windows. Those of links without a queue need no
    /// link to copy.
    boolean isLost() {
        return queued != null && (lost || lane.dead);
    }

    /// Work has ended with the link. That may be told before anybody polls the lane and finds it
    /// dead: whatever were posted here until then would end likewise.
    void lose() {
        lost = true;
    }

    /// Adds what short copies have done.
    synchronized void count(Tally into) {
        into.add(replaced);
        for (PeerRegion slot : slots) {
            if (slot != null) {
                slot.count(into);
            }
        }
    }

    /// Has what short copies count looked at, from time to time ([CopyCounts]).
    synchronized void settleCounts() {
        for (PeerRegion slot : slots) {
            if (slot != null) {
                slot.settle();
            }
        }
    }

    /// A short copy did not count after all.
    void uncount(Operation.Kind kind, RemoteMemory remote, long length) {
        PeerRegion slot = slot(remote);
        if (slot != null) {
            slot.uncount(kind, length);
        }
    }

    String explain() {
        return windows.explain();
    }

    @Nullable PeerRegion slot(RemoteMemory memory) {
        @Nullable PeerRegion[] all = slots;
        int index = memory.region();
        if (index >= all.length) {
            return null;
        }
        PeerRegion slot = all[index];
        return slot != null && slot.generation == memory.generation() && slot.key == memory.key()
                ? slot
                : null;
    }

    /// @return 0 when the window is open, or why not
    private int ready(RemoteMemory memory) {
        PeerRegion slot = slot(memory);
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
    int whyNot(RemoteMemory memory) {
        int reason = ready(memory);
        return reason == 0 ? NOT_OPEN : reason;
    }

    /// @return the name of the path to a peer's region, or null while it is not known
    @Nullable String path(RemoteMemory memory) {
        PeerRegion slot = slot(memory);
        Window window = slot == null ? null : slot.window;
        return window == null ? null : window.path();
    }

    /// Copies one range.
    ///
    /// @return `DONE` or a reason, [#NO_WINDOW], [#NOT_OPEN]
    private int copy(
            PeerRegion slot,
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
        if (queued != null || slot.onDevice || !local.isHost()) {
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

    /// A short copy of one range, which the caller counts.
    ///
    /// @return `DONE` or a reason, [#NO_WINDOW], [#NOT_OPEN]
    int copy(
            PeerRegion slot,
            Operation.Kind kind,
            RegionImpl local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length) {
        return copy(slot, kind, local, localOffset, remote, remoteOffset, length, ALWAYS);
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
            if (queued != null) {
                return queued.launch(op); // which looks for itself
            }
            PeerRegion slot = slot(only);
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
        OperationRegions regions = op.regions.of(op);
        boolean byDevice = regions.device() != null;
        for (int i = 0; i < regions.remotes(); i++) {
            RemoteMemory memory = regions.remote(i);
            PeerRegion slot = slot(memory);
            if (slot == null || slot.window == null) {
                return whyNot(memory);
            }
            byDevice |= slot.onDevice;
        }
        if (remote != null && regions.hasEmpty()) {
            int refused = lookAtEmpty(op, remote);
            if (refused != Connection.DONE) {
                return refused;
            }
        }
        if (queued != null) {
            return queued.launch(op);
        }
        return byDevice ? runByDevice(op) : runPieces(op);
    }

    /// Has a device carry out the next part of an operation.
    ///
    /// @return [DeviceCopies#LAUNCHED], or as [#copy]
    int runByDevice(Operation op) {
        Device by = devices.by(op);
        return by == null ? NO_WINDOW : devices.launch(op, by);
    }

    /// Whether a device of this side cannot reach a peer's region.
    boolean refuses(RemoteMemory memory, Device by) {
        PeerRegion slot = slot(memory);
        return slot != null && slot.refuses(by);
    }

    /// @return what is known of the peer's regions
    List<PeerRegion> all() {
        return Stream.of(slots).filter(Objects::nonNull).toList();
    }

    /// Pieces of nothing are refused for the same reasons as pieces of something.
    private int lookAtEmpty(Operation op, RemoteSlices remote) {
        boolean read = op.kind == Operation.Kind.READ;
        for (int i = 0; i < remote.count(); i++) {
            Window window = remote.length(i) == 0 ? window(remote.region(i)) : null;
            if (window == null) {
                continue;
            }
            int ticket = window.enter();
            if (ticket < 0) {
                return reason(ticket);
            }
            try {
                long offset = remote.offset(i);
                long looked =
                        queued != null || window.device() != null
                                ? window.check(offset, 0, !read)
                                : read
                                        ? window.read(ticket, NOTHING, 0, offset, 0, op)
                                        : window.write(ticket, NOTHING, 0, offset, 0, op);
                if (looked < 0) {
                    return reason((int) looked);
                }
            } finally {
                window.exit(ticket);
            }
        }
        return Connection.DONE;
    }

    private int runPieces(Operation op) {
        PieceWalk walk = op.walk; // one made here would be garbage wherever C2 cannot do without it
        walk.start(op, 0, op.length);
        Window window = null;
        RemoteMemory entered = null;
        int ticket = -1;
        int copies = 0;
        long unlooked = 0;
        try {
            while (walk.next()) {
                RemoteMemory memory = walk.memory;
                RegionImpl region = walk.region;
                if (memory == null || region == null) {
                    return Connection.FAILED;
                }
                if (memory != entered) {
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
                boolean look = (++copies & 1023) == 0 || unlooked + walk.bytes > LOOK_BYTES;
                unlooked = look ? walk.bytes : unlooked + walk.bytes;
                if (window == null || (look && !op.goOn())) {
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

    /// @return what is known of an index of the peer's table, of whichever life, or null
    @Nullable PeerRegion at(int index) {
        @Nullable PeerRegion[] all = slots;
        return index < all.length ? all[index] : null;
    }

    /// @return the open window to a peer's region, or null
    @Nullable Window window(RemoteMemory memory) {
        PeerRegion slot = slot(memory);
        return slot == null ? null : slot.window;
    }

    /// Changes a counter of the peer.
    ///
    /// @return `DONE` or a reason, [#NO_WINDOW] when a frame has to do it, [#NOT_OPEN]
    int update(CounterUpdate counter) {
        RemoteMemory memory = counter.memory();
        PeerRegion slot = slot(memory);
        Window window = slot == null ? null : slot.window;
        if (queued != null) {
            return NO_WINDOW;
        }
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

    /// Puts a slot in the place of another one, or of none.
    ///
    /// @return false when that other one is not there any more
    synchronized boolean replace(int index, @Nullable PeerRegion old, PeerRegion slot) {
        @Nullable PeerRegion[] all = slots;
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
        for (PeerRegion slot : slots) {
            if (slot != null && slot.isHeldInVain()) {
                return true;
            }
        }
        return false;
    }

    /// Gives back the windows to regions that were closed: until then their memory is not free.
    /// Unmapping much of it takes a while.
    void giveBackClosed() {
        for (PeerRegion slot : slots) {
            if (slot != null && slot.isHeldInVain()) {
                slot.giveBack();
            }
        }
    }

    /// Closes all windows.
    void close() {
        windows.close();
    }
}

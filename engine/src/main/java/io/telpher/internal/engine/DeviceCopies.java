package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Runtimes;
import io.telpher.spi.Window;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.jspecify.annotations.Nullable;

/// Transfers of one connection that GPUs of this process carry out: launches them, and learns of
/// their end from whoever polls. See docs/gpu.md.
final class DeviceCopies {
    /// Result of [#launch]: a GPU is copying, the operation goes on when that has ended.
    static final int LAUNCHED = -102;

    private final ConnectionCore connection;
    private final Direct windows;

    /// Jobs that were launched and not yet taken by [#takeEnded].
    private final AtomicInteger underWay = new AtomicInteger();

    /// Those that have ended, linked through `next`.
    private final AtomicReference<@Nullable DeviceJob> over = new AtomicReference<>();

    /// The queues that copy for this connection, and whose they are.
    private volatile CopyQueue[] queues = {};

    private volatile Device[] devices = {};

    DeviceCopies(ConnectionCore connection, Direct windows) {
        this.connection = connection;
        this.windows = windows;
    }

    /// The GPU that copies for an operation: that of its local memory; else the target's own,
    /// where this process sees it; else the first that this process uses.
    ///
    /// @return null when a GPU has no part in it, or several have
    @Nullable Device by(Operation op) {
        Device here = null;
        MemorySlices pieces = op.localPieces;
        int count = pieces == null ? 1 : pieces.isStrided() ? 1 : pieces.count();
        RegionImpl before = null;
        for (int i = 0; i < count; i++) {
            RegionImpl region = pieces == null ? op.region : (RegionImpl) pieces.region(i);
            if (region == null || region == before) {
                continue;
            }
            before = region;
            DeviceMemory memory = region.deviceMemory();
            if (memory != null) {
                if (here != null && !here.equals(memory.device())) {
                    return null;
                }
                here = memory.device();
            }
        }
        if (here != null) {
            return here;
        }
        RemoteSlices remote = op.remotePieces;
        int targets = remote == null ? 1 : remote.isStrided() ? 1 : remote.count();
        RemoteMemory last = null;
        for (int i = 0; i < targets; i++) {
            RemoteMemory memory = remote == null ? op.remote : remote.memory(i);
            if (memory == null || (last != null && Direct.sameRegion(last, memory))) {
                continue;
            }
            last = memory;
            Window window = windows.window(memory);
            Device there = window == null ? null : window.device();
            if (there != null) {
                return Runtimes.copierFor(there);
            }
        }
        return null;
    }

    /// Launches the next part of an operation. `op.copying` is set and nobody else has to do with
    /// it.
    ///
    /// @return [#LAUNCHED]; `DONE` when there was nothing to copy; a reason; or [Direct#NOT_OPEN],
    ///     [Direct#NO_WINDOW]
    int launch(Operation op, Device by) {
        DeviceJob job = op.job;
        if (job == null) {
            job = new DeviceJob(this, op);
            op.job = job;
        }
        long bytes = Math.min(CopyQueue.LARGEST, op.length - op.copied);
        CopyQueue.Way way = CopyQueue.Way.LOCAL;
        int pieces = 0;
        RemoteMemory before = null;
        RegionImpl last = null;
        Window window = null;
        PieceWalk walk = job.walk;
        walk.start(op, op.copied, bytes);
        while (walk.next()) {
            RemoteMemory memory = walk.memory;
            RegionImpl region = walk.region;
            if (memory == null || region == null) {
                return give(job, Connection.FAILED);
            }
            if (window == null || before == null || !Direct.sameRegion(before, memory)) {
                window = windows.window(memory);
                if (window == null || window.address(by) == 0) {
                    return give(
                            job, windows.refuses(memory, by) ? Direct.NO_WINDOW : Direct.NOT_OPEN);
                }
                before = memory;
                last = null;
                if (!job.joined.contains(window)) {
                    int joined = window.join();
                    if (joined < 0) {
                        return give(
                                job,
                                joined == Window.BUSY ? Direct.NO_WINDOW : Direct.reason(joined));
                    }
                    job.joined.add(window);
                }
            }
            int checked =
                    window.check(walk.remoteOffset, walk.bytes, op.kind != Operation.Kind.READ);
            if (checked < 0) {
                return give(job, Direct.reason(checked));
            }
            if (region != last) {
                if (region.address(by) == 0) {
                    return give(job, region.refuses(by) ? Direct.NO_WINDOW : Direct.NOT_OPEN);
                }
                way = further(way, window, region, by);
                last = region;
            }
            pieces++;
        }
        if (pieces == 0) {
            return give(job, look(op));
        }
        boolean added = false;
        underWay.incrementAndGet();
        try {
            CopyQueue queue = queue(by);
            job.bytes = bytes;
            queue.begin(way, pieces, bytes);
            boolean complete = false;
            try {
                add(op, walk, bytes, by, queue);
                complete = true;
            } finally {
                if (!complete) {
                    queue.abandon();
                }
            }
            added = true;
            queue.end(job);
        } finally {
            if (!added) {
                underWay.decrementAndGet();
                job.leave();
            }
        }
        connection.endpoint().progress().attend(connection);
        return LAUNCHED;
    }

    private void add(Operation op, PieceWalk walk, long bytes, Device by, CopyQueue queue) {
        boolean read = op.kind == Operation.Kind.READ;
        walk.start(op, op.copied, bytes);
        RemoteMemory before = null;
        RegionImpl last = null;
        long there = 0;
        long here = 0;
        while (walk.next()) {
            RemoteMemory memory = walk.memory;
            RegionImpl region = walk.region;
            if (memory == null || region == null) {
                throw new IllegalStateException("an operation without memory");
            }
            if (before == null || !Direct.sameRegion(before, memory)) {
                Window window = windows.window(memory);
                there = window == null ? 0 : window.address(by);
                before = memory;
            }
            if (region != last) {
                here = region.address(by);
                last = region;
            }
            if (there == 0 || here == 0) {
                throw new IllegalStateException("a window was closed in between");
            }
            long to = there + walk.remoteOffset;
            long from = here + walk.localOffset;
            queue.copy(read ? from : to, read ? to : from, walk.bytes);
        }
    }

    /// The longest of two ways.
    private static CopyQueue.Way further(
            CopyQueue.Way way, Window window, RegionImpl region, Device by) {
        Device there = window.device();
        if (way == CopyQueue.Way.HOST || there == null || region.isHost()) {
            return CopyQueue.Way.HOST;
        }
        return way == CopyQueue.Way.LOCAL && there.equals(by) ? way : CopyQueue.Way.PEER;
    }

    /// A transfer of nothing is refused for the same reasons as one of something.
    private int look(Operation op) {
        RemoteMemory memory = op.remotePieces != null ? null : op.remote;
        Window window = memory == null ? null : windows.window(memory);
        if (memory == null || window == null) {
            return Connection.DONE;
        }
        int joined = window.join();
        if (joined < 0) {
            return joined == Window.BUSY ? Direct.NO_WINDOW : Direct.reason(joined);
        }
        window.leave();
        int checked =
                window.check(memory.offset() + op.remoteOffset, 0, op.kind != Operation.Kind.READ);
        return checked < 0 ? Direct.reason(checked) : Connection.DONE;
    }

    private static int give(DeviceJob job, int result) {
        job.leave();
        return result;
    }

    private CopyQueue queue(Device by) {
        Device[] known = devices;
        for (int i = 0; i < known.length; i++) {
            if (known[i].equals(by)) {
                return queues[i]; // written before
            }
        }
        return add(by);
    }

    private synchronized CopyQueue add(Device by) {
        CopyQueue queue = Runtimes.open(by).queue();
        CopyQueue[] more = Arrays.copyOf(queues, queues.length + 1);
        more[queues.length] = queue;
        queues = more;
        Device[] named = Arrays.copyOf(devices, queues.length);
        named[queues.length - 1] = by;
        devices = named;
        return queue;
    }

    /// Called by a queue's poll, on any thread: only notes it.
    void ended(DeviceJob job) {
        DeviceJob before;
        do {
            before = over.get();
            job.next = before;
        } while (!over.compareAndSet(before, job));
    }

    /// @return whether GPUs are copying for this connection
    boolean isBusy() {
        return underWay.get() > 0;
    }

    /// @return whether [#takeEnded] finds something
    boolean hasEnded() {
        return over.get() != null;
    }

    /// Lets the GPUs' queues move on.
    ///
    /// @return how many jobs of this connection have ended
    int poll() {
        if (underWay.get() == 0) {
            return 0;
        }
        for (CopyQueue queue : queues) {
            int unused = queue.poll();
        }
        return over.get() == null ? 0 : 1;
    }

    /// @return those that have ended, linked through `next`, or null; the caller handles each and
    ///     calls [#handled]
    @Nullable DeviceJob takeEnded() {
        return over.getAndSet(null);
    }

    /// A job from [#takeEnded] has been handled; another one may be under way for the same
    /// operation.
    void handled() {
        underWay.decrementAndGet();
    }

    /// Makes a GPU able to reach regions of this side. Blocks.
    void prepare(Iterable<RegionImpl> regions, Device by) {
        for (RegionImpl region : regions) {
            if (!region.enter()) {
                continue;
            }
            try {
                region.prepare(by);
            } catch (TelpherException e) {
                region.refuse(by);
                connection.note("%s by %s: %s".formatted(region, by, e.getMessage()));
            } finally {
                region.exit();
            }
        }
    }

    @Override
    public String toString() {
        return underWay + " copies by devices under way";
    }
}

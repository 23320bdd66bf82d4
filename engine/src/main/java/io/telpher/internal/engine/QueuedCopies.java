package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.Window;
import io.telpher.spi.WorkQueue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;

/// Transfers of one link that its queue, a NIC's, carries out through windows. See docs/rdma.md.
final class QueuedCopies {
    private final ConnectionCore connection;
    final Direct windows;
    final WorkQueue queue;

    /// Local regions that the queue cannot be made to reach: what touches them goes by frames.
    private final Set<RegionImpl> refusing = ConcurrentHashMap.newKeySet();

    /// How quick the link is with long operations that others carry as well.
    final LinkPace pace = new LinkPace();

    /// It is being made ready for long transfers that others have carried.
    private final AtomicBoolean preparing = new AtomicBoolean();

    QueuedCopies(ConnectionCore connection, Direct windows, WorkQueue queue) {
        this.connection = connection;
        this.windows = windows;
        this.queue = queue;
    }

    /// Makes the queue reach local regions. Blocks, on the control executor.
    void prepare(RegionImpl[] here) {
        for (RegionImpl region : here) {
            if (!region.isHost() || refusing.contains(region) || !region.enter()) {
                continue;
            }
            try {
                queue.prepare(region);
            } catch (TelpherException.StaleRegion e) {
                // The operation finds out by itself.
            } catch (TelpherException e) {
                refusing.removeIf(known -> !known.isOpen());
                refusing.add(region);
                connection.note("%s by verbs: %s".formatted(region, e.getMessage()));
            } finally {
                region.exit();
            }
        }
    }

    /// Hands an operation to the queue. `op.copying` is set and nobody else has to do with it.
    ///
    /// @return [DeviceCopies#LAUNCHED]; a reason; or [Direct#NOT_OPEN], [Direct#NO_WINDOW]
    int launch(Operation op) {
        if (op.length == 0) {
            return Direct.NO_WINDOW; // the owner says whether the region is there
        }
        int refused = check(op);
        if (refused != Connection.DONE) {
            return refused;
        }
        WorkJob job = op.workJob;
        if (job == null || !job.isFor(this)) {
            job = new WorkJob(connection, connection.oneSided.queued, this, op);
            op.workJob = job;
        }
        job.reset();
        if (op.length >= WorkJob.LONG) {
            job.divide(op.begun);
            op.begun = null;
            share(op, job);
        }
        job.begin();
        return DeviceCopies.LAUNCHED;
    }

    /// Has other links carry some of a long operation: one of each way. Those whose windows are not
    /// open are made ready for the next one. Throws nothing for those: the first one can carry it.
    private void share(Operation op, WorkJob job) {
        for (Direct each : connection.oneSided.links.all()) {
            QueuedCopies other = each.queued;
            if (other == null || each.isLost() || job.goesBy(each.lane)) {
                continue;
            }
            int usable = other.check(op);
            if (usable == Connection.DONE) {
                job.share(other);
            } else if (usable == Direct.NOT_OPEN) {
                other.prepareFor(op);
            }
        }
    }

    /// Makes the link ready for transfers like this one, which does not wait for that. One task at
    /// a time: there may be many such transfers meanwhile.
    private void prepareFor(Operation op) {
        if (!preparing.compareAndSet(false, true)) {
            return;
        }
        try {
            connection
                    .endpoint()
                    .control()
                    .execute(
                            windows.opening.of(
                                    op, "without this link", () -> preparing.set(false)));
        } catch (RejectedExecutionException e) {
            preparing.set(false); // the endpoint closes
        }
    }

    private int check(Operation op) {
        RemoteMemory only = op.remote;
        RegionImpl here = op.region;
        return only == null || here == null || op.remotePieces != null || op.localPieces != null
                ? checkPieces(op)
                : checkRange(op, only, here);
    }

    /// One range needs no walk over pieces.
    private int checkRange(Operation op, RemoteMemory memory, RegionImpl region) {
        Window window = windows.window(memory);
        if (window == null) {
            return windows.whyNot(memory);
        }
        boolean write = op.kind != Operation.Kind.READ;
        int checked = window.check(memory.offset() + op.remoteOffset, op.length, write);
        return checked < 0 ? Direct.reason(checked) : check(region);
    }

    private int checkPieces(Operation op) {
        boolean write = op.kind != Operation.Kind.READ;
        PieceWalk walk = op.walk;
        walk.start(op, 0, op.length);
        RemoteMemory before = null;
        LocalRegion last = null;
        Window window = null;
        while (walk.next()) {
            RemoteMemory memory = walk.memory;
            RegionImpl region = walk.region;
            if (memory == null || region == null) {
                return Connection.FAILED;
            }
            if (window == null || memory != before) {
                window = windows.window(memory);
                if (window == null) {
                    return windows.whyNot(memory);
                }
                before = memory;
            }
            int checked = window.check(walk.remoteOffset, walk.bytes, write);
            if (checked < 0) {
                return Direct.reason(checked);
            }
            if (region != last) {
                int refused = check(region);
                if (refused != Connection.DONE) {
                    return refused;
                }
                last = region;
            }
        }
        return Connection.DONE;
    }

    private int check(RegionImpl region) {
        if (!region.isHost()) {
            return Direct.NO_WINDOW;
        }
        if (!region.segment().scope().isAlive()) {
            return Connection.STALE;
        }
        return queue.reaches(region)
                ? Connection.DONE
                : refusing.contains(region) ? Direct.NO_WINDOW : Direct.NOT_OPEN;
    }

    /// Whether the bytes were not the operation's, at least in part: its arena was closed under the
    /// region, and the device went on with pages that are nobody's, or somebody else's.
    boolean wentNowhere(Operation op) {
        RegionImpl only = op.region;
        return only == null
                ? !op.regions.of(op).isHostMemoryThere()
                : !only.segment().scope().isAlive();
    }

    /// Whether one of the regions that an operation touches was closed by its owner.
    boolean touchesClosed(Operation op) {
        OperationRegions regions = op.regions.of(op);
        for (int i = 0; i < regions.remotes(); i++) {
            Window window = windows.window(regions.remote(i));
            if (window == null || window.enter() < 0) {
                return true;
            }
        }
        return false;
    }
}

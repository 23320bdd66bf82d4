package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.RemoteMemory;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.device.Intermediates;
import io.telpher.internal.device.PeerPolicy;
import io.telpher.internal.device.Runtimes;
import io.telpher.spi.Window;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// Transfers of one connection that GPUs of this process carry out through windows: launches them,
/// part by part. See docs/gpu.md.
final class DeviceCopies {
    /// Result of [#launch]: a GPU is copying, the operation goes on when that has ended.
    static final int LAUNCHED = -102;

    /// Pieces of one step: few enough that listing them takes no longer than copying the first
    /// ones, many enough that launches do not count.
    private static final int STEP = 2000;

    private final ConnectionCore connection;
    private final Direct windows;

    private final DeviceQueues queues;

    /// What the job wants, once it was looked at.
    private volatile PeerPolicy.@Nullable Copier copier;

    /// For each GPU of the peer, which one here copies between it and the host.
    private final Map<Device, Device> copiers = new ConcurrentHashMap<>();

    /// Whether it was said why operations over some regions go by frames.
    private volatile boolean saidMixed;

    /// For each GPU here, which others may copy for it, as far as that is certain.
    private final Map<Device, Map<Device, Boolean>> others = new ConcurrentHashMap<>();

    DeviceCopies(ConnectionCore connection, Direct windows) {
        this.connection = connection;
        this.windows = windows;
        this.queues = connection.devices;
    }

    /// The GPU that copies for an operation: see [#choose].
    @Nullable Device by(Operation op) {
        OperationRegions regions = op.regions.of(op);
        return choose(
                op.kind,
                regions.device(),
                regions.onSeveral(),
                regions.remoteArray(),
                regions.remotes());
    }

    /// The GPU that copies: that of the local memory, unless the job wants the other side's to and
    /// this process uses that, or another one carries its bytes ([DeviceReach]); without one the
    /// target's own, where this process sees it, else what [Runtimes#copierFor] finds.
    ///
    /// @param here the GPU of the local memory, or null
    /// @param several whether local memory is on more
    /// @param there the peer's regions
    /// @param count how many of them
    /// @return null when a GPU has no part in it, or several have
    @Nullable Device choose(
            Operation.Kind kind,
            @Nullable Device here,
            boolean several,
            RemoteMemory[] there,
            int count) {
        if (several) {
            return null;
        }
        Device through = here == null ? null : through(here, there, count);
        if (through != null) {
            return through;
        }
        PeerPolicy.Copier localIs =
                kind == Operation.Kind.READ
                        ? PeerPolicy.Copier.DESTINATION
                        : PeerPolicy.Copier.SOURCE;
        PeerPolicy.Copier wanted = here == null ? PeerPolicy.Copier.LOCAL : copier();
        if (here != null && (wanted == PeerPolicy.Copier.LOCAL || wanted == localIs)) {
            return here;
        }
        Device other = null;
        for (int i = 0; i < count; i++) {
            Window window = windows.window(there[i]);
            Device of = window == null ? null : window.device();
            if (of != null && here == null) {
                return copiers.computeIfAbsent(of, Runtimes::copierFor);
            }
            if (window == null
                    || of == null
                    || (other != null && !other.equals(of))
                    || !windows.reach.mayCopyBy(window)) {
                return here;
            }
            other = of;
        }
        return here != null && other != null && mayCopyFor(here, other) ? other : here;
    }

    /// @return the GPU that carries bytes between one here and all of the peer's regions, or null
    private @Nullable Device through(Device here, RemoteMemory[] there, int count) {
        Device through = null;
        for (int i = 0; i < count; i++) {
            PeerRegion slot = windows.slot(there[i]);
            Device used = slot == null ? null : slot.intermediates.get(here);
            if (used == null || (through != null && !through.equals(used))) {
                return null;
            }
            through = used;
        }
        return through;
    }

    /// A device does not copy to or from one of the peer's regions by itself. Another one carries
    /// its bytes only where it does so for all of an operation's regions: each of them is made
    /// ready before frames do it.
    ///
    /// @return [Direct#NOT_OPEN] when one is not; else [Direct#NO_WINDOW]
    private int refused(Operation op, Device by) {
        OperationRegions regions = op.regions.of(op);
        Device first = null;
        Device through = null;
        boolean differ = false;
        boolean trying = false;
        for (int i = 0; i < regions.remotes(); i++) {
            PeerRegion slot = windows.slot(regions.remote(i));
            Window window = slot == null ? null : slot.window;
            if (slot == null || window == null || !(slot.refuses(by) || copies(window, by))) {
                return Direct.NOT_OPEN;
            }
            Device used = slot.intermediates.get(by);
            first = i == 0 ? used : first;
            through = through == null ? used : through;
            differ |= !Objects.equals(first, used);
            trying |= slot.trying.contains(by);
        }
        if (differ && through != null && !trying && !saidMixed) {
            saidMixed = true;
            connection.note(
                    "path %s: operations over several regions, of which %s carries some only, go by frames"
                            .formatted(Intermediates.PATH, through));
        }
        return Direct.NO_WINDOW;
    }

    private boolean copies(Window window, Device by) {
        return window.address(by) != 0
                && (window.device() == null || windows.reach.mayCopyBy(window));
    }

    private PeerPolicy.Copier copier() {
        PeerPolicy.Copier known = copier;
        if (known == null) {
            try {
                known = PeerPolicy.current().copier();
            } catch (IllegalArgumentException e) {
                known = PeerPolicy.Copier.LOCAL;
                connection.note(String.valueOf(e.getMessage()));
            }
            copier = known;
        }
        return known;
    }

    /// Whether another GPU copies from or to memory of the one here. Asked at each transfer: what
    /// is certain is not found out again.
    private boolean mayCopyFor(Device here, Device other) {
        Map<Device, Boolean> known =
                others.computeIfAbsent(here, device -> new ConcurrentHashMap<>());
        Boolean may = known.get(other);
        if (may == null) {
            may = look(here, other);
            if (may == null) {
                return false;
            }
            known.put(other, may);
        }
        return may;
    }

    /// No GPU gets a context for this, and none copies that was not tried.
    ///
    /// @return null while that is not certain
    private static @Nullable Boolean look(Device here, Device other) {
        if (other.equals(here)) {
            return false;
        }
        if (!Runtimes.isOpen(other)) {
            return null;
        }
        if (Runtimes.unreachable(other, here) != null) {
            return false;
        }
        CompletableFuture<GpuRuntime.Trial> trial = Runtimes.of(other).tried(other, here);
        return trial.isDone() ? trial.join().good() : null;
    }

    /// Launches the next part of an operation, in steps: a device copies the first pieces while the
    /// others are still listed. `op.copying` is set and nobody else has to do with it.
    ///
    /// @return [#LAUNCHED]; `DONE` when there was nothing to copy; a reason; or [Direct#NOT_OPEN],
    ///     [Direct#NO_WINDOW]
    int launch(Operation op, Device by) {
        DeviceJob job = op.job;
        if (job == null) {
            job = new DeviceJob(queues, connection.oneSided, op);
            op.job = job;
        }
        boolean together = op.together;
        op.together = false;
        job.begin();
        long most = Math.min(CopyQueue.LARGEST, op.length - op.copied);
        boolean launched = false;
        try {
            int result = step(op, job, by, most, together);
            if (result != LAUNCHED) {
                return result;
            }
            launched = true;
        } finally {
            if (!launched) {
                job.leave();
            }
        }
        most = limit(job, most);
        try {
            // What keeps a later step from being launched is met again, and told, when those
            // before it have ended.
            int result = LAUNCHED;
            while (result == LAUNCHED && job.bytes < most && job.goesWell() && op.goOn()) {
                result = step(op, job, by, most - job.bytes, together);
            }
        } catch (Throwable e) {
            Failures.letThrough(e);
        } finally {
            job.listed();
        }
        queues.attend();
        return LAUNCHED;
    }

    /// Launches some pieces from where the job has come to.
    ///
    /// @param most bytes
    private int step(Operation op, DeviceJob job, Device by, long most, boolean together) {
        long from = op.copied + job.bytes;
        int result = look(op, job, by, from, most);
        if (result == Connection.DONE && job.looked > limit(job, most)) {
            result = look(op, job, by, from, limit(job, most));
        }
        if (result != Connection.DONE) {
            return result;
        }
        if (job.pieces == 0) {
            return look(op);
        }
        CopyQueue queue = queues.of(by);
        boolean via = job.way == CopyQueue.Way.VIA;
        String lost = via ? queue.lost() : null;
        if (lost != null) { // by another's work: nothing of this one is under way
            windows.reach.forsake(by, lost);
            return Direct.NO_WINDOW;
        }
        job.queue = queue;
        job.through = via ? by : job.through;
        long bytes = job.looked;
        queue.begin(job.way, job.pieces, bytes, together);
        boolean complete = false;
        try {
            add(op, job.walk, from, bytes, by, queue);
            complete = true;
        } finally {
            if (!complete) {
                queue.abandon();
            }
        }
        job.add(bytes);
        queue.end(job.step);
        return LAUNCHED;
    }

    /// The most that goes out at once where what was looked at last goes.
    private static long limit(DeviceJob job, long most) {
        return job.way == CopyQueue.Way.HOST ? Math.min(CopyQueue.LARGEST_HOST, most) : most;
    }

    /// Looks whether a device may copy what comes next, and joins the windows: [DeviceJob#pieces],
    /// [DeviceJob#looked] and [DeviceJob#way].
    ///
    /// @return `DONE`, or why it may not
    private int look(Operation op, DeviceJob job, Device by, long from, long most) {
        CopyQueue.Way way = CopyQueue.Way.LOCAL;
        int pieces = 0;
        long bytes = 0;
        RemoteMemory before = null;
        RegionImpl last = null;
        Window window = null;
        PieceWalk walk = job.walk;
        walk.start(op, from, most);
        while (pieces < STEP && walk.next()) {
            RemoteMemory memory = walk.memory;
            RegionImpl region = walk.region;
            if (memory == null || region == null) {
                return Connection.FAILED;
            }
            if (window == null || memory != before) {
                window = windows.window(memory);
                if (window == null || window.address(by) == 0) {
                    return windows.refuses(memory, by) ? refused(op, by) : Direct.NOT_OPEN;
                }
                before = memory;
                last = null;
                if (!job.joined.contains(window)) {
                    int joined = window.join();
                    if (joined < 0) {
                        return joined == Window.BUSY ? Direct.NO_WINDOW : Direct.reason(joined);
                    }
                    job.joined.add(window);
                }
            }
            int checked =
                    window.check(walk.remoteOffset, walk.bytes, op.kind != Operation.Kind.READ);
            if (checked < 0) {
                return Direct.reason(checked);
            }
            if (region != last) {
                if (region.address(by) == 0) {
                    return region.refuses(by) ? Direct.NO_WINDOW : Direct.NOT_OPEN;
                }
                CopyQueue.Way next = way(window, region, by);
                // Where memory is within reach anyway the window has an address for any device:
                // whether it is allowed, and good, is known when it was prepared.
                if (next != CopyQueue.Way.VIA && window.device() != null) {
                    if (windows.refuses(memory, by)) {
                        return refused(op, by);
                    }
                    if (!windows.reach.mayCopyBy(window)) {
                        return Direct.NOT_OPEN;
                    }
                }
                way = next.compareTo(way) > 0 ? next : way;
                last = region;
            }
            pieces++;
            bytes += walk.bytes;
        }
        job.way = way;
        job.pieces = pieces;
        job.looked = bytes;
        return Connection.DONE;
    }

    private void add(
            Operation op, PieceWalk walk, long from, long bytes, Device by, CopyQueue queue) {
        boolean read = op.kind == Operation.Kind.READ;
        walk.start(op, from, bytes);
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
            if (memory != before) {
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
            long remote = there + walk.remoteOffset;
            long local = here + walk.localOffset;
            queue.copy(read ? local : remote, read ? remote : local, walk.bytes);
        }
    }

    private static CopyQueue.Way way(Window window, RegionImpl region, Device by) {
        Device there = window.device();
        DeviceMemory here = region.deviceMemory();
        if (there == null || here == null) {
            return CopyQueue.Way.HOST;
        }
        boolean isThere = there.equals(by);
        boolean isHere = here.device().equals(by);
        return isThere && isHere
                ? CopyQueue.Way.LOCAL
                : isThere || isHere ? CopyQueue.Way.PEER : CopyQueue.Way.VIA;
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
        boolean unused = window.leave();
        int checked =
                window.check(memory.offset() + op.remoteOffset, 0, op.kind != Operation.Kind.READ);
        return checked < 0 ? Direct.reason(checked) : Connection.DONE;
    }
}

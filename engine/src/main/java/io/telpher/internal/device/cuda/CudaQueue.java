package io.telpher.internal.device.cuda;

import io.telpher.Device;
import io.telpher.TelpherException;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.ffi.cuda.CudaCopies;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaStreams;
import io.telpher.internal.ffi.cuda.Nvrtc;
import io.telpher.internal.memory.Raw;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Availability;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// The copies of one device in the background: lanes for kernels, for copy engines between devices,
/// for copy engines to and from the host, and where needed for copy engines between two other
/// devices, so that none waits for another.
///
/// A launch has ended when a word in pinned memory says so, which the device writes in stream
/// order, behind everything else: nobody waits in the driver. When a launch takes long its
/// stream is asked now and then, for a device that failed never writes the word. Such a failure
/// takes the whole context with it, so every job fails, now and later.
final class CudaQueue implements CopyQueue {
    /// How old a launch is before its stream is asked, and how often then.
    private static final long ASK_NANOS = 5_000_000;

    /// Flags on cache lines of their own, as many as there may be launches.
    private static final long LINE = 64;

    private static final int MOST_LAUNCHES = 1024;

    private final Device device;
    private final CudaContext context;
    private final Tuning tuning;
    private final ReentrantLock lock = new ReentrantLock();
    private final AtomicBoolean polling = new AtomicBoolean();
    private final Held held = new Held();
    private final PinnedPool pool;
    private final PinnedPool.Block flags;
    private final long arrived;

    /// Held while this device becomes an intermediate: whatever the driver waits for then, jobs do
    /// not.
    private final ReentrantLock becoming = new ReentrantLock();

    /// Launches that have a flag. By whoever makes the queue, then under `becoming`.
    private int made;

    private final @Nullable KernelLane kernels;
    private final @Nullable Agent agent;
    private final @Nullable Kernels loaded;
    private final EngineLane engines;
    private final EngineLane hostEngines;

    /// Made when this device becomes an intermediate, unless kernels make all those copies.
    private volatile @Nullable EngineLane via;

    /// Why there are no kernels; empty where there are.
    private final String withoutKernels;

    /// The driver's error that ended everything.
    private volatile @Nullable String broken;

    /// A stream could not be asked, which was said.
    private volatile boolean unanswered;

    /// Of the job that is being added; under the lock.
    private @Nullable Lane lane;

    private @Nullable String failure;
    private boolean forAgent;
    private boolean together;

    /// Jobs that came, by whoever holds the lock, and those whose owners were told, by whoever
    /// polls: each has one writer at a time.
    private final AtomicLong added = new AtomicLong();

    private final AtomicLong told = new AtomicLong();

    CudaQueue(Device device, CudaContext context, Tuning tuning) {
        this.device = device;
        this.context = context;
        this.tuning = tuning;
        this.pool = new PinnedPool(context, held);
        boolean complete = false;
        long before = context.enter();
        try {
            flags = pool.take(MOST_LAUNCHES * LINE);
            Raw.ALL.asSlice(flags.address(), flags.bytes()).fill((byte) 0);
            arrived = held.memory(MOST_LAUNCHES * LINE);
            long first = held.stream(0);
            CudaCopies.fill(arrived, (byte) 0, MOST_LAUNCHES * LINE, first);
            CudaStreams.synchronize(first);

            Kernels loaded = null;
            KernelLane lane = null;
            String reason = "";
            try {
                loaded = Kernels.load(context, held);
                tuning.checkThreads(loaded.mostThreads(), device);
                // Before other work of the device: it waits for the SMs, not for copies.
                int priority = CudaStreams.priorities().greatest();
                lane =
                        new KernelLane(
                                this,
                                loaded,
                                tuning.kernelWindow(),
                                held.streams(tuning.kernelWindow(), priority));
                lane.warmUp(newLaunch(pool, first));
            } catch (TelpherException.Unsupported | TelpherException.NativeFailure e) {
                loaded = null;
                lane = null;
                reason = "no kernels on %s: %s".formatted(device, e.getMessage());
                if (Nvrtc.availability() instanceof Availability.Available) {
                    Log.warning(reason + "; copy engines copy everything", null);
                } else {
                    log(reason); // as it is on many machines; doctor says so
                }
            }
            kernels = lane;
            agent = loaded == null || tuning.agentBytes() == 0 ? null : agent(loaded.agent());
            withoutKernels = reason;
            this.loaded = loaded;
            engines = new DirectLane(this, loaded, held.streams(tuning.engineStreams(), 0));
            // One more, so that both directions have one.
            hostEngines = new DirectLane(this, loaded, held.streams(tuning.engineStreams() + 1, 0));
            complete = true;
        } finally {
            if (!complete) {
                held.giveBack();
            }
            context.exit(before);
        }
    }

    private @Nullable Agent agent(long kernel) {
        try {
            long stream = held.stream(CudaStreams.priorities().greatest());
            Agent made = new Agent(this, pool, kernel, stream);
            made.warmUp();
            return made;
        } catch (TelpherException.NativeFailure e) {
            log("no agent on %s: %s".formatted(device, e.getMessage()));
            return null;
        }
    }

    /// See [io.telpher.internal.device.Gpu#becomeIntermediate].
    void becomeIntermediate() {
        becoming.lock();
        try {
            String lost = broken;
            if (lost != null) {
                throw new TelpherException.Unsupported(lost);
            }
            if (isIntermediate()) {
                return;
            }
            int launches = made;
            Held own = new Held();
            long before = context.enter();
            try {
                via = ViaLane.make(this, loaded, own);
            } catch (TelpherException.NativeFailure e) {
                note(e);
                made = launches;
                own.giveBack();
                throw new TelpherException.Unsupported(
                        "%s cannot carry bytes between other devices, for which it needs %d buffers of %d bytes: %s"
                                .formatted(
                                        device,
                                        tuning.viaBuffers(),
                                        tuning.viaBytes(),
                                        message(e)));
            } finally {
                context.exit(before);
            }
        } finally {
            becoming.unlock();
        }
    }

    /// Whether it copies between two other devices: by kernels it takes nothing to.
    private boolean isIntermediate() {
        return via != null || (kernels != null && tuning.viaByKernel());
    }

    private static void log(String message) {
        System.getLogger("io.telpher.cuda").log(System.Logger.Level.DEBUG, message);
    }

    /// @param pool has its tables
    Launch newLaunch(PinnedPool pool, long stream) {
        long offset = LINE * made++;
        return new Launch(pool, flags.address() + offset, arrived + offset, stream);
    }

    CudaContext context() {
        return context;
    }

    Held held() {
        return held;
    }

    PinnedPool pool() {
        return pool;
    }

    Tuning tuning() {
        return tuning;
    }

    @Override
    public @Nullable String lost() {
        return broken;
    }

    String withoutKernels() {
        return withoutKernels;
    }

    // ---- adding

    @Override
    public void begin(Way way, int pieces, long bytes, boolean ofList) {
        if (lock.isHeldByCurrentThread()) {
            throw new IllegalStateException("begin() again before end()");
        }
        if (way == Way.VIA && !isIntermediate()) {
            throw new IllegalStateException("becomeIntermediate() comes first");
        }
        if (pieces < 0 || bytes < 0) {
            throw new IllegalArgumentException("%d pieces, %d bytes".formatted(pieces, bytes));
        }
        lock.lock();
        failure = null;
        together = ofList;
        lane = lane(way, pieces, bytes, !ofList && isIdle());
        // The agent reads memory again and again in one launch: none that the device may cache. A
        // list takes one launch, where the agent would carry out one after the other.
        forAgent = !ofList && way != Way.HOST && pieces <= 1 && bytes <= tuning.agentBytes();
        try {
            lane.gathering().reserve(pieces, bytes);
        } catch (TelpherException.NativeFailure e) {
            failure = message(e);
        }
    }

    private Lane lane(Way way, int pieces, long bytes, boolean alone) {
        KernelLane byKernel = kernels;
        if (byKernel != null && tuning.byKernel(way, pieces, bytes, alone)) {
            return byKernel;
        }
        return switch (way) {
            case HOST -> hostEngines;
            case LOCAL, PEER -> engines;
            case VIA -> Objects.requireNonNull(via);
        };
    }

    @Override
    public void copy(long to, long from, long bytes) {
        Lane current = adding();
        if (bytes < 0) {
            throw new IllegalArgumentException("a copy of " + bytes + " bytes");
        }
        if (bytes > 0 && failure == null) {
            try {
                current.gathering().piece(to, from, bytes);
            } catch (TelpherException.NativeFailure e) {
                failure = message(e);
            }
        }
    }

    @Override
    public void update(long address, boolean add, long value) {
        Lane current = adding();
        if ((address & 7) != 0) {
            throw new IllegalArgumentException("0x%x is not aligned to 8 bytes".formatted(address));
        }
        current.gathering().update(address, add, value);
    }

    @Override
    public void end(Job done) {
        Lane current = adding();
        try {
            String reason = broken != null ? broken : failure;
            Launch gathering = current.gathering();
            added.setRelease(added.getPlain() + 1);
            if (agent != null
                    && forAgent
                    && reason == null
                    && gathering.jobs() == 0
                    && agent.take(gathering, done)) {
                gathering.rollBack();
            } else {
                gathering.job(done, reason);
                current.added(together);
            }
        } finally {
            lane = null;
            lock.unlock();
        }
    }

    @Override
    public void abandon() {
        Lane current = adding();
        current.gathering().rollBack();
        lane = null;
        lock.unlock();
    }

    @Override
    public void letGo() {
        letGo(kernels);
        letGo(engines);
        letGo(hostEngines);
        letGo(via);
    }

    private void letGo(@Nullable Lane held) {
        if (held != null && held.isHeld()) {
            lock.lock();
            try {
                held.letGo();
            } finally {
                lock.unlock();
            }
        }
    }

    private Lane adding() {
        Lane current = lock.isHeldByCurrentThread() ? lane : null;
        if (current == null) {
            throw new IllegalStateException("begin() comes first");
        }
        return current;
    }

    // ---- polling

    @Override
    public int poll() {
        if (isIdle() || lock.isHeldByCurrentThread() || !polling.compareAndSet(false, true)) {
            return 0;
        }
        try {
            KernelLane byKernel = kernels;
            EngineLane between = via;
            return (agent == null ? 0 : agent.poll())
                    + (byKernel == null ? 0 : byKernel.poll())
                    + (between == null ? 0 : between.poll())
                    + engines.poll()
                    + hostEngines.poll();
        } finally {
            polling.setRelease(false); // who found it taken left nothing to this
        }
    }

    /// Whether nothing of a launch is under way any more. By the thread that polls.
    boolean isOver(Launch launch) {
        if (launch.isOver()) {
            return true;
        }
        String lost = broken;
        if (lost == null) {
            // Read first: if the stream is empty afterwards, a flag that was asked for before this
            // has been raised, and one that was not is not needed.
            boolean unflagged = launch.unflagged;
            if (!unflagged && !isDue(launch)) {
                return false;
            }
            boolean issuing = launch.issuing;
            int result = issuing || launch.straggler == 0 ? 0 : query(launch.straggler);
            if (result == 0) {
                if (!issuing) {
                    launch.straggler = 0;
                }
                result = query(launch.stream);
                if (result == 0 && issuing) {
                    return false;
                }
                if (result == 0 && (unflagged || launch.isRaised())) {
                    launch.over = true;
                    return true;
                }
            }
            if (result != 0 && !CudaError.isEnd(result)) {
                return false;
            }
            lost = lose(result);
        }
        launch.failAll(lost);
        launch.over = true;
        return true;
    }

    /// Whether the stream of a launch that has a flag is to be asked. By the thread that polls.
    private static boolean isDue(Launch launch) {
        long now = System.nanoTime() | 1;
        long before = launch.askedAt;
        boolean due = before != 0 && now - before >= ASK_NANOS;
        if (due || before == 0) {
            launch.askedAt = now;
        }
        return due;
    }

    /// Whether the device still lives, by one of its streams.
    ///
    /// @return null, or what ended everything
    @Nullable String ask(long stream) {
        String lost = broken;
        if (lost == null) {
            int result = query(stream);
            if (!CudaError.isEnd(result)) {
                return null;
            }
            lost = lose(result);
        }
        return lost;
    }

    private String lose(int result) {
        String lost =
                result == 0
                        ? "work on %s ended without its flag".formatted(device)
                        : "%s failed: %s".formatted(device, CudaError.describe(result));
        broken = lost;
        return lost;
    }

    /// Asks a stream whether its work has ended. An error says nothing of that, unless it is
    /// [CudaError#isEnd]: what copies may go on, and its memory must not be used again.
    ///
    /// @return 0, or minus the code; also of a failure to ask
    private int query(long stream) {
        int result;
        try {
            long before = context.enter();
            try {
                result = CudaStreams.query(stream);
            } finally {
                context.exit(before);
            }
        } catch (TelpherException.NativeFailure e) {
            result = -Math.max(1, e.errno());
        }
        boolean told = result == 0 || result == -CudaError.CUDA_ERROR_NOT_READY;
        if (!told && !CudaError.isEnd(result) && !unanswered) {
            unanswered = true;
            Log.warning(
                    "%s does not say whether its copies have ended, which are waited for: %s"
                            .formatted(device, CudaError.describe(result)),
                    null);
        }
        return result;
    }

    @Override
    public boolean isIdle() {
        return added.get() == told.get();
    }

    boolean tryLock() {
        return lock.tryLock();
    }

    void unlock() {
        lock.unlock();
    }

    /// By the thread that polls.
    void told(int jobs) {
        told.setRelease(told.getPlain() + jobs);
    }

    // ---- failures

    /// Notes an error of the driver: one that ends the context ends the queue.
    void note(TelpherException.NativeFailure e) {
        if (CudaError.isSticky(e.errno())) {
            broken = "%s failed: %s".formatted(device, message(e));
        }
    }

    static String message(TelpherException.NativeFailure e) {
        String message = e.getMessage();
        return message == null ? e.toString() : message;
    }

    /// For tests: launches of kernels, and of copy engines.
    long kernelLaunches() {
        KernelLane byKernel = kernels;
        return byKernel == null ? 0 : byKernel.launched();
    }

    long engineLaunches() {
        EngineLane between = via;
        return engines.launched()
                + hostEngines.launched()
                + (between == null ? 0 : between.launched());
    }
}

package io.telpher.internal.device.cuda;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.TelpherException;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.ffi.NativeLibrary;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaModules;
import io.telpher.internal.ffi.cuda.CudaStreams;
import io.telpher.internal.ffi.cuda.KernelArguments;
import io.telpher.internal.memory.Raw;
import java.lang.foreign.Arena;
import java.lang.invoke.VarHandle;
import org.jspecify.annotations.Nullable;

/// A kernel that stays on one multiprocessor and takes small jobs from pinned memory, so that
/// they need no launch: `kernels.cu` says what it does. It leaves when nothing comes, and after
/// its time in any case, since others may wait for the device; the next job launches it again.
///
/// ```text
/// ring of 128-byte commands: words of 4 bytes, each beside the command's number
/// 0 to (2)   16 from (2)   32 bytes   40 update: 0 none, 1 set, 2 add   48 its address (2)
/// 64 its value (2)
/// parameters: 0 ring*   8 flags*   16 leaving*   24 next*   32 launch   40 idle ns   48 life ns
/// 56 size
/// ```
///
/// Jobs end in the order in which they came. The queue's lock guards it, but for [#poll].
final class Agent {
    private static final int SIZE = 16;
    private static final long COMMAND = 128;
    private static final int PARAMETERS = 64;

    /// When to ask the stream whether the device still lives.
    private static final long ASK_NANOS = 5_000_000;

    private static final VarHandle LONG = JAVA_LONG.varHandle();

    private final CudaQueue queue;
    private final long kernel;
    private final long stream;
    private final long ring;
    private final long flags;
    private final long leaving;
    private final long parameters;
    private final KernelArguments arguments = new KernelArguments(Arena.global(), 1);
    private final CopyQueue.@Nullable Job[] owners = new CopyQueue.Job[SIZE];

    /// Number of the last command that was given, and of the last one whose owner was told.
    private volatile long given;

    private volatile long told;

    private long launch;

    /// Whether it is gone though a command waits: a launch failed. Polls try again.
    private volatile boolean missing;

    private long askedAt;

    /// @param kernel `telpher_agent`
    /// @param stream of its own
    Agent(CudaQueue queue, PinnedPool pool, long kernel, long stream) {
        this.queue = queue;
        this.kernel = kernel;
        this.stream = stream;
        PinnedPool.Block block = pool.take(4096);
        Raw.ALL.asSlice(block.address(), block.bytes()).fill((byte) 0);
        ring = block.address();
        flags = ring + SIZE * COMMAND;
        leaving = flags + SIZE * Long.BYTES;
        long next = leaving + 64;
        // The first command has number 1, for an empty ring is full of zeros.
        Raw.ALL.set(JAVA_LONG, next, 1);
        parameters = Arena.global().allocate(PARAMETERS, 8).address();
        Raw.ALL.set(JAVA_LONG, parameters, ring);
        Raw.ALL.set(JAVA_LONG, parameters + 8, flags);
        Raw.ALL.set(JAVA_LONG, parameters + 16, leaving);
        Raw.ALL.set(JAVA_LONG, parameters + 24, next);
        Raw.ALL.set(JAVA_LONG, parameters + 40, 1000 * queue.tuning().agentIdle());
        Raw.ALL.set(JAVA_LONG, parameters + 48, 1000 * queue.tuning().agentLife());
        Raw.ALL.set(JAVA_LONG, parameters + 56, SIZE);
        arguments.point(0, parameters);
    }

    /// Runs it once, on nothing: the driver loads its code at the first launch, and may wait for
    /// everything else on the device then.
    ///
    /// @throws TelpherException.NativeFailure when it does not run
    void warmUp() {
        CudaModules.launch(kernel, 1, queue.tuning().threads(), 0, stream, first());
        CudaStreams.synchronize(stream);
        if (!isGone()) {
            throw new TelpherException.NativeFailure(
                    "cuLaunchKernel",
                    CudaError.CUDA_ERROR_UNKNOWN,
                    NativeLibrary.arguments(kernel),
                    "the kernel ended without its word");
        }
    }

    private KernelArguments first() {
        launch = 1;
        Raw.ALL.set(JAVA_LONG, parameters + 32, launch);
        return arguments;
    }

    /// Takes the only job of a launch that has not gone out, if it can: one piece and one
    /// update at most.
    ///
    /// @return whether it did
    boolean take(Launch job, CopyQueue.Job owner) {
        if (job.pieces() > 1
                || job.updates() > 1
                || job.pieces() + job.updates() == 0
                || given - told >= queue.tuning().agentWindow()
                || missing
                || (isGone() && !launch())) {
            return false;
        }
        long number = given + 1;
        int slot = (int) (number % SIZE);
        owners[slot] = owner;
        if (given == told) {
            askedAt = System.nanoTime();
        }
        boolean copies = job.pieces() > 0;
        boolean updates = job.updates() > 0;
        long at = ring + slot * COMMAND;
        long mark = number << 32;
        words(at, copies ? job.to(0) : 0, mark);
        words(at + 16, copies ? job.from(0) : 0, mark);
        word(at + 32, copies ? job.length(0) : 0, mark);
        word(at + 40, !updates ? 0 : job.updateAdds(0) ? 2 : 1, mark);
        words(at + 48, updates ? job.updateAddress(0) : 0, mark);
        words(at + 64, updates ? job.updateValue(0) : 0, mark);
        given = number;
        // It looks for commands once more after it has said that it leaves: so it sees this one, or
        // else this thread sees that it leaves.
        VarHandle.fullFence();
        if (isGone()) {
            missing = !launch();
        }
        return true;
    }

    private static void words(long at, long value, long mark) {
        word(at, value & 0xffff_ffffL, mark);
        word(at + 8, value >>> 32, mark);
    }

    private static void word(long at, long value, long mark) {
        LONG.setRelease(Raw.ALL, at, value | mark);
    }

    private boolean isGone() {
        return (long) LONG.getAcquire(Raw.ALL, leaving) == launch;
    }

    /// Behind one that is leaving the next one waits in the stream.
    private boolean launch() {
        Raw.ALL.set(JAVA_LONG, parameters + 32, launch + 1);
        long before = queue.context().enter();
        try {
            CudaModules.launch(kernel, 1, queue.tuning().threads(), 0, stream, arguments);
            launch++;
            return true;
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
            return false;
        } finally {
            queue.context().exit(before);
        }
    }

    /// See [CudaQueue#poll]. One thread at a time.
    int poll() {
        int ended = 0;
        while (told != given) {
            long number = told + 1;
            int slot = (int) (number % SIZE);
            String failure = null;
            if ((long) LONG.getAcquire(Raw.ALL, flags + slot * (long) Long.BYTES) != number) {
                failure = missing || isLate() ? rescue() : null;
                if (failure == null) {
                    return ended;
                }
            }
            CopyQueue.Job owner = owners[slot];
            owners[slot] = null;
            told = number;
            askedAt = System.nanoTime();
            queue.told(1);
            ended++;
            if (owner != null) {
                owner.ended(failure);
            }
        }
        return ended;
    }

    private boolean isLate() {
        return queue.lost() != null || System.nanoTime() - askedAt > ASK_NANOS;
    }

    /// Looks after a command that takes long: whether the device is lost, or the kernel not
    /// there.
    ///
    /// @return what ended everything, or null
    private @Nullable String rescue() {
        String broken = queue.ask(stream);
        askedAt = System.nanoTime();
        if (broken == null && missing && queue.tryLock()) {
            try {
                missing = !launch();
            } finally {
                queue.unlock();
            }
        }
        return broken;
    }
}

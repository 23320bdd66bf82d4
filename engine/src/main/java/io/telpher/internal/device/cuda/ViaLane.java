package io.telpher.internal.device.cuda;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.CudaEvents;
import io.telpher.internal.ffi.cuda.CudaStreams;
import io.telpher.internal.memory.Raw;
import java.util.ArrayDeque;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/// Copies by copy engines between two other devices, in chunks through buffers in this device's
/// memory, of which some are filled while others are emptied:
///
/// ```text
/// `in`          wait until the buffer is emptied; copy into it; it is filled
/// the launch's  wait until it is filled; copy out of it; it is emptied
/// ```
///
/// All of it is the driver's to order: no thread waits in between. It is given no more than it
/// takes without blocking, and more whenever the queue is polled. One pair of streams does behind
/// an NVSwitch, where it takes both directions of this device's link already; where each of the two
/// devices has links of its own, what goes the other way has to wait for it.
final class ViaLane extends EngineLane {
    /// A piece has at least so many chunks, as long as they stay larger than a quarter of a
    /// buffer: while the first one comes in nothing goes out.
    private static final int CHUNKS = 8;

    /// Of chunks: a page, so that no engine has to begin or end inside a line of memory.
    private static final long ALIGNMENT = 4096;

    /// Chunks that the driver has at a time: three commands each on either stream, a fifth of the
    /// thousand or so that a stream takes, and several times what the buffers hold.
    private static final int MOST_CHUNKS = 64;

    /// So often the device says how far it is.
    private static final int REPORT = 16;

    private final long in;
    private final int bufferBytes;
    private final long[] buffers;
    private final long[] filled;
    private final long[] emptied;

    /// A pinned word with the number of chunks that have ended, as far as that was reported.
    private final long ended;

    // Under the queue's lock.
    private int next;

    /// Chunks that were given to the driver.
    private long begun;

    /// Of how many the end is not asked for: their report was refused.
    private long unreported;

    /// Launches that the driver has not got all of.
    private final ArrayDeque<Launch> waiting = new ArrayDeque<>();

    /// Whether there are any; for those without the lock.
    private volatile boolean hasWaiting;

    // How far the first of them is.
    private int job;
    private int piece;
    private long at;

    private ViaLane(
            CudaQueue queue,
            @Nullable Kernels kernels,
            PinnedPool pool,
            long[] streams,
            long[] buffers,
            long[] filled,
            long[] emptied) {
        super(queue, kernels, queue.tuning().engineWindow(), pool, new long[] {streams[0]});
        this.in = streams[1];
        this.bufferBytes = queue.tuning().viaBytes();
        this.buffers = buffers;
        this.filled = filled;
        this.emptied = emptied;
        this.ended = pool.take(Long.BYTES).address();
        Raw.ALL.set(JAVA_LONG, ended, 0);
    }

    /// What the driver may have no room for comes first, so that nothing is made in vain.
    ///
    /// @param held keeps all that it needs; the caller's when that fails
    static ViaLane make(CudaQueue queue, @Nullable Kernels kernels, Held held) {
        Tuning tuning = queue.tuning();
        int count = tuning.viaBuffers();
        long[] buffers =
                LongStream.range(0, count).map(i -> held.memory(tuning.viaBytes())).toArray();
        return new ViaLane(
                queue,
                kernels,
                new PinnedPool(queue.context(), held),
                held.streams(2, 0),
                buffers,
                LongStream.range(0, count).map(i -> held.event()).toArray(),
                LongStream.range(0, count).map(i -> held.event()).toArray());
    }

    @Override
    void issue(Launch launch) {
        launch.issuing = true;
        waiting.add(launch);
        giveMore();
    }

    /// Gives the driver what it takes without blocking. The context is current.
    private void giveMore() {
        for (Launch launch = waiting.peek();
                launch != null && isGiven(launch);
                launch = waiting.peek()) {
            end(launch);
            launch.issuing = false;
            forget(launch);
        }
        hasWaiting = !waiting.isEmpty();
    }

    @Override
    void forget(Launch launch) {
        if (waiting.peek() == launch) {
            job = 0;
            piece = 0;
            at = 0;
        }
        waiting.remove(launch);
    }

    @Override
    int poll() {
        if (hasWaiting && queue.tryLock()) {
            try {
                long before = queue.context().enter();
                try {
                    giveMore();
                } finally {
                    queue.context().exit(before);
                }
            } catch (TelpherException.NativeFailure e) {
                queue.note(e); // of the context: what waits ends when that is found to be lost
            } finally {
                queue.unlock();
            }
        }
        return super.poll();
    }

    /// @return whether the driver has all chunks of the launch
    private boolean isGiven(Launch launch) {
        while (job < launch.jobs()) {
            if (piece == launch.pieceBegin(job) && at == 0) {
                begin(launch, job);
            }
            if (launch.failed(job) || piece == launch.pieceEnd(job)) {
                piece = launch.pieceEnd(job);
                at = 0;
                job++;
            } else if (begun - ended() < MOST_CHUNKS) {
                give(launch);
            } else {
                return false;
            }
        }
        return true;
    }

    private long ended() {
        return Math.max(unreported, (long) Launch.LONG.getAcquire(Raw.ALL, ended));
    }

    /// Gives the driver the next chunk.
    private void give(Launch launch) {
        long bytes = launch.length(piece);
        long share = (bytes / CHUNKS + ALIGNMENT) & -ALIGNMENT;
        long chunk = Math.min(Math.clamp(share, bufferBytes / 4, bufferBytes), bytes - at);
        try {
            forward(launch, launch.to(piece) + at, launch.from(piece) + at, chunk);
        } catch (TelpherException.NativeFailure e) {
            // The launch's stream may not wait for what has come into a buffer.
            launch.straggler = in;
            refused(launch, job, e);
        }
        at += chunk;
        if (at == bytes) {
            at = 0;
            piece++;
        }
    }

    private void forward(Launch launch, long to, long from, long bytes) {
        long out = launch.stream;
        int slot = next;
        next = (next + 1) % buffers.length;
        CudaStreams.waitEvent(in, emptied[slot]);
        copy(launch, buffers[slot], from, bytes, in);
        CudaEvents.record(filled[slot], in);
        CudaStreams.waitEvent(out, filled[slot]);
        copy(launch, to, buffers[slot], bytes, out);
        CudaEvents.record(emptied[slot], out);
        if (++begun % REPORT == 0) {
            report(out);
        }
    }

    private void report(long out) {
        try {
            CudaStreams.writeValue64(out, ended, begun, FLAGS);
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
            unreported = begun;
        }
    }
}

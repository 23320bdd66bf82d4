package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.CudaEvents;
import io.telpher.internal.ffi.cuda.CudaStreams;
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
/// All of it is the driver's to order: no thread waits in between. One pair of streams does behind
/// an NVSwitch, where it takes both directions of this device's link already; where each of the two
/// devices has links of its own, what goes the other way has to wait for it.
final class ViaLane extends EngineLane {
    /// A piece has at least so many chunks, as long as they stay larger than a quarter of a
    /// buffer: while the first one comes in nothing goes out.
    private static final int CHUNKS = 8;

    /// Of chunks: a page, so that no engine has to begin or end inside a line of memory.
    private static final long ALIGNMENT = 4096;

    private final long in;
    private final int bufferBytes;
    private final long[] buffers;
    private final long[] filled;
    private final long[] emptied;
    private int next;

    private ViaLane(
            CudaQueue queue,
            @Nullable Kernels kernels,
            long[] streams,
            long[] buffers,
            long[] filled,
            long[] emptied) {
        super(queue, kernels, new long[] {streams[0]});
        this.in = streams[1];
        this.bufferBytes = queue.tuning().viaBytes();
        this.buffers = buffers;
        this.filled = filled;
        this.emptied = emptied;
    }

    /// What the driver may have no room for comes first, so that nothing is made in vain.
    ///
    /// @param held keeps what it needs besides its launches; the caller's when that fails
    static ViaLane make(CudaQueue queue, @Nullable Kernels kernels, Held held) {
        Tuning tuning = queue.tuning();
        int count = tuning.viaBuffers();
        return new ViaLane(
                queue,
                kernels,
                held.streams(2, 0),
                LongStream.range(0, count).map(i -> held.memory(tuning.viaBytes())).toArray(),
                LongStream.range(0, count).map(i -> held.event()).toArray(),
                LongStream.range(0, count).map(i -> held.event()).toArray());
    }

    @Override
    void copy(Launch launch, int piece) {
        long to = launch.to(piece);
        long from = launch.from(piece);
        long bytes = launch.length(piece);
        long share = (bytes / CHUNKS + ALIGNMENT) & -ALIGNMENT;
        long chunk = Math.clamp(share, bufferBytes / 4, bufferBytes);
        try {
            for (long at = 0; at < bytes; at += chunk) {
                forward(to + at, from + at, Math.min(chunk, bytes - at), launch.stream);
            }
        } catch (TelpherException.NativeFailure e) {
            // Nothing else tells when what was started has ended, and its buffers are free.
            settle(in);
            settle(launch.stream);
            throw e;
        }
    }

    private void forward(long to, long from, long bytes, long out) {
        int slot = next;
        next = (next + 1) % buffers.length;
        CudaStreams.waitEvent(in, emptied[slot]);
        copy(buffers[slot], from, bytes, in);
        CudaEvents.record(filled[slot], in);
        CudaStreams.waitEvent(out, filled[slot]);
        copy(to, buffers[slot], bytes, out);
        CudaEvents.record(emptied[slot], out);
    }

    /// The launch's stream has waited for everything already.
    @Override
    void join(Launch launch) {}
}

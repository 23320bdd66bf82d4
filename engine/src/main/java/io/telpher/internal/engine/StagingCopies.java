package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.MemorySlices;
import io.telpher.internal.device.CopyQueue;

/// Copies between memory of one GPU and a page-locked buffer, as one job.
final class StagingCopies {
    private StagingCopies() {}

    /// Where bytes go.
    enum Direction {
        /// Into the buffer.
        OUT,
        /// Out of the buffer.
        IN
    }

    /// Gives a job to the GPU's queue, which tells of its end.
    ///
    /// @param at position in the operation's stream; what follows from there lies on that GPU
    /// @param buffer address of the first byte in the buffer
    static void add(
            CopyQueue queue,
            Device by,
            Operation op,
            long at,
            long bytes,
            long buffer,
            Direction direction,
            CopyQueue.Job done) {
        MemorySlices slices = op.localPieces;
        int pieces = slices == null ? 1 : slices.pieceAt(at + bytes - 1) - slices.pieceAt(at) + 1;
        add(
                queue,
                pieces,
                bytes,
                () -> {
                    for (long moved = 0; moved < bytes; ) {
                        long n = Math.min(op.contiguous(at + moved), bytes - moved);
                        long there = op.regionAt(at + moved).address(by) + op.offsetAt(at + moved);
                        long here = buffer + moved;
                        if (direction == Direction.OUT) {
                            queue.copy(here, there, n);
                        } else {
                            queue.copy(there, here, n);
                        }
                        moved += n;
                    }
                },
                done);
    }

    /// The same for copies that `adding` adds to the queue.
    static void add(CopyQueue queue, int pieces, long bytes, Runnable adding, CopyQueue.Job done) {
        queue.begin(CopyQueue.Way.HOST, pieces, bytes);
        boolean complete = false;
        try {
            adding.run();
            complete = true;
        } finally {
            if (!complete) {
                queue.abandon();
            }
        }
        queue.end(done);
    }
}

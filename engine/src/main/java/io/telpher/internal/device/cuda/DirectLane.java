package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.CudaEvents;
import io.telpher.internal.ffi.cuda.CudaStreams;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// Copies by copy engines, straight from where the bytes are to where they go: one call for each
/// piece, two for a large one.
final class DirectLane extends EngineLane {
    private final long[] streams;

    /// One for each stream: where it stood when another one was to wait for it.
    private final long[] events;

    /// The stream besides the launch's own that has a half of a piece, or -1.
    private int halves = -1;

    /// What went out without a flag, as long as its stream has nothing behind it; under the queue's
    /// lock.
    private @Nullable Launch lone;

    DirectLane(CudaQueue queue, @Nullable Kernels kernels, long[] streams) {
        super(queue, kernels, queue.tuning().engineWindow(), queue.pool(), streams);
        this.streams = streams;
        this.events = new long[streams.length];
        Arrays.setAll(events, i -> queue.held().event());
    }

    @Override
    void issue(Launch launch) {
        flagLone();
        for (int job = 0; job < launch.jobs(); job++) {
            begin(launch, job);
            for (int i = launch.pieceBegin(job);
                    i < launch.pieceEnd(job) && !launch.failed(job);
                    i++) {
                try {
                    copy(launch, i);
                } catch (TelpherException.NativeFailure e) {
                    refused(launch, job, e);
                }
            }
        }
        join(launch);
        end(launch);
    }

    /// A flag costs a call of the driver, and the device about a microsecond behind the copy. One
    /// short copy with nothing before and behind it need not pay that.
    @Override
    boolean goesAlone(Launch launch) {
        boolean alone =
                isEmpty()
                        && launch.pieces() == 1
                        && launch.updates() == 0
                        && launch.straggler == 0
                        && launch.bytes() <= queue.tuning().askBytes();
        if (alone) {
            lone = launch;
        }
        return alone;
    }

    /// Before anything of another launch is started: the one that went out alone gets its flag,
    /// since from now on its stream says more than that it has ended.
    private void flagLone() {
        Launch before = lone;
        lone = null;
        if (before != null) {
            before.unflagged = !flag(before);
        }
    }

    @Override
    void forget(Launch launch) {
        if (launch == lone) {
            lone = null;
        }
    }

    private void copy(Launch launch, int piece) {
        long to = launch.to(piece);
        long from = launch.from(piece);
        long bytes = launch.length(piece);
        long splitBytes = queue.tuning().splitBytes();
        int second = splitBytes > 0 && bytes >= splitBytes ? second(launch.stream) : -1;
        if (second < 0) {
            copy(launch, to, from, bytes, launch.stream);
            return;
        }
        long half = bytes / 2 & -4096;
        copy(launch, to + half, from + half, bytes - half, streams[second]);
        halves = second;
        if (half > 0) {
            copy(launch, to, from, half, launch.stream);
        }
    }

    /// A stream besides this one, or -1.
    private int second(long stream) {
        for (int i = 0; i < streams.length && streams.length > 1; i++) {
            if (streams[i] == stream) {
                return (i + 1) % streams.length;
            }
        }
        return -1;
    }

    /// Lets the launch's stream wait for the halves on the other one.
    private void join(Launch launch) {
        int second = halves;
        halves = -1;
        if (second < 0) {
            return;
        }
        try {
            CudaEvents.record(events[second], streams[second]);
            CudaStreams.waitEvent(launch.stream, events[second]);
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
            launch.failAll(CudaQueue.message(e));
            launch.straggler = streams[second];
        }
    }
}

package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.CudaCopies;
import io.telpher.internal.ffi.cuda.CudaEvents;
import io.telpher.internal.ffi.cuda.CudaModules;
import io.telpher.internal.ffi.cuda.CudaStreams;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// Copies by copy engines: one call for each piece. Updates go by a kernel, behind the copies;
/// where there are no kernels a stream can set a word, but not add to one.
final class EngineLane extends Lane {
    private static final int FLAGS = CudaStreams.CU_STREAM_WRITE_VALUE_DEFAULT;

    private final @Nullable Kernels kernels;
    private final long[] streams;

    /// One for each stream: where it stood when another one was to wait for it.
    private final long[] events;

    EngineLane(CudaQueue queue, @Nullable Kernels kernels, int window, long[] streams) {
        super(queue, window, streams);
        this.kernels = kernels;
        this.streams = streams;
        this.events = new long[streams.length];
        Arrays.setAll(events, i -> queue.held().event());
    }

    @Override
    void issue(Launch launch) {
        boolean started = false;
        boolean split = false;
        int second = second(launch.stream);
        long splitBytes = queue.tuning().splitBytes();
        for (int job = 0; job < launch.jobs(); job++) {
            if (kernels == null && !launch.failed(job) && hasAdds(launch, job)) {
                launch.fail(job, queue.withoutKernels());
            }
            for (int i = launch.pieceBegin(job);
                    i < launch.pieceEnd(job) && !launch.failed(job);
                    i++) {
                long bytes = launch.length(i);
                try {
                    if (splitBytes > 0 && bytes >= splitBytes && second >= 0) {
                        long half = bytes / 2 & -4096;
                        copy(launch, i, half, bytes - half, streams[second]);
                        split = true;
                        started = true;
                        copy(launch, i, 0, half, launch.stream);
                    } else {
                        copy(launch, i, 0, bytes, launch.stream);
                        started = true;
                    }
                } catch (TelpherException.NativeFailure e) {
                    queue.note(e);
                    launch.fail(job, CudaQueue.message(e));
                }
            }
        }
        if (split) {
            join(launch, second);
        }
        end(launch, started);
    }

    private static void copy(Launch launch, int piece, long at, long bytes, long stream) {
        if (bytes > 0) {
            CudaCopies.copy(launch.to(piece) + at, launch.from(piece) + at, bytes, stream);
        }
    }

    private static boolean hasAdds(Launch launch, int job) {
        for (int i = launch.updateBegin(job); i < launch.updateEnd(job); i++) {
            if (launch.updateAdds(i)) {
                return true;
            }
        }
        return false;
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

    /// Lets the launch's stream wait for the other halves.
    private void join(Launch launch, int second) {
        try {
            CudaEvents.record(events[second], streams[second]);
            CudaStreams.waitEvent(launch.stream, events[second]);
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
            launch.failAll(CudaQueue.message(e));
            // Nothing but this tells when the halves have ended.
            settle(streams[second]);
        }
    }

    /// Waits on the spot; for what cannot be told otherwise.
    private void settle(long stream) {
        try {
            CudaStreams.synchronize(stream);
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
        }
    }

    /// Updates, then the flag.
    private void end(Launch launch, boolean started) {
        launch.dropFailedUpdates();
        if (launch.updates() > 0 && kernels != null) {
            try {
                CudaModules.launch(
                        kernels.small(), 1, 128, 0, launch.stream, launch.arguments(4, false));
                return;
            } catch (TelpherException.NativeFailure e) {
                queue.note(e);
                failUpdates(launch, e);
            }
        } else {
            for (int job = 0; job < launch.jobs(); job++) {
                started |= set(launch, job);
            }
        }
        if (!started) {
            launch.over = true;
            return;
        }
        try {
            CudaStreams.writeValue64(launch.stream, launch.flag(), launch.sequence(), FLAGS);
        } catch (TelpherException.NativeFailure e) {
            // The copies are under way all the same; poll asks the stream about them.
            queue.note(e);
            launch.unflagged = true;
        }
    }

    private static void failUpdates(Launch launch, TelpherException.NativeFailure e) {
        for (int job = 0; job < launch.jobs(); job++) {
            if (launch.updateBegin(job) < launch.updateEnd(job)) {
                launch.fail(job, CudaQueue.message(e));
            }
        }
    }

    private boolean set(Launch launch, int job) {
        boolean started = false;
        try {
            for (int i = launch.updateBegin(job); i < launch.updateEnd(job); i++) {
                CudaStreams.writeValue64(
                        launch.stream, launch.updateAddress(i), launch.updateValue(i), FLAGS);
                started = true;
            }
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
            launch.fail(job, CudaQueue.message(e));
        }
        return started;
    }
}

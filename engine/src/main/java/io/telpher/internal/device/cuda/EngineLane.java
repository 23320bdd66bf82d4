package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.CudaCopies;
import io.telpher.internal.ffi.cuda.CudaModules;
import io.telpher.internal.ffi.cuda.CudaStreams;
import org.jspecify.annotations.Nullable;

/// Launches whose copies copy engines make. Updates go by a kernel, behind the copies; where there
/// are no kernels a stream can set a word, but not add to one.
abstract class EngineLane extends Lane {
    private static final int FLAGS = CudaStreams.CU_STREAM_WRITE_VALUE_DEFAULT;

    private final @Nullable Kernels kernels;

    /// Whether something of the launch that goes out is under way.
    private boolean started;

    EngineLane(CudaQueue queue, @Nullable Kernels kernels, long[] streams) {
        super(queue, queue.tuning().engineWindow(), streams);
        this.kernels = kernels;
    }

    /// Starts the copies of a piece; says [#started] of each.
    ///
    /// @throws TelpherException.NativeFailure when the driver refuses one; what was started goes on
    abstract void copy(Launch launch, int piece);

    /// All pieces are started: lets the launch's stream wait for what runs on others.
    abstract void join(Launch launch);

    /// Starts a copy.
    final void copy(long to, long from, long bytes, long stream) {
        CudaCopies.copy(to, from, bytes, stream);
        started = true;
    }

    @Override
    void issue(Launch launch) {
        started = false;
        for (int job = 0; job < launch.jobs(); job++) {
            if (kernels == null && !launch.failed(job) && hasAdds(launch, job)) {
                launch.fail(job, queue.withoutKernels());
            }
            for (int i = launch.pieceBegin(job);
                    i < launch.pieceEnd(job) && !launch.failed(job);
                    i++) {
                try {
                    copy(launch, i);
                } catch (TelpherException.NativeFailure e) {
                    queue.note(e);
                    launch.fail(job, CudaQueue.message(e));
                }
            }
        }
        join(launch);
        end(launch);
    }

    private static boolean hasAdds(Launch launch, int job) {
        for (int i = launch.updateBegin(job); i < launch.updateEnd(job); i++) {
            if (launch.updateAdds(i)) {
                return true;
            }
        }
        return false;
    }

    /// Waits on the spot; for what cannot be told otherwise.
    final void settle(long stream) {
        try {
            CudaStreams.synchronize(stream);
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
        }
    }

    /// Updates, then the flag.
    private void end(Launch launch) {
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
                set(launch, job);
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

    private void set(Launch launch, int job) {
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
    }
}

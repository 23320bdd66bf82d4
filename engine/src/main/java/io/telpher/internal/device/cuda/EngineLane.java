package io.telpher.internal.device.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.CudaCopies;
import io.telpher.internal.ffi.cuda.CudaModules;
import io.telpher.internal.ffi.cuda.CudaStreams;
import org.jspecify.annotations.Nullable;

/// Launches whose copies copy engines make. Updates go by a kernel, behind the copies; where there
/// are no kernels a stream can set a word, but not add to one.
abstract class EngineLane extends Lane {
    static final int FLAGS = CudaStreams.CU_STREAM_WRITE_VALUE_DEFAULT;

    private final @Nullable Kernels kernels;

    EngineLane(
            CudaQueue queue,
            @Nullable Kernels kernels,
            int window,
            PinnedPool pool,
            long[] streams) {
        super(queue, window, pool, streams);
        this.kernels = kernels;
    }

    /// Starts a copy of a launch, all of whose work its own stream waits for unless it gets a
    /// [Launch#straggler].
    final void copy(Launch launch, long to, long from, long bytes, long stream) {
        CudaCopies.copy(to, from, bytes, stream);
        launch.started = true;
    }

    /// Begins a job: fails what cannot be done without kernels.
    final void begin(Launch launch, int job) {
        if (kernels == null && !launch.failed(job) && hasAdds(launch, job)) {
            launch.fail(job, queue.withoutKernels());
        }
    }

    /// The driver has refused something of a job. What was started goes on.
    final void refused(Launch launch, int job, TelpherException.NativeFailure e) {
        queue.note(e);
        launch.fail(job, CudaQueue.message(e));
    }

    private static boolean hasAdds(Launch launch, int job) {
        for (int i = launch.updateBegin(job); i < launch.updateEnd(job); i++) {
            if (launch.updateAdds(i)) {
                return true;
            }
        }
        return false;
    }

    /// All copies are started, and the launch's stream waits for them: updates, then the flag.
    final void end(Launch launch) {
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
        if (!launch.started) {
            launch.over = true;
            return;
        }
        launch.unflagged = goesAlone(launch) || !flag(launch);
    }

    /// Whether a launch, all of which was started, needs no flag: its stream is asked instead.
    boolean goesAlone(Launch launch) {
        return false;
    }

    /// @return false where the driver refuses: the copies are under way all the same, and poll asks
    ///     the stream about them
    final boolean flag(Launch launch) {
        try {
            CudaStreams.writeValue64(launch.stream, launch.flag(), launch.sequence(), FLAGS);
            return true;
        } catch (TelpherException.NativeFailure e) {
            queue.note(e);
            return false;
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
                launch.started = true;
            }
        } catch (TelpherException.NativeFailure e) {
            refused(launch, job, e);
        }
    }
}

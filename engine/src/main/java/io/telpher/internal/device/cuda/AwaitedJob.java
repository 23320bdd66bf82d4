package io.telpher.internal.device.cuda;

import io.telpher.internal.device.CopyQueue;
import org.jspecify.annotations.Nullable;

/// A job that its caller waits for: microseconds, or else the driver's error comes.
final class AwaitedJob implements CopyQueue.Job {
    private @Nullable String failure;
    private volatile boolean ended;

    @Override
    public void ended(@Nullable String reason) {
        failure = reason;
        ended = true;
    }

    /// Waits for the end, polling.
    ///
    /// @return the driver's error, or null
    @Nullable String await(CopyQueue by) {
        while (!ended) {
            int unused = by.poll();
            Thread.onSpinWait();
        }
        return failure;
    }
}

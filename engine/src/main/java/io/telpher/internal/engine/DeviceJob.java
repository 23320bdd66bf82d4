package io.telpher.internal.engine;

import io.telpher.internal.device.CopyQueue;
import io.telpher.spi.Window;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The part of an operation that a GPU is copying: one at a time for each operation, whose
/// `copying` it is. Belongs to the thread that launches it, then to the queue, then to the thread
/// that finds it ended.
final class DeviceJob implements CopyQueue.Job {
    private final DeviceCopies copies;
    final Operation op;
    final PieceWalk walk = new PieceWalk();

    /// The windows that were told of it.
    final List<Window> joined = new ArrayList<>(2);

    /// Bytes of it.
    long bytes;

    /// The driver's error, or null; once it has ended.
    @Nullable String failure;

    /// The next of those that have ended.
    @Nullable DeviceJob next;

    DeviceJob(DeviceCopies copies, Operation op) {
        this.copies = copies;
        this.op = op;
    }

    /// The owners may close their regions before the operation ends, not the other way round.
    @Override
    public void ended(@Nullable String why) {
        failure = why;
        try {
            leave();
        } finally {
            copies.ended(this);
        }
    }

    void leave() {
        for (Window window : joined) {
            window.leave();
        }
        joined.clear();
    }
}

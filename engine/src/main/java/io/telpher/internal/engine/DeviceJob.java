package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.internal.device.CopyQueue;
import io.telpher.spi.Window;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The part of an operation that a GPU is copying through windows: one at a time for each
/// operation, whose `copying` it is.
final class DeviceJob extends DeviceQueues.Job {
    private final OneSided oneSided;
    final Operation op;
    final PieceWalk walk = new PieceWalk();

    /// The windows that were told of it.
    final List<Window> joined = new ArrayList<>(2);

    /// Bytes of it.
    long bytes;

    /// What copies it.
    @Nullable CopyQueue queue;

    /// The GPU that carries it between two others, or null.
    @Nullable Device through;

    DeviceJob(DeviceQueues queues, OneSided oneSided, Operation op) {
        super(queues);
        this.oneSided = oneSided;
        this.op = op;
    }

    /// Whether it failed with its GPU, so that nobody knows whether its copies have ended.
    boolean isLost() {
        CopyQueue by = queue;
        return failure != null && by != null && by.lost() != null;
    }

    /// The owners may close their regions before the operation ends, not the other way round.
    @Override
    void leave() {
        for (Window window : joined) {
            window.leave();
        }
        joined.clear();
    }

    @Override
    void takeUp() {
        oneSided.copied(this);
    }
}

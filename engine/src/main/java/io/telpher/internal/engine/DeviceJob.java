package io.telpher.internal.engine;

import io.telpher.Device;
import io.telpher.internal.device.CopyQueue;
import io.telpher.spi.Window;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/// The part of an operation that a GPU is copying through windows: one at a time for each
/// operation, whose `copying` it is. It goes to the GPU's queue in steps, and has ended when all
/// steps have and no more come.
final class DeviceJob extends DeviceQueues.Job {
    private final OneSided oneSided;
    private final DeviceQueues queues;
    final Operation op;
    final PieceWalk walk = new PieceWalk();

    /// What the queue tells of the end of each step.
    final CopyQueue.Job step = this::stepEnded;

    /// Steps that have not ended, and one more as long as others may be added. With the first step
    /// nobody else knows of the job yet, and the queue publishes what was written before.
    private final AtomicInteger open = new AtomicInteger();

    /// Why a step failed, or null.
    private volatile @Nullable String stepFailure;

    /// The windows that were told of it.
    final List<Window> joined = new ArrayList<>(2);

    /// Of the step that was looked at last: where it goes, how many pieces, and bytes.
    CopyQueue.Way way = CopyQueue.Way.LOCAL;

    int pieces;
    long looked;

    /// Bytes of all steps that were launched.
    long bytes;

    /// What copies it.
    @Nullable CopyQueue queue;

    /// Whether an owner had closed its region before the last copy had ended.
    boolean touchedClosed;

    /// The GPU that carries it between two others, or null.
    @Nullable Device through;

    DeviceJob(DeviceQueues queues, OneSided oneSided, Operation op) {
        super(queues);
        this.queues = queues;
        this.oneSided = oneSided;
        this.op = op;
    }

    /// Ready for steps.
    void begin() {
        bytes = 0;
        through = null;
        touchedClosed = false;
        if (stepFailure != null) { // a volatile write is a fence
            stepFailure = null;
        }
    }

    /// A step is about to be given to the queue.
    void add(long stepBytes) {
        if (bytes == 0) {
            queues.begun();
            open.setPlain(2);
        } else {
            open.incrementAndGet();
        }
        bytes += stepBytes;
    }

    /// @return whether no step has failed so far
    boolean goesWell() {
        return stepFailure == null;
    }

    /// No more steps follow. From here on the job belongs to whoever takes it up.
    void listed() {
        close();
    }

    private void stepEnded(@Nullable String why) {
        if (why != null && stepFailure == null) {
            stepFailure = why;
        }
        close();
    }

    private void close() {
        if (open.decrementAndGet() == 0) {
            ended(stepFailure);
        }
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
            touchedClosed |= !window.leave();
        }
        joined.clear();
        walk.clear();
    }

    @Override
    void takeUp() {
        oneSided.copied(this);
    }
}

package io.telpher.internal.engine;

import io.telpher.spi.LocalRegion;
import io.telpher.spi.Window;
import io.telpher.spi.WorkQueue;
import org.jspecify.annotations.Nullable;

/// An operation that a link's queue carries out: one at a time for each slot, whose `copying` it
/// is. The queue takes the operation's pieces as it gets to them.
final class WorkJob extends DeviceQueues.Job implements WorkQueue.Source {
    private final DeviceQueues queues;
    private final QueuedEndings endings;
    final Direct direct;
    final Operation op;
    final WorkQueue.Work work;
    private final PieceWalk walk;

    /// How it ended.
    WorkQueue.End end = WorkQueue.End.DONE;

    /// It was cut off, and nothing of it arrives any more; guarded by the connection's lock.
    boolean fenced;

    WorkJob(
            DeviceQueues queues,
            QueuedEndings endings,
            Direct direct,
            Operation op,
            WorkQueue queue) {
        super(queues);
        this.queues = queues;
        this.endings = endings;
        this.direct = direct;
        this.op = op;
        this.walk = op.walk;
        this.work = queue.work(this);
    }

    /// Hands the whole operation to the queue.
    void begin() {
        int generation = op.generation;
        walk.start(op, 0, op.length);
        queues.begunInBackground();
        work.post(op.kind == Operation.Kind.READ, op.length);
        // Whoever ended the operation meanwhile may have stopped the work before it was posted.
        // But both may be over by now, and the slot have another operation.
        if (!op.isPending()) {
            endings.letGo(op, generation);
        }
    }

    @Override
    public boolean next() {
        return walk.next();
    }

    @Override
    public @Nullable Window window() {
        return walk.memory == null ? null : direct.window(walk.memory);
    }

    @Override
    public LocalRegion region() {
        RegionImpl of = walk.region;
        if (of == null) {
            throw new IllegalStateException("an operation without memory");
        }
        return of;
    }

    @Override
    public long remoteOffset() {
        return walk.remoteOffset;
    }

    @Override
    public long localOffset() {
        return walk.localOffset;
    }

    @Override
    public long bytes() {
        return walk.bytes;
    }

    @Override
    public void ended(WorkQueue.End how, @Nullable String why) {
        end = how;
        ended(why);
        if (how != WorkQueue.End.DONE) {
            queues.attend(); // perhaps on a thread that takes no turn
        }
    }

    @Override
    public void fenced() {
        endings.fenced(this);
    }

    @Override
    void leave() {
        // Nothing was announced to the owners of the regions: their NICs keep it out.
    }

    @Override
    boolean isPolled() {
        return false;
    }

    @Override
    void takeUp() {
        endings.carried(this);
    }
}

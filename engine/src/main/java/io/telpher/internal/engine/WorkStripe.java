package io.telpher.internal.engine;

import io.telpher.spi.LocalRegion;
import io.telpher.spi.Window;
import io.telpher.spi.WorkQueue;
import org.jspecify.annotations.Nullable;

/// A range of a [WorkJob] at a time, on the queue of one link: all of the operation, where one link
/// carries it, or one range after the other. Belongs to the job until its work is posted, then to
/// the queue until that has ended.
final class WorkStripe implements WorkQueue.Source {
    private final WorkJob job;
    final QueuedCopies by;
    final Direct direct;
    private final WorkQueue.Work work;
    private final PieceWalk walk;

    /// How its last range ended.
    WorkQueue.End end = WorkQueue.End.DONE;

    /// When its range was posted, in nanoseconds of the clock; of a job that several links carry.
    long since;

    // Of a job that several links carry; guarded by the job.

    /// It has a range under way, or is about to ask for one.
    boolean takesPart;

    /// It was given a range.
    boolean hasTaken;

    /// Where its range begins; does not change while that is under way.
    long from;

    /// It was cut off, and nothing of it arrives any more; guarded by the connection's lock.
    private boolean fenced;

    /// @param by what the link carries out
    /// @param walk its own, or the operation's for the first of a job
    WorkStripe(WorkJob job, QueuedCopies by, PieceWalk walk) {
        this.job = job;
        this.by = by;
        this.direct = by.windows;
        this.walk = walk;
        this.work = by.queue.work(this);
    }

    /// Takes part in another operation of several links. Under the job's monitor.
    void begin() {
        takesPart = true;
        hasTaken = false;
        end = WorkQueue.End.DONE;
    }

    /// Hands a range to the queue.
    void post(long from, long length) {
        Operation op = job.op;
        setEnd(WorkQueue.End.DONE);
        walk.start(op, from, length);
        work.post(op.kind == Operation.Kind.READ, length);
    }

    /// See [Operation#setKind].
    private void setEnd(WorkQueue.End how) {
        if (end != how) {
            end = how;
        }
    }

    /// Lets what is under way complete, and begins nothing more of it. Harmless when it has ended.
    void stop() {
        work.stop();
    }

    /// After [#stop]: cuts off what has not completed.
    void abort() {
        work.abort();
    }

    /// Whether nothing of what it wrote arrives at the peer any more. Under the connection's lock,
    /// when it has ended.
    boolean isFenced() {
        return switch (end) {
            case DONE, STOPPED, STALE, FAILED -> true;
            case ABORTED -> fenced || direct.lane.fenced;
            case LOST, STUCK -> direct.lane.fenced;
        };
    }

    /// Whether local memory may be touched until the peer has given up the lane. As [#isFenced].
    boolean isStuck() {
        return end == WorkQueue.End.STUCK && !direct.lane.fenced;
    }

    /// Nothing of it arrives any more. Under the connection's lock.
    void markFenced() {
        fenced = true;
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
        setEnd(how);
        if (how.compareTo(WorkQueue.End.LOST) >= 0) {
            direct.lose(); // before anybody looks for a link to go on with
        }
        job.ended(this, how, why);
    }

    @Override
    public void fenced() {
        job.fenced(this);
    }
}

package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.RemoteMemory;
import io.telpher.internal.observe.Log;
import java.util.List;

/// What becomes of the operations whose work a link's own queue has: it is done, was cut off, or
/// went with its link ([QueuedCopies] begins it). Of what did not come to its end bytes may still
/// arrive at the peer, so nothing may overtake them: that waits in [Unfenced].
///
/// An operation is `copying` from when its work is begun until here it is taken up that the work
/// has ended; that of work whose device does not let go, until the peer has given up the lane.
final class QueuedEndings {
    private final ConnectionCore connection;
    private final SpinLock lock;
    private final OneSided oneSided;
    private final Sends sends;
    private final Endings endings;

    /// What waits until the peer has given up what carried it.
    final Unfenced unfenced;

    /// The connection is over: no peer gives up a lane any more. Under the lock.
    private boolean closed;

    /// How often [#done] was called. A racy count, for turns to see that they have done something.
    private int doneSoFar;

    QueuedEndings(ConnectionCore connection, OneSided oneSided) {
        this.connection = connection;
        this.lock = connection.lock;
        this.oneSided = oneSided;
        this.sends = connection.matcher.sends;
        this.endings = connection.endings;
        this.unfenced = new Unfenced(connection);
    }

    /// All work of an operation that one link carries is done, and nobody has stopped it: concludes
    /// the operation where that is found, perhaps with tokens, but without the lock. All other ends
    /// are left to the next turn, since whoever stops work may be told of its end under the lock.
    void done(WorkJob job) {
        doneSoFar++;
        try {
            oneSided.conclude(job.op, result(job), "");
        } catch (Throwable e) {
            job.isGiven = false;
            connection.devices.failed(e);
        }
    }

    int doneSoFar() {
        return doneSoFar;
    }

    /// @return whether queues have work of an operation, or its end is not taken up; not of what is
    ///     held until the peer has given up a lane. Without the lock
    boolean isBusy() {
        OperationTable table = connection.table;
        lock.lock();
        try {
            for (int i = 0; i < table.size(); i++) {
                Operation op = table.at(i);
                WorkJob job = op.workJob;
                if (op.copying && job != null && job.isGiven) {
                    return true;
                }
            }
            return false;
        } finally {
            lock.unlock();
        }
    }

    /// The queue has ended an operation's work. Without lock and tokens.
    void carried(WorkJob job) {
        String why = job.failure == null ? "" : job.failure;
        switch (job.end) {
            case DONE, STOPPED, STALE, FAILED -> oneSided.conclude(job.op, result(job), why);
            case ABORTED, LOST, STUCK -> {
                RemoteMemory remote = OneSided.firstRemote(job.op);
                String path = remote == null ? null : job.direct.path(remote);
                lock.lock();
                try {
                    job.op.path = path == null ? "" : path; // unless it goes another way
                    // The operation's memory is not quiet before the peer has given up the lane.
                    if (job.isStuck() && !closed) {
                        job.isGiven = false;
                        unfenced.hold(job);
                    } else {
                        unfinished(job);
                    }
                } finally {
                    lock.unlock();
                }
            }
        }
    }

    /// What the end of work is to its operation, of which nothing is under way.
    private static int result(WorkJob job) {
        QueuedCopies by = job.direct.queued;
        try {
            return switch (job.end) {
                case DONE ->
                        by != null && by.wentNowhere(job.op) ? Connection.STALE : Connection.DONE;
                case STOPPED -> Connection.TIMED_OUT;
                case STALE -> Connection.STALE;
                default ->
                        by != null && by.touchesClosed(job.op)
                                ? Connection.STALE
                                : Connection.FAILED;
            };
        } catch (Throwable e) {
            Failures.letThrough(e);
            Log.error("a copy by a link's queue could not be concluded", e);
            return Connection.FAILED;
        }
    }

    /// An operation's work was cut off, or its link is lost: what it was writing may still arrive,
    /// until that is fenced. Then it goes out again, if it is still wanted. Under the lock.
    private void unfinished(WorkJob job) {
        Operation op = job.op;
        op.copying = false;
        if (op.kind != Operation.Kind.READ && !job.isFenced()) {
            op.unfenced = job;
        }
        if (!op.isPending()) {
            sends.stoppedStoring(op);
            endings.tryFinish(op, connection.isOver());
        } else if (connection.isOver()) {
            op.error = connection.failure();
            endings.revokeLater(op, connection.reasonOver(), "");
        } else if (op.unfenced == null) {
            goAgain(op);
        } else {
            unfenced.add(op);
        }
    }

    /// Goes on with what was held, whose memory is quiet now: also that behind one at which
    /// something is thrown, so that the end of the connection ends it. Under the lock.
    private void noLongerHeld(List<WorkJob> jobs) {
        for (WorkJob job : jobs) {
            job.op.copying = false;
        }
        jobs.forEach(this::unfinished);
    }

    /// The peer has given up a lane: nothing of its link arrives any more. Under the lock.
    void fenced(LaneState lane) {
        assert lane.fenced;
        noLongerHeld(unfenced.noLongerHeld());
        unfenced.fenced().forEach(this::goAgain);
    }

    /// Sends again what a lost link has not carried of an operation: a long one's ranges by other
    /// links, where there are some, else all of it by frames. Under the lock.
    private void goAgain(Operation op) {
        if (op.length >= WorkJob.LONG && oneSided.links.areThere()) {
            op.begun = op.workJob;
            oneSided.stores.add(op); // whoever takes the next turn carries it out
        } else {
            oneSided.goByFrames(op);
        }
    }

    /// The queue pair that carried what was cut off is gone at the peer, too. On any thread, which
    /// may hold tokens.
    void fenced(WorkJob job, WorkStripe stripe) {
        lock.lock();
        try {
            stripe.markFenced();
            unfenced.fenced(job);
        } finally {
            lock.unlock();
        }
        connection.devices.attend();
    }

    /// An operation is to end: nothing more of it is begun. Without the lock, so it may have ended,
    /// and its slot have another one, which goes on.
    ///
    /// @param generation the operation's, from when it had not ended
    void letGo(Operation op, int generation) {
        lock.lock();
        try {
            WorkJob job = op.workJob;
            if (job != null
                    && op.copying
                    && op.generation == generation
                    && op.state() == Operation.ENDING) {
                job.stop();
            }
        } finally {
            lock.unlock();
        }
    }

    /// What is under way for an operation does not complete. Under the lock.
    void cutOff(Operation op) {
        WorkJob job = op.workJob;
        if (job != null) {
            job.abort();
        }
    }

    /// The connection is over, and its windows are closed. What waits for the peer to give up a
    /// lane ends: nobody will hear of that any more. Without the lock.
    void close() {
        lock.lock();
        try {
            closed = true;
            noLongerHeld(unfenced.allHeld());
        } finally {
            lock.unlock();
        }
    }
}

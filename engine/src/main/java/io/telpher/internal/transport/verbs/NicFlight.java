package io.telpher.internal.transport.verbs;

import io.telpher.spi.WorkQueue.End;
import java.lang.foreign.Arena;
import org.jspecify.annotations.Nullable;

/// What a [NicQueue] has under way, and what becomes of it when it completes, is cut off, or has
/// lost its queue pair. Work has as many things under way as it has batches here, and writes that
/// have completed and are not known to be in the peer's memory.
///
/// Guarded by the queue.
final class NicFlight {
    private final NicAgenda agenda;
    private final NicReads reads = new NicReads();
    private final NicBatches batches;

    /// Completions; nothing while the peer is asked for a queue pair, whose program may be stopped.
    private final Debt debt = new Debt();

    /// @param arena for its requests
    NicFlight(Arena arena, NicAgenda agenda) {
        this.agenda = agenda;
        this.batches = new NicBatches(arena, reads);
    }

    boolean hasRoom() {
        return batches.hasRoom();
    }

    boolean isEmpty() {
        return batches.isEmpty();
    }

    boolean contains(long batch) {
        return batches.contains(batch);
    }

    /// @return number of the oldest batch
    long first() {
        return batches.first();
    }

    /// @return number of the newest batch
    long last() {
        return batches.end() - 1;
    }

    /// @return address of a batch's first request
    long address(long batch) {
        return batches.address(batch);
    }

    /// @return whose batch it is, or null when nobody wants it any more
    @Nullable NicWork work(long batch) {
        return batches.work(batch);
    }

    // --- what is posted -------------------------------------------------------------------------

    /// Cuts the next batch from work, which is to be posted. There is room.
    ///
    /// @param inline bytes that the queue pair lets a request carry by itself
    /// @return whether there is one: not when the work is exhausted or has failed
    boolean add(NicWork work, int inline) {
        boolean more = batches.add(work, inline);
        if (more) {
            begun(work);
        }
        return more;
    }

    /// Adds the read that is due behind writes, which is to be posted.
    ///
    /// @return whether there is one, and room for it
    boolean addRead() {
        NicWork written = reads.due();
        boolean due = written != null && batches.hasRoom();
        if (written != null && due) {
            batches.addRead(written);
            begun(written);
        }
        return due;
    }

    private void begun(NicWork work) {
        work.underWay++;
        if (!debt.isOwed()) {
            debt.changed(true);
        }
    }

    /// @param word what has to follow writes from now on, or null
    void readBehind(FlushWord.@Nullable Read word) {
        reads.use(word);
    }

    // --- what completes -------------------------------------------------------------------------

    /// @return whether completions are to come
    boolean isOwed() {
        return debt.isOwed();
    }

    /// @return nanoseconds for which nothing has completed
    long silence() {
        return debt.silence();
    }

    /// A batch has completed, and so have, in order, those before it.
    void completed(long batch) {
        while (batches.first() <= batch) {
            int covered = batches.covers(batches.first());
            removeFirst();
            if (covered > 0) {
                reads.came(covered);
                allInMemory();
            }
        }
        passDisowned();
    }

    /// The oldest batch is over.
    private void removeFirst() {
        boolean owing = batches.isOwing(batches.first());
        NicWork work = batches.removeFirst();
        if (work != null && owing) {
            reads.arrived(work);
        } else if (work != null) {
            over(work);
        }
    }

    /// One of the things under way of a work is over.
    private void over(NicWork work) {
        work.underWay--;
        agenda.settle(work);
    }

    /// Everything that has completed is in the peer's memory.
    private void allInMemory() {
        NicWork work;
        while ((work = reads.poll()) != null) {
            over(work);
        }
    }

    /// Removes what nobody wants any more and was not posted again: no completion tells of it.
    private void passDisowned() {
        while (!batches.isEmpty() && batches.work(batches.first()) == null) {
            removeFirst();
        }
        debt.changed(!batches.isEmpty());
    }

    // --- after the end of a queue pair ----------------------------------------------------------

    /// The queue pair is gone: nothing completes before another one is there.
    void interrupted() {
        debt.changed(false);
    }

    /// Ends work that was cut off.
    void dropCutOff() {
        for (long batch = batches.first(); batch < batches.end(); batch++) {
            NicWork work = batches.work(batch);
            if (work != null && work.cutOff) {
                work.fail(End.ABORTED, null);
                drop(batch, work);
            }
        }
        NicWork after;
        for (NicWork work = reads.first(); work != null; work = after) {
            after = work.next;
            if (work.cutOff) {
                work.fail(End.ABORTED, null);
                reads.remove(work);
                over(work);
            }
        }
    }

    /// The peer has ended its half of the queue pair, too: nothing of it arrives there any more,
    /// and what had completed is in memory. Ends work that has failed, that into or from regions
    /// which the peer has closed since included.
    void fenced() {
        allInMemory();
        failStale();
        dropFailed();
        passDisowned();
    }

    /// Work into or from regions that the peer has closed since: it fails, since posted again it
    /// might meet another region that has got the key.
    private void failStale() {
        for (long batch = batches.first(); batch < batches.end(); batch++) {
            NicWork work = batches.work(batch);
            if (work != null && batches.isStale(batch)) {
                work.fail(End.STALE, null);
                agenda.leave(work);
            }
        }
    }

    private void dropFailed() {
        for (long batch = batches.first(); batch < batches.end(); batch++) {
            NicWork work = batches.work(batch);
            if (work != null && work.hasFailed()) {
                drop(batch, work);
            }
        }
    }

    private void drop(long batch, NicWork work) {
        batches.disown(batch);
        over(work);
    }

    /// All of it is to be posted again, in order: see [#goesAgain].
    void restart() {
        reads.restart();
    }

    /// @return whether a batch is to be posted again: not when nobody wants it any more
    boolean goesAgain(long batch) {
        NicWork work = batches.work(batch);
        if (work == null) {
            return false;
        }
        batches.countAgain(batch, work);
        return true;
    }

    /// The link is gone: ends all work that has something under way.
    void loseAll(End how) {
        while (!batches.isEmpty()) {
            NicWork work = batches.work(batches.first());
            if (work != null) {
                work.fail(how, null);
            }
            removeFirst();
        }
        NicWork work;
        while ((work = reads.poll()) != null) {
            work.fail(how, null);
            over(work);
        }
    }
}

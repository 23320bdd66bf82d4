package io.telpher.internal.transport.verbs;

import io.telpher.internal.observe.Log;
import io.telpher.spi.WorkQueue;
import io.telpher.spi.WorkQueue.End;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The work of a [NicQueue] of which something is to be cut, in order, and that which has ended and
/// has to be told so. Guarded by the queue; work is told of its end without that.
final class NicAgenda {
    private final NicQueue queue;

    /// Work of which something is to be cut, in order.
    private final NicWorks waiting = new NicWorks();

    /// Work whose end has to be told.
    private final NicWorks over = new NicWorks();

    /// Sources of writes that were cut off: the peer's end of the queue pair may still let them
    /// arrive.
    private List<WorkQueue.Source> unfenced = new ArrayList<>();

    NicAgenda(NicQueue queue) {
        this.queue = queue;
    }

    /// @return the work that is next, or null
    @Nullable NicWork first() {
        return waiting.first();
    }

    /// Puts work behind the others.
    void await(NicWork work) {
        work.waiting = true;
        waiting.add(work);
    }

    /// Nothing more is cut from work; harmless when it does not wait.
    void leave(NicWork work) {
        if (work.waiting) {
            work.waiting = false;
            waiting.remove(work);
        }
    }

    /// Ends work of which nothing is under way and nothing more will be.
    void settle(NicWork work) {
        if (work.isOf(queue) && !work.waiting && work.isOver()) {
            work.finish();
            over.add(work);
            if (!work.read && work.end() == End.ABORTED) {
                unfenced.add(work.source);
            }
        }
    }

    /// The link is gone: ends all work that waits.
    void loseAll() {
        NicWork work;
        while ((work = waiting.poll()) != null) {
            work.waiting = false;
            work.fail(End.LOST, null);
            settle(work);
        }
    }

    /// @return work whose end [#tell] has to tell
    @Nullable NicWork takeEnded() {
        return over.takeAll();
    }

    /// @param none takes the place of the list that is taken
    /// @return sources of writes that were cut off
    List<WorkQueue.Source> takeUnfenced(List<WorkQueue.Source> none) {
        List<WorkQueue.Source> taken = unfenced;
        unfenced = none;
        return taken;
    }

    /// Without the queue's monitor: who is told may post the work again at once.
    static void tell(@Nullable NicWork ended) {
        NicWork work = ended;
        while (work != null) {
            NicWork after = work.next;
            work.next = null;
            try {
                work.source.ended(work.end(), work.why());
            } catch (Throwable e) { // the others have to hear, too
                Log.error("the end of a transfer by a NIC could not be told", e);
            }
            work = after;
        }
    }

    /// Without the queue's monitor: nothing of these arrives at the peer any more.
    static void tellFenced(List<WorkQueue.Source> fenced) {
        for (WorkQueue.Source source : fenced) {
            try {
                source.fenced();
            } catch (Throwable e) { // the others have to hear, too
                Log.error("the fence of a transfer by a NIC could not be told", e);
            }
        }
    }
}

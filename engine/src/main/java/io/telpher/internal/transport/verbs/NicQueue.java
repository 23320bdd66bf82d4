package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.observe.Log;
import io.telpher.spi.WorkQueue;
import io.telpher.spi.WorkQueue.End;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// One queue pair of RDMA writes and reads, and the work that it carries out: has the work of its
/// [NicAgenda] cut, posts what is under way ([NicFlight]), and takes completions. States and
/// failures: see `docs/rdma.md`.
///
/// ```
/// NONE --ready--> READY --an error, or work is cut off--> BROKEN --> ENDING --ended--> NONE
///                  \\--an error that speaks of the link--> GIVEN_UP
/// ```
///
/// Guarded by this, which is held for a few microseconds, and never while a source is told of its
/// end. Queue pairs come from and go back to the [ActivePairs], which make and end them.
final class NicQueue {
    /// Work up to this size does not stand behind what is larger.
    static final int SMALL = 64 << 10;

    private static final int COMPLETIONS = 16;

    /// Nanoseconds for which the completion is waited for that explains what the device tells of
    /// the queue pair: both are on their way when the first is there.
    private static final long EXPLANATION = 1_000_000_000L;

    /// Where its queue pair is.
    private enum State {
        /// There is none, nor anything of it under way in this process's memory.
        NONE,
        READY,
        /// Of no use any more; somebody was asked to end it.
        BROKEN,
        /// Somebody is ending it.
        ENDING,
        /// The link is of no use: its lane ends, and with it this. Nothing is posted any more, nor
        /// are completions looked at: what follows a request that was not taken proves nothing.
        GIVEN_UP
    }

    private final ActivePairs owner;
    private final int index;
    private final long completions;
    private final NicAgenda agenda = new NicAgenda(this);
    private final NicFlight flight;

    private State state = State.NONE;

    /// No queue pair follows; work is lost, at once where nothing of it is under way.
    private boolean closed;

    /// How work ends that is under way when the link goes.
    private End lost = End.LOST;

    /// There unless ENDING; while NONE only one that was not posted to yet.
    private @Nullable QueuePair pair;

    /// The last queue pair was given up and no request is known to blame, such as when the peer did
    /// not answer, and nothing has completed since.
    private boolean unexplained;

    /// A notification was asked for since events were last taken: they would pile up.
    private boolean asked;

    /// @param index which of the link's it is
    /// @param arena for its requests; stays until [#close] has returned
    NicQueue(ActivePairs owner, int index, Arena arena) {
        this.owner = owner;
        this.index = index;
        this.flight = new NicFlight(arena, agenda);
        this.completions = arena.allocate((long) WorkCompletion.BYTES * COMPLETIONS, 64).address();
    }

    int index() {
        return index;
    }

    // --- work -----------------------------------------------------------------------------------

    void post(NicWork work, boolean read, long bytes) {
        NicWork ended;
        synchronized (this) {
            work.begin(this, read, bytes);
            if (closed) {
                work.fail(End.LOST, null);
                agenda.settle(work);
            } else {
                begin(work);
            }
            ended = agenda.takeEnded();
        }
        NicAgenda.tell(ended);
    }

    /// @param cutOff whether what is under way does not complete
    void stop(NicWork work, boolean cutOff) {
        NicWork ended;
        synchronized (this) {
            if (!work.isOf(this)) {
                return; // it has ended, and perhaps another queue has it again
            }
            work.stopped = true;
            agenda.leave(work);
            if (cutOff && work.underWay > 0) {
                work.cutOff = true;
                switch (state) {
                    case READY -> breakOff();
                    case NONE -> flight.dropCutOff(); // its queue pair is gone already
                    case BROKEN, ENDING, GIVEN_UP -> {} // as soon as that is gone
                }
            }
            agenda.settle(work);
            ended = agenda.takeEnded();
        }
        NicAgenda.tell(ended);
    }

    // --- posting --------------------------------------------------------------------------------

    /// Posts fresh work: at once, if nothing waits before it, as much of it as goes into one batch.
    /// Throws nothing: whoever posts work must not take for failed what is under way.
    private void begin(NicWork work) {
        QueuePair to = pair;
        if (state == State.READY && to != null && agenda.first() == null && flight.hasRoom()) {
            try {
                advance(work, to);
            } catch (Throwable e) {
                if (!work.waiting) {
                    agenda.await(work); // it ends with the link
                }
                broken(e);
            }
        } else {
            agenda.await(work);
        }
        if (agenda.first() != null) {
            pump();
        }
    }

    /// Posts batches as long as there are room and work, of each work in turn. Throws nothing, as
    /// [#begin].
    private void pump() {
        try {
            QueuePair to = pair;
            while (state == State.READY && to != null) {
                // Before what waits, which takes all room there is for as long as it does not end.
                if (flight.addRead()) {
                    post(flight.last(), to);
                    continue;
                }
                NicWork work = flight.hasRoom() ? agenda.first() : null;
                if (work == null) {
                    break;
                }
                advance(work, to);
            }
        } catch (Throwable e) {
            broken(e);
        }
    }

    /// Posts the next batch of work; what is left of it waits behind the others.
    private void advance(NicWork work, QueuePair to) {
        if (flight.add(work, to.inline())) {
            post(flight.last(), to);
        }
        agenda.leave(work); // not before: it ends with the link when something is thrown
        if (!work.hasFailed() && !work.exhausted) {
            agenda.await(work);
        }
        agenda.settle(work);
    }

    private void post(long batch, QueuePair to) {
        int error = to.postSend(flight.address(batch));
        if (error != 0) {
            giveUp("ibv_post_send failed: " + Errno.describe(error));
        }
    }

    // --- completions ----------------------------------------------------------------------------

    /// Takes completions, and posts what there is room for then.
    ///
    /// @return whether there were some
    boolean poll() {
        if (!flight.isOwed()) {
            return false;
        }
        boolean any = false;
        NicWork ended = null;
        try {
            synchronized (this) {
                try {
                    any = takeAll();
                } catch (Throwable e) {
                    broken(e);
                } finally {
                    if (any) {
                        pump();
                    }
                    ended = agenda.takeEnded();
                }
            }
        } finally {
            // Who has ended hears of it here, and not from one who stops other work.
            NicAgenda.tell(ended);
        }
        return any;
    }

    private boolean takeAll() {
        boolean any = false;
        QueuePair from = pair;
        while (state == State.READY && from != null && !flight.isEmpty()) {
            int n = from.poll(COMPLETIONS, completions);
            if (n < 0) {
                giveUp("ibv_poll_cq failed: " + Errno.describe(n));
            }
            look(from); // the device may tell more than a completion
            boolean rumoured = from.rumour() != null;
            for (int i = 0; i < n && state == State.READY; i++) {
                take(completions + (long) WorkCompletion.BYTES * i, rumoured);
            }
            any |= n > 0;
            if (n < COMPLETIONS) {
                listen(from);
                break;
            }
        }
        return any;
    }

    /// @param rumoured whether the device has told of the queue pair
    private void take(long wc, boolean rumoured) {
        long batch = WorkCompletion.id(wc);
        int status = WorkCompletion.status(wc);
        if (!flight.contains(batch)) {
            giveUp("a completion of batch %d, which is not under way".formatted(batch));
        } else if (status == WorkCompletion.IBV_WC_SUCCESS) {
            unexplained = false;
            flight.completed(batch);
        } else {
            failed(batch, status, rumoured, WorkCompletion.describe(wc));
        }
    }

    /// The first batch that did not succeed; those behind it have not been carried out.
    private void failed(long batch, int status, boolean rumoured, String reason) {
        if (WorkCompletion.isOfRequest(status)) {
            unexplained = false;
            NicWork work = flight.work(batch);
            if (work != null) {
                work.fail(End.FAILED, reason);
                agenda.leave(work);
            }
            breakOff();
        } else if (!unexplained
                && (status == WorkCompletion.IBV_WC_RETRY_EXC_ERR
                        || (status == WorkCompletion.IBV_WC_WR_FLUSH_ERR && rumoured))) {
            // Perhaps the peer has refused a request, and its word was lost, or the device has
            // flushed that request as it did the others: with a queue pair that leads somewhere it
            // is said again.
            unexplained = true;
            breakOff();
        } else {
            giveUp(reason);
        }
    }

    // --- the queue pair's life ------------------------------------------------------------------

    private void breakOff() {
        state = State.BROKEN;
        owner.recover(this);
    }

    /// Something was thrown that nobody expects, an Error or a bug: how far what was begun has
    /// come is not known.
    private void broken(Throwable e) {
        Log.error("a queue of one-sided transfers failed", e);
        giveUp("internal failure: " + e);
    }

    private void giveUp(String reason) {
        state = State.GIVEN_UP;
        owner.fail(reason);
    }

    /// Gives up when the queue pair is known to be of no use, by what the device has told or by a
    /// call that has failed: no completion may say so.
    private void look(QueuePair which) {
        String why = which.failure();
        if (why != null && state == State.READY) {
            giveUp(why);
        }
    }

    /// What the device has told of the queue pair is explained by the first completion with an
    /// error, which is still to come. Gives up when nothing is under way that could have one, or it
    /// does not come.
    private void listen(QueuePair which) {
        String rumour = which.rumour();
        if (rumour != null
                && state == State.READY
                && (flight.isEmpty() || which.rumourAge() > EXPLANATION)) {
            giveUp(rumour);
        }
    }

    /// @return the queue pair that is to be ended, and [#ended] told then; or null
    synchronized @Nullable QueuePair takeBroken() {
        return state == State.BROKEN ? takePair() : null;
    }

    private @Nullable QueuePair takePair() {
        QueuePair old = pair;
        pair = null;
        state = State.ENDING;
        return old;
    }

    /// The queue pair is gone: nothing of local memory is touched any more. Work that was cut off
    /// ends; the rest waits for [#ready], that which failed too, since only then is known why.
    void ended() {
        NicWork ended;
        synchronized (this) {
            state = State.NONE;
            flight.interrupted();
            if (closed) {
                flight.loseAll(lost);
                agenda.loseAll();
            } else {
                flight.dropCutOff();
            }
            ended = agenda.takeEnded();
        }
        NicAgenda.tell(ended);
    }

    /// The queue pair could not be destroyed: none may follow, since both could write, and what is
    /// under way may go on until the peer has ended its half.
    void stuck() {
        synchronized (this) {
            closed = true;
            lost = End.STUCK;
        }
        ended();
    }

    /// Takes a fresh queue pair over, which leads to the peer. Nothing is posted to it before
    /// [#ready]. Not after [#close].
    ///
    /// @param flush what has to follow writes, or null
    synchronized void take(QueuePair fresh, FlushWord.@Nullable Read flush) {
        pair = fresh;
        flight.readBehind(flush);
    }

    /// The peer has ended the queue pair before the one that was taken over: posts again what was
    /// under way, and goes on. Throws nothing; harmless when [#close] was quicker.
    void ready() {
        NicWork ended;
        List<WorkQueue.Source> fenced = List.of();
        synchronized (this) {
            QueuePair fresh = pair;
            if (fresh == null) {
                return;
            }
            state = State.READY;
            try {
                List<WorkQueue.Source> none = new ArrayList<>(); // the others are told below
                flight.fenced();
                repost(fresh);
                fenced = agenda.takeUnfenced(none);
            } catch (Throwable e) {
                broken(e);
            }
            pump();
            ended = agenda.takeEnded();
        }
        NicAgenda.tell(ended);
        NicAgenda.tellFenced(fenced);
    }

    private void repost(QueuePair to) {
        // The lane may be parked, which asked the queue pair before.
        asked = true;
        boolean unused = to.requestNotification();
        look(to);
        flight.restart();
        for (long batch = flight.first(); batch <= flight.last() && state == State.READY; batch++) {
            if (flight.goesAgain(batch)) {
                post(batch, to);
            }
        }
    }

    /// The link is gone: ends the queue pair, and then all work, unless somebody else is ending it,
    /// who ends the work too.
    void close() {
        QueuePair old;
        synchronized (this) {
            closed = true;
            if (state == State.ENDING) {
                return;
            }
            old = takePair();
        }
        boolean gone = false;
        try {
            gone = old == null || old.close();
        } finally {
            if (gone) {
                ended();
            } else {
                stuck();
            }
        }
    }

    // --- waiting --------------------------------------------------------------------------------

    /// Asks for a notification of the next completion, then looks once more.
    ///
    /// @return false when there was something
    boolean park() {
        synchronized (this) {
            QueuePair from = state == State.READY ? pair : null;
            if (from == null) {
                return true;
            }
            if (asked) {
                from.takeEvents();
            }
            asked = true;
            boolean unused = from.requestNotification();
            look(from);
            if (flight.isEmpty()) {
                listen(from);
            }
            if (state != State.READY || from.rumour() != null) {
                return false; // nothing may wake whoever waits for its explanation
            }
        }
        return !poll();
    }

    synchronized void takeEvents() {
        QueuePair from = pair;
        asked = false;
        if (from != null) {
            from.takeEvents();
            look(from);
            if (flight.isEmpty()) {
                listen(from);
            }
            if (state == State.BROKEN) {
                from.takeAlarm(); // it waits for a thread to end it, and must wake nobody meanwhile
            }
        }
    }

    /// @return nanoseconds for which nothing has completed of what is under way
    long silence() {
        return flight.silence();
    }
}

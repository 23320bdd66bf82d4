package io.telpher.internal.transport.verbs;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.Sge;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.spi.WorkQueue;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// One queue pair of RDMA writes and reads, and the work that it carries out: cuts work into
/// batches, posts each as one linked list whose last request is signalled, and takes their
/// completions. States and failures: see `docs/rdma.md`.
///
/// Guarded by this, which is held for a few microseconds, and never while a source is told of its
/// end. Queue pairs come from and go back to the [VerbsWindows], which makes and ends them on the
/// control executor.
final class NicQueue {
    /// Work up to this size does not stand behind what is larger.
    static final int SMALL = 64 << 10;

    /// Requests in the send queue, and so completions to come at most.
    static final int REQUESTS = 1024;

    /// Requests of a batch.
    static final int BATCH = 128;

    /// Bytes of a request, and of a batch: how long the link is silent at most while all is well.
    static final int BATCH_BYTES = 512 << 10;

    /// Bytes that are under way at most: enough for the links that there are, and no more, since
    /// nothing passes them.
    private static final long WINDOW_BYTES = 8 << 20;

    private static final int BATCHES = 256;
    private static final int COMPLETIONS = 16;

    /// Where its queue pair is.
    enum State {
        /// There is none; whoever waits for one is told by [#ready].
        NONE,
        READY,
        /// In the error state: [#recovered] takes what was under way back.
        BROKEN,
        CLOSED
    }

    private final VerbsWindows owner;
    private final int index;
    private final long requests;
    private final long sges;
    private final long completions;

    private State state = State.NONE;
    private @Nullable QueuePair pair;

    // Batches that were posted, in order; by position modulo their number. One whose work has
    // ended, or that has completed, has none.
    private final @Nullable NicWork[] works = new NicWork[BATCHES];
    private final long[] firstRequests = new long[BATCHES];
    private final int[] batchRequests = new int[BATCHES];
    private final long[] batchBytes = new long[BATCHES];
    private long firstBatch;
    private long endBatch;
    private long firstRequest;
    private long endRequest;
    private long bytesUnderWay;

    // Work of which something is to be cut, in order.
    private @Nullable NicWork first;
    private @Nullable NicWork last;

    /// Work whose end has to be told.
    private @Nullable NicWork ended;

    /// Sources of writes that were cut off: the peer's end of the queue pair may still let them
    /// arrive.
    private List<WorkQueue.Source> unfenced = List.of();

    /// A notification was asked for since events were last taken: they would pile up.
    private boolean asked;

    /// When the oldest batch was posted, or the last one completed; 0 while none is under way.
    private volatile long owedSince;

    /// @param index which of the link's it is
    /// @param arena for its requests
    NicQueue(VerbsWindows owner, int index, Arena arena) {
        this.owner = owner;
        this.index = index;
        this.requests = arena.allocate((long) SendRequest.BYTES * REQUESTS, 64).address();
        this.sges = arena.allocate((long) Sge.BYTES * REQUESTS, 64).address();
        this.completions = arena.allocate((long) WorkCompletion.BYTES * COMPLETIONS, 64).address();
    }

    int index() {
        return index;
    }

    // --- work -----------------------------------------------------------------------------------

    void post(NicWork work, boolean read, long bytes) {
        NicWork over;
        synchronized (this) {
            work.begin(read, bytes);
            if (state == State.CLOSED) {
                work.fail(WorkQueue.End.LOST, null);
                settle(work);
            } else {
                enqueue(work);
                pump();
            }
            over = takeEnded();
        }
        tell(over);
    }

    void stop(NicWork work, boolean abort) {
        NicWork over;
        synchronized (this) {
            if (!work.active) {
                return;
            }
            work.stopped = true;
            if (work.waiting) {
                remove(work);
            }
            if (abort && work.underWay > 0) {
                work.aborted = true;
                if (state == State.READY) {
                    breakOff();
                } else if (state == State.NONE) {
                    drop(false); // the queue pair is gone already
                }
            }
            settle(work);
            over = takeEnded();
        }
        tell(over);
    }

    private void enqueue(NicWork work) {
        work.waiting = true;
        work.next = null;
        NicWork before = last;
        if (before == null) {
            first = work;
        } else {
            before.next = work;
        }
        last = work;
    }

    private void remove(NicWork work) {
        NicWork before = null;
        for (NicWork at = first; at != null; before = at, at = at.next) {
            if (at == work) {
                if (before == null) {
                    first = work.next;
                } else {
                    before.next = work.next;
                }
                if (last == work) {
                    last = before;
                }
                break;
            }
        }
        work.next = null;
        work.waiting = false;
    }

    /// Ends work of which nothing is under way and nothing more will be.
    private void settle(NicWork work) {
        if (work.active && !work.waiting && work.isOver()) {
            work.active = false;
            work.next = ended;
            ended = work;
            if (!work.read && work.end() == WorkQueue.End.ABORTED) {
                List<WorkQueue.Source> more = new ArrayList<>(unfenced);
                more.add(work.source);
                unfenced = more;
            }
        }
    }

    private @Nullable NicWork takeEnded() {
        NicWork over = ended;
        ended = null;
        return over;
    }

    /// Without the monitor: who is told may post the work again at once.
    private static void tell(@Nullable NicWork over) {
        NicWork work = over;
        while (work != null) {
            NicWork after = work.next;
            work.next = null;
            work.source.ended(work.end(), work.why);
            work = after;
        }
    }

    // --- posting --------------------------------------------------------------------------------

    /// Posts batches as long as there are room and work, of each work in turn.
    private void pump() {
        NicWork work;
        while (state == State.READY && (work = first) != null && hasRoom()) {
            remove(work);
            QueuePair to = pair;
            int count = to == null ? 0 : cut(work, to);
            if (work.failure == null && !work.exhausted) {
                enqueue(work);
            }
            if (count > 0 && to != null) {
                post(work, count, to);
            }
            settle(work);
        }
    }

    private boolean hasRoom() {
        return endBatch - firstBatch < BATCHES
                && endRequest - firstRequest < REQUESTS
                && bytesUnderWay < WINDOW_BYTES;
    }

    /// Fills the next requests.
    ///
    /// @return how many
    private int cut(NicWork work, QueuePair to) {
        int most = (int) Math.min(BATCH, REQUESTS - (endRequest - firstRequest));
        int count = 0;
        int bytes = 0;
        int opcode = work.read ? SendRequest.IBV_WR_RDMA_READ : SendRequest.IBV_WR_RDMA_WRITE;
        long before = 0;
        while (count < most && bytes < BATCH_BYTES) {
            int n = work.cut(BATCH_BYTES - bytes);
            if (n == 0) {
                break;
            }
            int at = (int) ((endRequest + count) % REQUESTS);
            long wr = requests + (long) SendRequest.BYTES * at;
            long sge = sges + (long) Sge.BYTES * at;
            Sge.set(sge, work.localAddress, n, work.localKey);
            boolean inline = !work.read && n <= to.inline();
            SendRequest.set(wr, endBatch, opcode, inline ? SendRequest.IBV_SEND_INLINE : 0, sge, 1);
            SendRequest.remote(wr, work.remoteAddress, work.remoteKey);
            if (before != 0) {
                SendRequest.next(before, wr);
            }
            before = wr;
            count++;
            bytes += n;
        }
        if (before != 0) {
            SendRequest.addFlags(before, SendRequest.IBV_SEND_SIGNALED);
        }
        int place = (int) (endBatch % BATCHES);
        batchBytes[place] = bytes;
        return count;
    }

    /// Posts the batch that was cut.
    private void post(NicWork work, int count, QueuePair to) {
        int place = (int) (endBatch % BATCHES);
        works[place] = work;
        firstRequests[place] = endRequest;
        batchRequests[place] = count;
        work.underWay++;
        bytesUnderWay += batchBytes[place];
        if (firstBatch == endBatch) {
            owedSince = System.nanoTime();
        }
        endBatch++;
        endRequest += count;
        post(place, to);
    }

    private void post(int place, QueuePair to) {
        int at = (int) (firstRequests[place] % REQUESTS);
        int error = to.postSend(requests + (long) SendRequest.BYTES * at);
        if (error != 0) {
            owner.fail("ibv_post_send failed: " + Errno.describe(error));
        }
    }

    // --- completions ----------------------------------------------------------------------------

    /// Takes completions, and posts what there is room for then.
    ///
    /// @return whether there were some
    boolean poll() {
        if (owedSince == 0) {
            return false;
        }
        boolean any = false;
        NicWork over;
        synchronized (this) {
            QueuePair from = pair;
            while (state == State.READY && from != null && firstBatch < endBatch) {
                int n = from.poll(COMPLETIONS, completions);
                String broken = from.failure(); // the device may tell more than a completion
                if (n < 0 || broken != null) {
                    owner.fail(
                            broken != null ? broken : "ibv_poll_cq failed: " + Errno.describe(n));
                    break;
                }
                for (int i = 0; i < n && state == State.READY; i++) {
                    take(completions + (long) WorkCompletion.BYTES * i);
                }
                any |= n > 0;
                if (n < COMPLETIONS) {
                    break;
                }
            }
            if (any) {
                pump();
            }
            over = takeEnded();
        }
        tell(over);
        return any;
    }

    private void take(long wc) {
        long id = WorkCompletion.id(wc);
        int status = WorkCompletion.status(wc);
        if (id < firstBatch || id >= endBatch) {
            owner.fail("a completion of batch %d, which is not under way".formatted(id));
            return;
        }
        if (status != WorkCompletion.IBV_WC_SUCCESS) {
            String reason =
                    "%s (status %d, vendor's error %d)"
                            .formatted(
                                    WorkCompletion.text(status),
                                    status,
                                    WorkCompletion.vendorError(wc));
            if (isOfRequest(status)) {
                failed((int) (id % BATCHES), reason);
            } else {
                owner.fail(reason);
            }
            return;
        }
        // In order: those before it have completed too.
        while (firstBatch <= id) {
            completed((int) (firstBatch % BATCHES));
        }
        passDropped();
    }

    /// Whether a status tells of what a request asked for, not of the link.
    private static boolean isOfRequest(int status) {
        return switch (status) {
            case WorkCompletion.IBV_WC_LOC_LEN_ERR,
                    WorkCompletion.IBV_WC_LOC_PROT_ERR,
                    WorkCompletion.IBV_WC_REM_INV_REQ_ERR,
                    WorkCompletion.IBV_WC_REM_ACCESS_ERR,
                    WorkCompletion.IBV_WC_REM_OP_ERR ->
                    true;
            default -> false;
        };
    }

    /// Passes over batches that were dropped, of which no completion tells.
    private void passDropped() {
        while (firstBatch < endBatch && works[(int) (firstBatch % BATCHES)] == null) {
            completed((int) (firstBatch % BATCHES));
        }
        owedSince = firstBatch == endBatch ? 0 : System.nanoTime();
    }

    /// The oldest batch is over.
    private void completed(int place) {
        NicWork work = works[place];
        works[place] = null;
        firstBatch++;
        firstRequest += batchRequests[place];
        bytesUnderWay -= batchBytes[place];
        if (work != null) {
            work.underWay--;
            settle(work);
        }
    }

    /// A batch failed: its work does, and the queue pair is of no use any more.
    private void failed(int place, String reason) {
        NicWork work = works[place];
        if (work != null) {
            work.fail(WorkQueue.End.FAILED, reason);
            if (work.waiting) {
                remove(work);
            }
        }
        breakOff();
    }

    private void breakOff() {
        state = State.BROKEN;
        owner.recover(this);
    }

    // --- the queue pair's life ------------------------------------------------------------------

    /// @return the queue pair that is to be ended, or null; nothing is posted to it any more
    synchronized @Nullable QueuePair broken() {
        QueuePair old = pair;
        pair = null;
        return old;
    }

    /// The queue pair is gone: nothing of local memory is touched any more. Work that was cut off
    /// ends; the rest waits for [#ready], that which failed too, since only then is known why.
    void recovered() {
        NicWork over;
        synchronized (this) {
            if (state == State.BROKEN) {
                state = State.NONE;
            }
            owedSince = 0; // by the peer's program now, which may be stopped
            drop(false);
            over = takeEnded();
        }
        tell(over);
    }

    /// Forgets batches of work that has been aborted, or of all that has failed.
    private void drop(boolean failedToo) {
        for (long batch = firstBatch; batch < endBatch; batch++) {
            int place = (int) (batch % BATCHES);
            NicWork work = works[place];
            if (work != null && (work.aborted || (failedToo && work.failure != null))) {
                works[place] = null;
                work.underWay--;
                work.fail(WorkQueue.End.ABORTED, null);
                settle(work);
            }
        }
    }

    /// A fresh queue pair leads to the peer, who has ended the one before: posts again what was
    /// under way, and goes on.
    ///
    /// @return false when the queue was closed meanwhile: the queue pair stays the caller's
    boolean ready(QueuePair fresh) {
        NicWork over;
        List<WorkQueue.Source> fenced;
        synchronized (this) {
            if (state == State.CLOSED) {
                return false;
            }
            state = State.READY;
            pair = fresh;
            drop(true);
            passDropped();
            // The lane may be parked, which asked the queue pair before.
            asked = true;
            if (!fresh.requestNotification()) {
                owner.fail(String.valueOf(fresh.failure()));
            }
            for (long batch = firstBatch; batch < endBatch && state == State.READY; batch++) {
                if (works[(int) (batch % BATCHES)] != null) {
                    post((int) (batch % BATCHES), fresh);
                }
            }
            pump();
            over = takeEnded();
            fenced = unfenced;
            unfenced = List.of();
        }
        tell(over);
        fenced.forEach(WorkQueue.Source::fenced);
        return true;
    }

    /// Ends the queue pair, and then all work: the link is gone.
    void close() {
        QueuePair old;
        synchronized (this) {
            state = State.CLOSED;
            old = pair;
            pair = null;
        }
        if (old != null) {
            boolean unused = old.close();
        }
        NicWork over;
        synchronized (this) {
            while (firstBatch < endBatch) {
                NicWork work = works[(int) (firstBatch % BATCHES)];
                if (work != null) {
                    work.fail(WorkQueue.End.LOST, null);
                }
                completed((int) (firstBatch % BATCHES));
            }
            NicWork work;
            while ((work = first) != null) {
                remove(work);
                work.fail(WorkQueue.End.LOST, null);
                settle(work);
            }
            owedSince = 0;
            over = takeEnded();
        }
        tell(over);
    }

    // --- waiting --------------------------------------------------------------------------------

    /// Asks for a notification of the next completion, then looks once more.
    ///
    /// @return false when there was something
    boolean park() {
        QueuePair from;
        synchronized (this) {
            from = state == State.READY ? pair : null;
            if (from != null && asked) {
                from.takeEvents();
            }
            asked = true;
            if (from != null && !from.requestNotification()) {
                owner.fail(String.valueOf(from.failure()));
                return false;
            }
        }
        return from == null || !poll();
    }

    synchronized void takeEvents() {
        QueuePair from = pair;
        asked = false;
        if (from != null) {
            from.takeEvents();
        }
    }

    /// @return nanoseconds since a batch was posted that has not completed, or since the last that
    ///     has; 0 when nothing is owed
    long silence() {
        long since = owedSince;
        return since == 0 ? 0 : Math.max(0, System.nanoTime() - since);
    }
}

package io.telpher.internal.engine;

import io.telpher.spi.WorkQueue;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// An operation that queues of links carry out: one at a time for each slot, whose `copying` it is.
/// A short one goes to one link as a whole. For a long one all links pull: each takes the next
/// range when one of its own has ended, so that it carries as much as it is fast. See
/// `docs/rdma.md`.
final class WorkJob extends DeviceQueues.Job {
    /// Operations from this length on are carried by several links.
    static final long LONG = 1 << 20;

    private static final long RANGE = 512 << 10;

    /// Ranges that a link has under way at a time.
    private static final int EACH = 2;

    private final ConnectionCore connection;
    private final QueuedEndings endings;
    final Operation op;

    /// Of the first link, then of others; the first of all carries short operations. What is there
    /// stays, so that whoever stops a job may look at them at any time.
    private WorkStripe[] stripes;

    /// Those that carry the operation.
    private int used = 1;

    /// How it ended: of several ends the one after which least is known.
    WorkQueue.End end = WorkQueue.End.DONE;

    /// The windows of the link whose end that is.
    Direct direct;

    private @Nullable String why;

    /// Nothing more is given out.
    private volatile boolean stopped;

    /// What is under way does not complete.
    private volatile boolean cutOff;

    // Of what several links carry; guarded by this.
    private long given;
    private int underWay;

    /// Threads that have handed a range to a queue, and may have to stop it.
    private int posting;

    WorkJob(ConnectionCore connection, QueuedEndings endings, QueuedCopies by, Operation op) {
        super(connection.devices);
        this.connection = connection;
        this.endings = endings;
        this.op = op;
        this.direct = by.windows;
        this.stripes = new WorkStripe[] {new WorkStripe(this, by, op.walk)};
    }

    /// @return whether it can carry the slot's next operation. What was cut off or lost hears of
    ///     its fence later, by when the slot has another one
    boolean isFor(QueuedCopies by) {
        return stripes[0].by == by && end.compareTo(WorkQueue.End.ABORTED) < 0;
    }

    /// A new operation: the first link carries it alone, unless [#share] says more.
    void reset() {
        used = 1;
        end = WorkQueue.End.DONE;
        direct = stripes[0].direct;
        why = null;
        if (stopped || cutOff) { // a volatile write is a fence
            stopped = false;
            cutOff = false;
        }
    }

    /// @return whether a link leads the same way as one that carries the operation
    boolean goesBy(LaneState lane) {
        String way = lane.lane.text();
        for (int i = 0; i < used; i++) {
            if (stripes[i].direct.lane.lane.text().equals(way)) {
                return true;
            }
        }
        return false;
    }

    /// Another link carries some of the operation.
    void share(QueuedCopies other) {
        if (used == 1) {
            use(stripes[0].by, EACH - 1);
        }
        use(other, EACH);
    }

    private void use(QueuedCopies by, int count) {
        for (int i = 0; i < count; i++) {
            if (used == stripes.length || stripes[used].by != by) {
                WorkStripe[] more = Arrays.copyOf(stripes, Math.max(stripes.length, used + 1));
                more[used] = new WorkStripe(this, by, new PieceWalk());
                stripes = more;
            }
            used++;
        }
    }

    /// Hands the operation to the queues.
    void begin() {
        int generation = op.generation;
        connection.devices.begunInBackground();
        if (used == 1) {
            stripes[0].post(0, op.length);
        } else {
            beginAll();
        }
        // Whoever ended the operation meanwhile may have stopped the work before it was posted.
        // But both may be over by now, and the slot have another operation.
        if (!op.isPending()) {
            endings.letGo(op, generation);
        }
    }

    private void beginAll() {
        WorkStripe[] all = stripes;
        int count = used;
        synchronized (this) {
            given = 0;
            underWay = count; // also of those whose turn comes when the others are done
        }
        for (int i = 0; i < count; i++) {
            all[i].takesPart = false;
            goOn(all[i]);
        }
    }

    /// Gives the next range to a link, or none any more.
    private void goOn(WorkStripe stripe) {
        long from;
        long length = 0;
        synchronized (this) {
            from = given;
            if (!stopped && !cutOff && !leavesIt(stripe)) {
                length = Math.min(RANGE, op.length - from);
                given += length;
            }
            if (length > 0) {
                posting++;
                stripe.takesPart = true;
            }
        }
        if (length == 0) {
            left(1, 0);
            return;
        }
        stripe.since = connection.platform.nanoTime();
        stripe.post(from, length);
        // Whoever stopped the job did not see it, or it sees that. The range may be over by now, as
        // all others may. Not the job: or this would meet the slot's next operation.
        if (stopped) {
            stripe.stop();
        }
        if (cutOff) {
            stripe.abort();
        }
        left(0, 1);
    }

    /// Whether a link is too slow for a range, or is being tried with one: others take it, but of
    /// the last that has something to do. Under the monitor.
    private boolean leavesIt(WorkStripe stripe) {
        long ranges = (op.length - given + RANGE - 1) / RANGE;
        if (underWay == 1 || ranges == 0) {
            return false;
        }
        LinkPace own = stripe.by.pace;
        if (own.isTooSlow(quickest(), ranges, EACH)) {
            if (!stripe.takesPart) { // else it only leaves the last ranges to others
                own.wasLeftOut();
            }
            return true;
        }
        return !own.mayTake();
    }

    /// @return the nanoseconds of the quickest link, or 0 while none has ended a range
    private long quickest() {
        long quickest = 0;
        for (int i = 0; i < used; i++) {
            long nanos = stripes[i].by.pace.nanos();
            boolean quicker = quickest == 0 || nanos < quickest;
            quickest = nanos != 0 && quicker ? nanos : quickest;
        }
        return quickest;
    }

    /// So many less have something to do with the operation.
    private void left(int stripes, int threads) {
        synchronized (this) {
            underWay -= stripes;
            posting -= threads;
            if (underWay > 0 || posting > 0) {
                return;
            }
            if (end == WorkQueue.End.DONE && given < op.length) {
                end = WorkQueue.End.STOPPED;
            }
        }
        finish();
    }

    /// A range has ended.
    void ended(WorkStripe stripe, WorkQueue.End how, @Nullable String reason) {
        if (used == 1) {
            end = how;
            why = reason;
            finish();
        } else if (how == WorkQueue.End.DONE) {
            stripe.by.pace.took(connection.platform.nanoTime() - stripe.since);
            goOn(stripe);
        } else {
            stripe.by.pace.tookNone();
            synchronized (this) {
                if (how.compareTo(end) > 0) {
                    end = how;
                    why = reason;
                    direct = stripe.direct;
                }
            }
            stop(); // before it counts as over: the slot may have another operation then
            left(1, 0);
        }
    }

    private void finish() {
        boolean good = end == WorkQueue.End.DONE;
        ended(why);
        if (!good) {
            connection.devices.attend(); // perhaps on a thread that takes no turn
        }
    }

    /// Begins nothing more, and lets what is under way complete. Harmless when it has ended.
    void stop() {
        stopped = true;
        for (WorkStripe each : stripes) {
            each.stop();
        }
    }

    /// After [#stop]: cuts off what has not completed.
    void abort() {
        cutOff = true;
        for (WorkStripe each : stripes) {
            each.abort();
        }
    }

    /// Whether nothing of what it wrote arrives at the peer any more. Under the connection's lock,
    /// when it has ended.
    boolean isFenced() {
        for (int i = 0; i < used; i++) {
            if (!stripes[i].isFenced()) {
                return false;
            }
        }
        return true;
    }

    /// Whether local memory may be touched until the peer has given up a lane. As [#isFenced].
    boolean isStuck() {
        for (int i = 0; i < used; i++) {
            if (stripes[i].isStuck()) {
                return true;
            }
        }
        return false;
    }

    /// The queue pair that carried what was cut off is gone at the peer.
    void fenced(WorkStripe stripe) {
        endings.fenced(this, stripe);
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

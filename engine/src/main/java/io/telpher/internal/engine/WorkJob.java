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
    private WorkRanges ranges = new WorkRanges();

    /// It was given to queues, and its end has not been taken up. Written by whoever begins it,
    /// then by whoever takes up its end. Whoever asks holds the connection's lock, and looks at
    /// `op.copying` first, which is cleared under that.
    boolean isGiven;

    /// Stripes that take part.
    private int underWay;

    /// Threads that have handed a range to a queue, and may have to stop it, or that ask others to
    /// go on in the place of a link that is lost: until they are through the job is not over.
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
        Direct first = stripes[0].direct;
        if (end != WorkQueue.End.DONE || direct != first) { // see Operation.setKind
            end = WorkQueue.End.DONE;
            direct = first;
        }
        why = null;
        isGiven = false;
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

    /// The operation is a long one.
    ///
    /// @param before what has carried some of it, and has ended: this carries the rest; or null
    void divide(@Nullable WorkJob before) {
        if (before == null) {
            ranges.start(op.length);
        } else {
            ranges = before.ranges;
            ranges.takeLostAgain();
            split();
        }
    }

    /// Another link carries some of the operation.
    void share(QueuedCopies other) {
        split();
        use(other, EACH);
    }

    /// The first link carries it in ranges.
    private void split() {
        if (used == 1) {
            use(stripes[0].by, EACH - 1);
        }
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
        isGiven = true;
        if (used == 1) {
            stripes[0].post(0, op.length);
        } else {
            beginAll();
        }
        // Whoever ended the operation meanwhile may have stopped the work before it was posted.
        // But both may be over by now, and the slot have another operation. Whoever stops it writes
        // `stopped` and reads who carries the work, which the post has written before this reads.
        if (stopped || !op.isPending()) {
            endings.letGo(op, generation);
        }
    }

    private void beginAll() {
        WorkStripe[] all = stripes;
        int count = used;
        synchronized (this) {
            underWay = count; // also of those whose turn comes when the others are done
            for (int i = 0; i < count; i++) {
                all[i].begin();
            }
        }
        for (int i = 0; i < count; i++) {
            goOn(all[i]);
        }
    }

    /// Gives a stripe that takes part the next range, or none any more.
    private void goOn(WorkStripe stripe) {
        boolean takes;
        boolean over = false;
        synchronized (this) {
            takes = takes(stripe);
            if (takes) {
                give(stripe);
            } else {
                over = leaves(stripe);
            }
        }
        if (takes) {
            post(stripe);
        } else if (over) {
            finish();
        }
    }

    /// Gives a range to a stripe that has left, if it would take one now: its link is quick again,
    /// or others are slow, or lost. Called for one that takes part or counted as `posting`, so that
    /// the job is not over meanwhile.
    private void comeBack(WorkStripe stripe) {
        synchronized (this) {
            if (stripe.takesPart || stripe.direct.isLost() || !takes(stripe)) {
                return;
            }
            stripe.takesPart = true;
            underWay++;
            give(stripe);
        }
        post(stripe);
    }

    /// Under the monitor.
    private void give(WorkStripe stripe) {
        stripe.from = ranges.take();
        stripe.hasTaken = true;
        posting++;
    }

    private void post(WorkStripe stripe) {
        stripe.since = connection.platform.nanoTime();
        stripe.post(stripe.from, ranges.bytes(stripe.from));
        // Whoever stopped the job did not see it, or it sees that. The range may be over by now, as
        // all others may. Not the job: or this would meet the slot's next operation.
        if (stopped) {
            stripe.stop();
        }
        if (cutOff) {
            stripe.abort();
        }
        boolean over;
        synchronized (this) {
            posting--;
            over = isOver();
        }
        if (over) {
            finish();
        }
    }

    /// Whether there is a range for a stripe: not when its link is too slow for one, or is being
    /// tried with one. Then others take it, unless no other one takes part. Under the monitor.
    private boolean takes(WorkStripe stripe) {
        long left = ranges.count();
        if (stopped || cutOff || left == 0) {
            return false;
        }
        if (underWay == (stripe.takesPart ? 1 : 0)) {
            return true;
        }
        LinkPace own = stripe.by.pace;
        if (own.isTooSlow(quickest(), left, EACH)) {
            if (stripe.takesPart && !stripe.hasTaken) { // else it only leaves the end to others
                own.wasLeftOut();
            }
            return false;
        }
        return own.mayTake();
    }

    /// @return the nanoseconds of the quickest link that is not lost, or 0 while none has ended a
    ///     range
    private long quickest() {
        long quickest = 0;
        for (int i = 0; i < used; i++) {
            WorkStripe each = stripes[i];
            long nanos = each.direct.isLost() ? 0 : each.by.pace.nanos();
            boolean quicker = quickest == 0 || nanos < quickest;
            quickest = nanos != 0 && quicker ? nanos : quickest;
        }
        return quickest;
    }

    /// A stripe does not take part any more. Under the monitor.
    ///
    /// @return whether the job is over
    private boolean leaves(WorkStripe stripe) {
        stripe.takesPart = false;
        underWay--;
        return isOver();
    }

    /// Under the monitor, after something that may end it.
    private boolean isOver() {
        if (underWay > 0 || posting > 0) {
            return false;
        }
        if (end == WorkQueue.End.DONE && ranges.count() > 0) {
            end = WorkQueue.End.STOPPED;
        }
        return true;
    }

    /// A range has ended.
    void ended(WorkStripe stripe, WorkQueue.End how, @Nullable String reason) {
        if (used == 1 && how == WorkQueue.End.DONE && !stopped) {
            endings.done(this); // from here on the slot may have another operation
        } else if (used == 1) {
            end = how;
            why = reason;
            finish();
        } else if (how == WorkQueue.End.DONE) {
            stripe.by.pace.took(connection.platform.nanoTime() - stripe.since);
            haveOthersComeBack();
            goOn(stripe);
        } else {
            notCarried(stripe, how, reason);
        }
    }

    private void haveOthersComeBack() {
        for (int i = 0; i < used; i++) {
            comeBack(stripes[i]);
        }
    }

    /// A range has not come to its end, and its stripe takes part no more. With a lost link that
    /// may have been the last one that did: what nobody had is for those that have left.
    private void notCarried(WorkStripe stripe, WorkQueue.End how, @Nullable String reason) {
        stripe.by.pace.tookNone();
        if (how.compareTo(WorkQueue.End.LOST) < 0) {
            stop(); // before it counts as over: the slot may have another operation then
        }
        synchronized (this) {
            ranges.lose(stripe.from);
            if (how.compareTo(end) > 0) {
                end = how;
                why = reason;
                direct = stripe.direct;
            }
            posting++;
            boolean unused = leaves(stripe);
        }
        haveOthersComeBack();
        boolean over;
        synchronized (this) {
            posting--;
            over = isOver();
        }
        if (over) {
            finish();
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
        stopped = true; // also where it comes first: whoever calls may hold the lock
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
        boolean taken = false;
        try {
            endings.carried(this);
            taken = true;
        } finally {
            if (!taken) {
                isGiven = false; // whoever ends the connection does not wait for it
            }
        }
    }
}

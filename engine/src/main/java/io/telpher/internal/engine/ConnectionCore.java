package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Link;
import io.telpher.spi.Windows;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// One connection inside the engine: makes its parts, gives each what it needs, and takes the turns
/// in which they take in, send and settle.
///
/// `lock` guards the operations, queues and matching; each lane has tokens of its own. Order: a
/// token may be held when the lock is taken, never the other way round; a thread holds at most one
/// token, except for closing a lane. What needs tokens or calls back is put off to
/// [#afterwards()].
final class ConnectionCore {
    private static final System.Logger LOG = System.getLogger("io.telpher");
    private static final VarHandle POLLS;

    static {
        try {
            POLLS = MethodHandles.lookup().findVarHandle(ConnectionCore.class, "polls", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    final SpinLock lock = new SpinLock();
    final OperationTable table = new OperationTable();
    final Outbound outbound;
    final Matcher matcher;
    final Endings endings;
    final LaneKeeper keeper;
    final Waiters waiters;
    final OneSided oneSided;
    final Undertaker undertaker;
    final Serving serving;
    final Mailbox mailbox;
    final Names names;
    final Posting posting;
    final Tokens tokens;

    final long defaultDeadline;

    private final EndpointImpl endpoint;
    private final long id;

    /// Freed by the collector: after the end somebody may still hold a lane's send token.
    private final Arena arena = Arena.ofAuto();

    private final Progress progress;
    private final long spinNanos;
    private final EndpointAddress peer;
    private final List<String> notesOnPaths = new ArrayList<>();
    /// A racy count.
    private int idleTurns;

    /// The outbound stamp that the last full turn saw; racy, whoever sees a newer one does a full
    /// turn.
    private long settledStamp;

    private int eagerLimit = Outbound.EAGER;

    /// How often waiting threads have polled: tells the progress thread that it is not needed. Lost
    /// increments of racing threads do not matter.
    private long polls;

    /// What the progress thread knows of this connection; its own.
    final Progress.Watch watch;

    ConnectionCore(EndpointImpl endpoint, long id, EndpointAddress peer) {
        this.endpoint = endpoint;
        this.id = id;
        this.peer = peer;
        this.progress = endpoint.progress();
        this.defaultDeadline = endpoint.options().deadline().toNanos();
        this.spinNanos = endpoint.options().spin().toNanos();
        this.waiters = new Waiters(this);
        this.outbound = new Outbound(this, lock, arena);
        this.matcher = new Matcher(this, outbound);
        this.endings = new Endings(this, lock, table);
        this.keeper = new LaneKeeper(this, lock, outbound);
        this.oneSided = new OneSided(this);
        this.undertaker = new Undertaker(this);
        this.serving = new Serving(this, table, outbound);
        this.mailbox = new Mailbox(this);
        this.names = new Names(this);
        this.posting = new Posting(this);
        this.tokens = new Tokens(this, posting);
        this.watch = new Progress.Watch(this);
    }

    long spinNanos() {
        return spinNanos;
    }

    EndpointImpl endpoint() {
        return endpoint;
    }

    long id() {
        return id;
    }

    EndpointAddress peerAddress() {
        return peer;
    }

    String peerText() {
        return "endpoint %016x".formatted(peer.incarnation());
    }

    // --- links ----------------------------------------------------------------------------------

    /// Adds a link; the first makes the connection usable.
    void add(Link link, int laneIndex, String note) {
        LaneState added = new LaneState(this, link.lane(), laneIndex, arena);
        Windows windows = link.windows();
        boolean refused;
        lock.lock();
        try {
            refused = isOver();
            if (!refused) {
                keeper.add(added);
                eagerLimit = Math.min(eagerLimit, link.lane().maxPayload());
                notesOnPaths.add(note);
                if (windows != null) {
                    oneSided.open(windows);
                }
            }
        } finally {
            lock.unlock();
        }
        if (refused) {
            link.lane().close();
            if (windows != null) {
                windows.close();
            }
            return;
        }
        progress.activate(this);
        if (isOver()) {
            progress.remove(this); // it may have been buried in between
        }
    }

    /// A way that was not taken, for [#explain()].
    void note(String text) {
        lock.lock();
        try {
            notesOnPaths.add(text);
        } finally {
            lock.unlock();
        }
    }

    @Nullable LaneState lane(int index) {
        return keeper.find(index);
    }

    void unwatch(LaneState s) {
        progress.unwatch(s);
    }

    int eagerLimit() {
        return eagerLimit;
    }

    // --- progress -------------------------------------------------------------------------------

    /// Makes progress for a thread that waits.
    ///
    /// @return frames handled
    int poll() {
        POLLS.setOpaque(this, (long) POLLS.getOpaque(this) + 1);
        return turn();
    }

    long polls() {
        return (long) POLLS.getOpaque(this);
    }

    /// One turn: takes in, sends, settles.
    int turn() {
        int frames = keeper.poll();
        // A thread that waits comes here all the time: most turns find nothing and must cost
        // little.
        long stamp = outbound.stamp();
        if (frames > 0
                || stamp != settledStamp
                || (++idleTurns & 7) == 0
                || endings.hasWork()
                || oneSided.hasWork()
                || keeper.hasWork()
                || outbound.isBlocked()) {
            settledStamp = stamp;
            afterwards();
        }
        return frames;
    }

    /// Everything that must be done without lock and tokens.
    void afterwards() {
        outbound.pump();
        while (keeper.hasWork()
                || endings.hasWork()
                || oneSided.hasWork()
                || undertaker.hasWork()) {
            if (oneSided.hasWork()) {
                oneSided.store();
            }
            keeper.settle();
            undertaker.bury();
            endings.settle();
            outbound.pump();
        }
        if (outbound.isBlocked()) {
            progress.attend(this);
        }
    }

    /// Called by the progress thread now and then.
    ///
    /// @return whether operations are in flight
    boolean tick(long now) {
        boolean any;
        lock.lock();
        try {
            any = endings.tick(now);
            keeper.tick(now);
        } finally {
            lock.unlock();
        }
        afterwards();
        return any;
    }

    // --- what the lanes report ------------------------------------------------------------------

    void laneDied(LaneState s) {
        keeper.died(s);
    }

    boolean applied(LaneState s, long upTo) {
        lock.lock();
        try {
            return outbound.applied(s, upTo);
        } finally {
            lock.unlock();
        }
    }

    boolean applied(int laneIndex, long upTo) {
        LaneState s = lane(laneIndex);
        return s == null || applied(s, Math.max(upTo, 0));
    }

    void fenceAsked(int laneIndex) {
        LaneState s = lane(laneIndex);
        if (s != null) {
            keeper.fenceAsked(s);
            return;
        }
        lock.lock();
        try {
            outbound.signal(Frame.FENCED, laneIndex, 0);
        } finally {
            lock.unlock();
        }
    }

    void fenced(int laneIndex, long upTo) {
        LaneState s = lane(laneIndex);
        boolean good;
        lock.lock();
        try {
            good = s != null && keeper.fenced(s, upTo);
        } finally {
            lock.unlock();
        }
        if (!good) {
            violated("FENCED for a lane that was not fenced");
        }
    }

    void answer(int type, LaneState s) {
        if (type == Frame.PONG) {
            s.pongDue = true;
            lock.lock();
            try {
                outbound.urgent();
            } finally {
                lock.unlock();
            }
        }
    }

    /// A frame of an operation was confirmed. Under the lock.
    void confirmed(Operation op, LaneState.Sent kind, int length) {
        op.confirmedBytes += kind == LaneState.Sent.DATA ? length : 0;
        if (!op.isPending()) {
            endings.tryFinish(op, false);
            return;
        }
        switch (op.kind) {
            case WRITE, NOTIFY -> outbound.advanceWrite(op);
            case SEND -> {
                // Whichever frame is confirmed last: the request may be, by another lane.
                if (op.unconfirmed == 0
                        && op.stage == Operation.Stage.WAIT
                        && (op.direct || (op.started && op.sent == op.length))) {
                    endings.finish(op, Connection.DONE);
                }
            }
            case SERVE -> {
                if (op.started && op.sent == op.length && op.unconfirmed == 0) {
                    endings.finish(op, Connection.DONE);
                }
            }
            default -> {}
        }
    }

    // --- what the peer reports about operations; under the lock
    // -----------------------------------

    @Nullable Operation operation(long token) {
        return table.find(token);
    }

    void finish(Operation op, int reason) {
        endings.finish(op, reason);
    }

    void revokeLater(Operation op, int reason, String detail) {
        boolean ignored = endings.revoke(op, reason, detail);
        assert ignored || !op.isPending();
    }

    /// The peer has refused a frame. Which operation it was made of is known here: the token in the
    /// frame may have been the peer's own.
    void refused(
            int laneIndex,
            long sequence,
            int reason,
            boolean readRequest,
            long sent,
            long capacity) {
        if (readRequest) {
            outbound.readAnswered();
        }
        LaneState s = lane(laneIndex);
        if (s == null || sequence <= s.acked || sequence > s.sent) {
            violated("a refusal of frame " + sequence + ", which is not under way");
            return;
        }
        if (!(s.ref(sequence - 1) instanceof Operation op)
                || op.generation != s.generation(sequence - 1)) {
            return; // ended meanwhile
        }
        if (reason == Connection.TRUNCATED && op.isPending()) {
            op.error = new TelpherException.Truncated(sent, capacity);
        }
        revokeLater(op, reason, refusalDetail(op, reason));
    }

    private String refusalDetail(Operation op, int reason) {
        if (reason == Connection.CANCELLED) {
            return op.kind == Operation.Kind.SERVE
                    ? "the reader gave up"
                    : "the peer's receive was cancelled";
        }
        return "";
    }

    void truncated(long token, TelpherException.Truncated error) {
        Operation op = table.find(token);
        if (op != null && op.isPending()) {
            op.error = error;
            revokeLater(op, Connection.TRUNCATED, "");
        }
    }

    void aborted(long token, int reason, boolean readRequest) {
        if (readRequest) {
            outbound.readAnswered();
        }
        Operation op = table.find(token);
        if (op != null) {
            aborted(
                    op,
                    reason,
                    op.kind == Operation.Kind.READ
                            ? "the owner closed the region"
                            : "the peer ended it early");
        }
    }

    /// The peer ended an operation early. A receive whose memory it could not reach has lost its
    /// region.
    void aborted(Operation op, int reason, String detail) {
        RegionImpl region = op.region;
        boolean ours = op.kind == Operation.Kind.RECEIVE && region != null && !region.isOpen();
        revokeLater(
                op,
                ours ? Connection.STALE : reason,
                ours ? "its local region was closed" : detail);
    }

    void receiveWithdrawn(Operation op) {
        op.asking = false;
        endings.tryFinish(op, false);
    }

    void withdrawn(long token) {
        Operation op = table.find(token);
        if (op != null && op.kind == Operation.Kind.RECEIVE) {
            receiveWithdrawn(op);
        }
    }

    void receivedByStore(long token, long length) {
        Operation op = table.find(token);
        if (op != null && op.kind == Operation.Kind.RECEIVE && op.isPending()) {
            op.received = Math.clamp(length, 0, op.length);
            endings.finish(op, Connection.DONE);
        }
    }

    /// Makes sure that no lane touches an operation's memory any more. Without lock and tokens.
    void letGo(Operation op) {
        outbound.letGo(op);
        for (LaneState s : outbound.lanes()) {
            s.pollToken.take();
            try {
                if (!s.closed) {
                    s.lane.discardInbound(op);
                }
            } finally {
                s.pollToken.giveBack();
            }
        }
    }

    /// Makes sure that no lane writes into a region any more. Without lock and tokens.
    void letGo(RegionImpl region) {
        for (LaneState s : outbound.lanes()) {
            s.pollToken.take();
            try {
                if (!s.closed) {
                    s.lane.discardInbound(region);
                }
            } finally {
                s.pollToken.giveBack();
            }
        }
    }

    void endUsers(RegionImpl region) {
        lock.lock();
        try {
            endings.revokeUsers(region);
        } finally {
            lock.unlock();
        }
        afterwards();
    }

    /// Runs a caller's action; what it throws is the caller's bug and must not end a lane or the
    /// progress thread.
    void run(Runnable action) {
        try {
            action.run();
        } catch (Throwable e) {
            LOG.log(System.Logger.Level.WARNING, "a callback failed", e);
        }
    }

    // --- serving reads --------------------------------------------------------------------------

    int serve(RegionImpl region, long offset, long length, long token, long base) {
        lock.lock();
        try {
            return serving.serve(region, offset, length, token, base);
        } finally {
            lock.unlock();
        }
    }

    int servePieces(
            RegionImpl region,
            MemorySegment table,
            long at,
            int bytes,
            int count,
            long token,
            long base) {
        lock.lock();
        try {
            return serving.servePieces(region, table, at, bytes, count, token, base);
        } finally {
            lock.unlock();
        }
    }

    void served() {
        serving.ended();
    }

    // --- the end --------------------------------------------------------------------------------

    boolean isOver() {
        return undertaker.failure() != null;
    }

    int reasonOver() {
        TelpherException over = undertaker.failure();
        return over == null ? Connection.FAILED : Failures.reason(over);
    }

    @Nullable TelpherException failure() {
        return undertaker.failure();
    }

    /// Ends the connection with a cause, the first of which counts; whoever takes the next turn
    /// does the rest. May be called with tokens or the lock.
    void fail(TelpherException cause) {
        undertaker.fail(cause);
    }

    void close() {
        undertaker.close();
    }

    void violated(String what) {
        fail(new TelpherException.ProtocolViolation(peerText() + " broke the protocol: " + what));
    }

    /// The peer said goodbye. Under the lock.
    void peerCloses() {
        fail(new TelpherException.PeerLost(peerText() + " closed the connection"));
    }

    // --- for people -----------------------------------------------------------------------------

    String explain() {
        StringBuilder text = new StringBuilder("connection with ").append(peer).append('\n');
        lock.lock();
        try {
            for (LaneState s : outbound.lanes()) {
                text.append("  ").append(s.name());
                text.append(s.dead ? ": dead, " + s.death : ": in use").append('\n');
            }
            for (String note : notesOnPaths) {
                text.append("  ").append(note).append('\n');
            }
        } finally {
            lock.unlock();
        }
        oneSided.explain(text);
        return text.toString();
    }

    ConnectionMetrics metrics() {
        List<ConnectionMetrics.Lane> lanes = new ArrayList<>();
        long sent;
        long received = 0;
        long done;
        long failed;
        lock.lock();
        try {
            sent = oneSided.bytesWritten();
            for (LaneState s : outbound.lanes()) {
                lanes.add(
                        new ConnectionMetrics.Lane(
                                s.name(),
                                !s.dead,
                                s.framesSent,
                                s.framesReceived,
                                s.bytesSent,
                                s.bytesReceived));
                sent += s.bytesSent;
                received += s.bytesReceived;
            }
            done = endings.done + oneSided.shortDone();
            failed = endings.failed;
        } finally {
            lock.unlock();
        }
        return new ConnectionMetrics(sent, received, done, failed, List.copyOf(lanes));
    }
}

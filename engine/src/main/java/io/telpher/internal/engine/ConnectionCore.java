package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.Device;
import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.TransferFailures;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.spi.Link;
import io.telpher.spi.Locator;
import io.telpher.spi.Windows;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// One connection inside the engine: makes its parts, gives each what it needs, and takes the turns
/// in which they take in, send and settle.
///
/// `lock` guards the operations, queues and matching; each lane has tokens of its own. Order: a
/// token may be held when the lock is taken, never the other way round; a thread holds at most one
/// token, except for closing a lane. What needs tokens or calls back is put off to
/// [#afterwards()].
final class ConnectionCore {
    private static final VarHandle POLLS;

    /// No stamp: they count up from 0.
    private static final long UNSETTLED = -1;

    static {
        try {
            POLLS = MethodHandles.lookup().findVarHandle(ConnectionCore.class, "polls", long.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    final Platform platform;
    final SpinLock lock;
    final OperationTable table;
    final Lanes lanes;
    final Tally tally;
    final Outbound outbound;
    final Pump pump;
    final Matcher matcher;
    final Endings endings;
    final LaneKeeper keeper;
    private final Liveness liveness;
    final Waiters waiters;
    final DeviceQueues devices;
    final StreamWaits streams;
    final OneSided oneSided;
    final Undertaker undertaker;
    final Reports reports;
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
    private final AddressCodec.Address peer;

    /// Made when somebody asks for it.
    private volatile @Nullable EndpointAddress peerAddress;

    /// For [#explain()]; guarded by the lock.
    private final List<String> notesOnPaths = new ArrayList<>();

    private final List<Connection.Refusal> refusals = new CopyOnWriteArrayList<>();

    /// A racy count.
    private int idleTurns;

    /// The outbound stamp that the last full turn saw, or [#UNSETTLED]; racy, whoever sees a newer
    /// one does a full turn.
    private long settledStamp;

    /// The peer said goodbye; guarded by the lock.
    private boolean goodbye;

    private int eagerLimit = Outbound.EAGER;

    /// Dials again what has died; null where the peer does, and before all is set up.
    private volatile @Nullable Rejoining rejoining;

    /// How often waiting threads have polled: tells the progress thread that it is not needed. Lost
    /// increments of racing threads do not matter.
    private long polls;

    /// What the progress thread knows of this connection; its own.
    final Watch watch;

    ConnectionCore(EndpointImpl endpoint, long id, AddressCodec.Address peer) {
        this.platform = endpoint.platform();
        this.lock = new SpinLock(platform);
        this.table = new OperationTable(platform);
        this.lanes = new Lanes();
        this.tally = new Tally();
        this.endpoint = endpoint;
        this.id = id;
        this.peer = peer;
        this.progress = endpoint.progress();
        this.defaultDeadline = endpoint.options().deadline().toNanos();
        this.spinNanos = endpoint.options().spin().toNanos();
        this.waiters = new Waiters(this);
        this.outbound = new Outbound(this, arena);
        this.pump = new Pump(this);
        this.matcher = new Matcher(this, outbound);
        this.endings = new Endings(this, lock, table);
        this.keeper = new LaneKeeper(this, lock, outbound);
        this.liveness = new Liveness(this, outbound, keeper);
        this.devices = new DeviceQueues(this);
        this.streams = new StreamWaits(this);
        this.oneSided = new OneSided(this);
        this.undertaker = new Undertaker(this);
        this.reports = new Reports(this);
        this.serving = new Serving(this, table, outbound);
        this.mailbox = new Mailbox(this);
        this.names = new Names(this);
        this.posting = new Posting(this);
        this.tokens = new Tokens(this, posting);
        this.watch = new Watch(this);
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
        EndpointAddress address = peerAddress;
        if (address == null) {
            address = EndpointAddress.ofBytes(AddressCodec.encode(peer));
            peerAddress = address;
        }
        return address;
    }

    long peerIncarnation() {
        return peer.incarnation();
    }

    String peerText() {
        return "endpoint %016x".formatted(peer.incarnation());
    }

    // --- links ----------------------------------------------------------------------------------

    /// Adds a link; the first makes the connection usable. One that comes too late is closed: after
    /// the end of the connection, or after the peer has given up the lane that it was to become.
    ///
    /// @param way what it runs over, as the route or the channel has it
    /// @param what how it came to be, for [#explain()]
    /// @return whether it is a lane now
    boolean add(Link link, int laneIndex, String way, String what) {
        LaneState added = new LaneState(this, link.lane(), laneIndex, way, arena);
        String note = way + ": " + what;
        Windows windows = link.windows();
        boolean spent;
        boolean refused;
        lock.lock();
        try {
            spent = lanes.isSpent(laneIndex);
            refused = spent || isOver();
            if (!refused) {
                lanes.add(added);
                eagerLimit = Math.min(eagerLimit, link.lane().maxPayload());
                notesOnPaths.add(note);
                if (windows != null) {
                    oneSided.links.open(new Direct(windows, this, added));
                }
            }
        } finally {
            lock.unlock();
        }
        if (refused) {
            if (spent) {
                note(added.name() + ": too late, the peer has given up lane " + laneIndex);
            }
            link.lane().close();
            if (windows != null) {
                windows.close();
            }
            return false;
        }
        if (laneIndex == 0) {
            Events.opened(this);
        }
        Events.laneAdded(this, added);
        Events.chosen(this, note);
        String noWindows = link.noWindows();
        if (noWindows != null) {
            note("one-sided: " + noWindows);
        }
        progress.activate(this);
        if (isOver()) {
            progress.remove(this); // it may have been buried in between
        }
        return true;
    }

    /// The peer wants to add a lane: this side's bound holds, whatever the peer's is. If it may,
    /// [#expectNoMore] must follow.
    boolean expect(int laneIndex) {
        lock.lock();
        try {
            return lanes.expect(laneIndex, endpoint.options().maxSockets());
        } finally {
            lock.unlock();
        }
    }

    void expectNoMore(int laneIndex) {
        lock.lock();
        try {
            lanes.expectNoMore(laneIndex);
        } finally {
            lock.unlock();
        }
    }

    /// This side has made the connection and looks after its lanes.
    void rejoinBy(Rejoining rejoining) {
        this.rejoining = rejoining;
    }

    /// A way that was not taken, for [#explain()]; once, however many regions it is about.
    void note(String text) {
        lock.lock();
        try {
            if (notesOnPaths.contains(text)) {
                return;
            }
            notesOnPaths.add(text);
        } finally {
            lock.unlock();
        }
        Events.rejected(this, text);
    }

    /// A device that does not move some bytes: a [#note] of which programs hear too.
    void refused(Device by, String text) {
        note(text);
        Connection.Refusal refusal = new Connection.Refusal(by, text);
        if (!refusals.contains(refusal)) {
            refusals.add(refusal);
        }
    }

    List<Connection.Refusal> refusals() {
        return refusals;
    }

    @Nullable LaneState lane(int index) {
        return lanes.find(index);
    }

    void unwatch(LaneState s) {
        progress.sources().unwatch(s);
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
        int frames = turn();
        if (frames == 0) {
            platform.polledInVain();
        }
        return frames;
    }

    /// Makes progress for a thread that waits for a notification. One that comes in and that nobody
    /// is before goes straight to where the thread wants it, past the queue.
    ///
    /// @return its length, or -1
    int poll(MemorySegment into) {
        POLLS.setOpaque(this, (long) POLLS.getOpaque(this) + 1);
        long polled = keeper.poll(into);
        int others = devices.poll() + streams.poll();
        if (LaneKeeper.noteLength(polled) >= 0
                && LaneKeeper.frames(polled) == 1
                && others == 0
                && !outbound.hasControl()
                && !outbound.hasShort()
                && !isDue()) {
            // The thread may have an answer, which goes first: the next turn settles. If this
            // thread takes no more, the progress thread does, which must not arm meanwhile.
            settledStamp = UNSETTLED;
            progress.attend(this);
        } else {
            settle(LaneKeeper.frames(polled) + others);
        }
        if (polled == 0) {
            platform.polledInVain();
        }
        return LaneKeeper.noteLength(polled);
    }

    long polls() {
        return (long) POLLS.getOpaque(this);
    }

    /// One turn: takes in, sends, settles.
    ///
    /// @return frames that came, and whether something else has ended; 0 is a quiet turn
    int turn() {
        QueuedEndings queued = oneSided.queued;
        int done = queued.doneSoFar();
        int frames = LaneKeeper.frames(keeper.poll(null)) + devices.poll() + streams.poll();
        settle(frames);
        return done == queued.doneSoFar() ? frames : frames + 1;
    }

    /// Sends and settles. A thread that waits comes here all the time: most turns find nothing and
    /// must cost little.
    void settle(int frames) {
        long stamp = outbound.stamp();
        if (frames > 0 || stamp != settledStamp || (++idleTurns & 7) == 0 || isDue()) {
            settledStamp = stamp;
            afterwards();
        }
    }

    /// Whether something waits for [#afterwards()], beside frames to be sent.
    private boolean isDue() {
        return endings.hasWork()
                || devices.hasEnded()
                || oneSided.hasWork()
                || keeper.hasWork()
                || undertaker.hasWork()
                || lanes.isBlocked();
    }

    /// Everything that must be done without lock and tokens.
    void afterwards() {
        pump.turn();
        while (keeper.hasWork()
                || endings.hasWork()
                || devices.hasEnded()
                || oneSided.hasWork()
                || undertaker.hasWork()) {
            devices.takeUp();
            if (oneSided.hasWork()) {
                oneSided.store();
            }
            keeper.settle();
            undertaker.bury();
            endings.settle();
            pump.turn();
        }
        if (lanes.isBlocked()) {
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
            liveness.tick(now);
        } finally {
            lock.unlock();
        }
        oneSided.links.tick(now, endpoint().control());
        afterwards();
        Rejoining again = rejoining;
        if (again != null) {
            again.tick(now);
        }
        return any;
    }

    /// Has slots that are not in use let go of a region of this side that is closed. No callback
    /// runs here, and nothing is copied.
    void letGo(RegionImpl region) {
        lock.lock();
        try {
            endings.letGo(region);
        } finally {
            lock.unlock();
        }
    }

    /// Ends operations that use a region of this side.
    void endUsers(RegionImpl region, Predicate<Operation> which) {
        lock.lock();
        try {
            endings.revokeUsers(region, which);
        } finally {
            lock.unlock();
        }
        afterwards();
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

    void confirmedTooMuch(long upTo) {
        violated("confirmation " + upTo + " of frames that were not sent");
    }

    /// The peer said goodbye. Under the lock.
    void peerCloses() {
        goodbye = true;
        fail(new TelpherException.PeerLost(peerText() + " closed the connection"));
    }

    // --- for people -----------------------------------------------------------------------------

    String explain() {
        StringBuilder text = new StringBuilder("connection with ").append(peerText());
        List<Locator> places = peer.locators();
        text.append(places.isEmpty() ? "" : " at ");
        text.append(places.stream().map(Locator::text).collect(Collectors.joining(", ")));
        text.append('\n');
        lock.lock();
        try {
            for (LaneState s : lanes.all()) {
                text.append("  ").append(s.name());
                text.append(s.dead ? ": dead, " + s.death : ": in use").append('\n');
            }
            for (String note : notesOnPaths) {
                text.append("  ").append(note).append('\n');
            }
        } finally {
            lock.unlock();
        }
        if (endpoint.options().checksums() && !isChecked()) {
            text.append("  no checksums, though wanted: the peer does not know them\n");
        }
        Rejoining again = rejoining;
        text.append(again == null ? "" : again.explain());
        oneSided.links.explain(text);
        return text.toString();
    }

    /// Whether one of the sides ended it on purpose.
    boolean wasClosed() {
        lock.lock();
        try {
            return goodbye || undertaker.failure() instanceof TelpherException.Closed;
        } finally {
            lock.unlock();
        }
    }

    private boolean isChecked() {
        for (LaneState s : lanes.all()) {
            if (!(s.lane instanceof CheckedLane)) {
                return false;
            }
        }
        return true;
    }

    ConnectionMetrics metrics() {
        Tally sum = new Tally();
        TransferFailures failures;
        long slow;
        long notificationsSent;
        long notificationsReceived;
        lock.lock();
        try {
            sum.add(tally);
            failures = tally.failures();
            slow = tally.slow;
            notificationsSent = tally.notificationsSent;
            notificationsReceived = tally.notificationsReceived;
        } finally {
            lock.unlock();
        }
        oneSided.links.count(sum);
        List<ConnectionMetrics.Lane> each = new ArrayList<>();
        // What lanes count is written under their tokens: a snapshot reads it as it is.
        for (LaneState s : lanes.all()) {
            ConnectionMetrics.Lane lane = s.metrics();
            each.add(lane);
            notificationsReceived += s.notesTaken;
            Tally.OfPath path = sum.of(lane.path());
            path.written += lane.bytesSent();
            path.read += lane.bytesReceived();
        }
        return new ConnectionMetrics(
                id,
                peer.incarnation(),
                slow,
                notificationsSent,
                notificationsReceived,
                failures,
                sum.paths(),
                each);
    }
}

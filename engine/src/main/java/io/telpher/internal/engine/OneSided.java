package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.internal.device.Intermediates;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Adverts;
import org.jspecify.annotations.Nullable;

/// What this side does to the peer's memory by itself: short copies at once, longer ones as
/// operations, and the bytes of sends whose receive it may reach. [Direct] has the windows of a
/// link and copies, [LinkWindows] says through which; here is when that is done, and what follows
/// from how it went.
///
/// Posting threads carry out what they post; sends that have met their receive wait in `stores`,
/// under the connection's lock, for whoever takes the next turn. Copies run without lock and
/// tokens: `op.copying` says that one is under way.
final class OneSided {
    /// Result of [#copyNow]: it has to be posted as an operation.
    static final int NOT_NOW = -200;

    private final ConnectionCore connection;
    private final SpinLock lock;
    private final Outbound outbound;
    private final Sends sends;
    private final Endings endings;

    /// The peer's incarnation: descriptors of another one are stale.
    private final long peer;

    /// What whoever takes the next turn has to carry out: sends whose bytes this side stores into
    /// the peer's receive by itself, and what a lost link has left of long operations.
    final OperationQueue stores;

    /// The windows that copies go through.
    final LinkWindows links = new LinkWindows();

    /// The same by links' own queues: how it ends.
    final QueuedEndings queued;

    OneSided(ConnectionCore connection) {
        this.connection = connection;
        this.lock = connection.lock;
        this.outbound = connection.outbound;
        this.sends = connection.matcher.sends;
        this.endings = connection.endings;
        this.peer = connection.peerIncarnation();
        this.stores = new OperationQueue(connection.table);
        this.queued = new QueuedEndings(connection, this);
    }

    /// Closes the windows, from and to which no GPU copies.
    void close() {
        try {
            links.close();
        } finally {
            queued.close();
        }
    }

    /// Whether operations wait for [#store].
    boolean hasWork() {
        return stores.isFilled();
    }

    /// Tries a short copy without an operation.
    ///
    /// @return `DONE`, a reason, or [#NOT_NOW]
    int copyNow(
            Operation.Kind kind,
            RegionImpl region,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length) {
        Direct windows = links.current();
        if (windows == null || windows.queued != null) { // a NIC copies in the background
            return NOT_NOW;
        }
        if (remote.incarnation() != peer) {
            return Connection.STALE;
        }
        if (!region.enter()) {
            return Connection.STALE;
        }
        PeerRegion slot;
        int result;
        try {
            slot = windows.slot(remote);
            result =
                    slot == null
                            ? windows.whyNot(remote)
                            : windows.copy(
                                    slot, kind, region, localOffset, remote, remoteOffset, length);
        } finally {
            region.exit();
        }
        if (result == Direct.NOT_OPEN || result == Direct.NO_WINDOW || result == Direct.BY_DEVICE) {
            return NOT_NOW;
        }
        if (result == Connection.PEER_LOST) {
            lost(result, remote);
            connection.afterwards();
        }
        if (connection.isOver()) {
            return connection.reasonOver(); // no DONE after the peer was found to be lost
        }
        if (result == Connection.DONE && slot != null) {
            slot.count(kind, length);
        }
        return result;
    }

    /// A short copy was not the end of what it belongs to.
    void uncount(Operation.Kind kind, RemoteMemory remote, long length) {
        Direct windows = links.current();
        if (windows != null) {
            windows.uncount(kind, remote, length);
        }
    }

    /// Tries a counter update that follows a short write.
    ///
    /// @return `DONE`, a reason, or [#NOT_NOW]
    int updateNow(CounterUpdate counter) {
        Direct windows = links.current();
        int result = windows == null ? NOT_NOW : windows.update(counter);
        return result == Direct.NOT_OPEN || result == Direct.NO_WINDOW ? NOT_NOW : result;
    }

    /// The path to a peer's memory by a window, or "" while there is none.
    String path(RemoteMemory remote) {
        Direct windows = links.current();
        String path = windows == null ? null : windows.path(remote);
        return path == null ? "" : path;
    }

    /// The path to a peer's memory.
    String pathTo(@Nullable RemoteMemory remote) {
        String path = remote == null ? "" : path(remote);
        return path.isEmpty() ? connection.lanes.path() : path;
    }

    /// The path of an operation that has gone through windows; `op.copying` is set.
    private String pathOf(Operation op) {
        DeviceJob job = op.job;
        boolean via = job != null && job.through != null;
        return via ? Intermediates.PATH : pathTo(firstRemote(op));
    }

    /// Carries an operation out through windows, on this thread; without lock and tokens.
    /// `op.copying` is set.
    void carryOut(Operation op) {
        carryOut(op, false);
    }

    private void carryOut(Operation op, boolean opened) {
        Direct windows = links.current();
        int result =
                windows == null
                        ? Direct.NO_WINDOW
                        : enter(windows, op) ? run(windows, op) : Connection.STALE;
        if (result == DeviceCopies.LAUNCHED) {
            return;
        }
        if (result == Direct.NOT_OPEN && !opened && windows != null) {
            openWindows(windows, op);
            return;
        }
        conclude(op, result, "");
    }

    /// Has a send enter the receive that it is to store into.
    ///
    /// @return false when that is over, which frames will hear from the peer
    private static boolean enter(Direct windows, Operation op) {
        Adverts adverts = windows.adverts;
        if (op.kind != Operation.Kind.SEND || adverts == null) {
            return true;
        }
        op.insideOf = op.peerToken;
        boolean open = adverts.enter(op.insideOf);
        op.inside = open ? adverts : null;
        return open;
    }

    /// Has it leave.
    ///
    /// @return how storing went: what went into a receive that had ended was in vain
    private static int leave(Operation op, int result) {
        Adverts adverts = op.inside;
        if (adverts == null) {
            return result;
        }
        boolean open = adverts.isOpen(op.insideOf);
        op.inside = null;
        if (!op.exposed) { // by a GPU that is lost
            adverts.exit(op.insideOf);
        }
        return open ? result : Connection.STALE;
    }

    /// A GPU has copied a part of an operation: launches the next one, or goes on with the
    /// operation. Without lock and tokens.
    void copied(DeviceJob job) {
        Operation op = job.op;
        String failure = job.failure;
        Device through = job.through;
        Direct windows = links.current();
        int result = failure == null ? Connection.DONE : Connection.FAILED;
        if (failure == null && job.touchedClosed) {
            result = Connection.STALE;
        }
        if (job.isLost()) {
            mayGoOn(op);
        }
        if (through != null && windows != null) {
            if (failure == null) {
                windows.reach.carried(through);
            } else if (windows.reach.failed(through, failure, job.isLost())) {
                // Neither end's device has failed, and all copies have ended: frames go on.
                result = Direct.NO_WINDOW;
            }
        }
        if (failure == null) {
            op.copied += job.bytes;
            if (result == Connection.DONE && op.copied < op.length && windows != null) {
                boolean goesOn = op.goOn() && !connection.isOver();
                result = goesOn ? runPart(windows, op) : Connection.TIMED_OUT;
            }
        }
        if (result == Direct.NOT_OPEN && windows != null) {
            openWindows(windows, op); // the steps before went through others
        } else if (result != DeviceCopies.LAUNCHED) {
            conclude(op, result, failure == null ? "" : failure);
        }
    }

    /// The GPU that copied for an operation is lost, and may still write.
    private void mayGoOn(Operation op) {
        lock.lock();
        try {
            op.exposed = true;
        } finally {
            lock.unlock();
        }
    }

    private static int runPart(Direct windows, Operation op) {
        try {
            return windows.runByDevice(op);
        } catch (Throwable e) {
            Failures.letThrough(e);
            Log.error("a copy by a device failed", e);
            return Connection.FAILED;
        }
    }

    /// A copy through windows is over: goes on with its operation.
    ///
    /// @param detail why it failed, for people; may be empty
    void conclude(Operation op, int copied, String detail) {
        Direct windows = links.current();
        int result = leave(op, copied);
        CounterUpdate counter = op.counter;
        boolean counted = false;
        if (result == Connection.DONE && counter != null && windows != null) {
            int update = update(windows, counter);
            if (update == Connection.DONE) {
                counted = true;
            } else if (update != Direct.NO_WINDOW) {
                result = update;
            }
        }
        String path = pathOf(op);
        lock.lock();
        try {
            op.copying = false;
            op.path = path; // also when it failed: that is where
            if (!op.isPending()) {
                sends.stoppedStoring(op);
                endings.tryFinish(op, connection.isOver());
                return;
            }
            if (result == Connection.DONE) {
                Tally.OfPath counters = connection.tally.of(op.path);
                if (op.kind == Operation.Kind.READ) {
                    counters.read += op.length;
                } else {
                    counters.written += op.length;
                }
                op.direct = true;
                if (counted) {
                    op.counter = null;
                }
                if (op.kind == Operation.Kind.READ) {
                    op.received = op.length;
                    endings.finish(op, Connection.DONE);
                } else if (op.kind == Operation.Kind.SEND) {
                    sends.stored(op);
                } else {
                    outbound.advanceWrite(op);
                }
            } else if (result == Direct.NO_WINDOW
                    || result == Direct.NOT_OPEN
                    || isReceiveGone(op, result)) {
                goByFrames(op);
            } else if (connection.isOver() || result == Connection.PEER_LOST) {
                lost(result, firstRemote(op));
                // Windows close with their connection: what ended that is the reason.
                op.error = connection.failure();
                endings.revoke(op, connection.reasonOver(), "");
            } else {
                endings.revoke(
                        op,
                        result,
                        result == Connection.TIMED_OUT
                                ? ""
                                : "path %s%s"
                                        .formatted(path, detail.isEmpty() ? "" : ": " + detail));
            }
        } finally {
            lock.unlock();
        }
    }

    private static int update(Direct windows, CounterUpdate counter) {
        try {
            return windows.update(counter);
        } catch (Throwable e) {
            Failures.letThrough(e);
            Log.error("a counter could not be updated through a window", e);
            return Connection.FAILED;
        }
    }

    /// The receive that a message was to be stored into has ended, or lost its region. What becomes
    /// of the message is the receive's to say: its frames find out.
    private boolean isReceiveGone(Operation op, int result) {
        return op.kind == Operation.Kind.SEND && result == Connection.STALE && !connection.isOver();
    }

    /// Sends by frames what could not be copied. Under the lock.
    void goByFrames(Operation op) {
        op.path = connection.lanes.path();
        if (op.kind == Operation.Kind.SEND) {
            sends.notStored(op);
        } else {
            op.stage = Operation.Stage.DATA;
            outbound.enqueue(op);
        }
    }

    /// Opens what an operation needs, then carries it out. Opening asks the peer, who may not
    /// answer: meanwhile nothing touches the operation's memory, so that it can end.
    private void openWindows(Direct windows, Operation op) {
        int generation = op.generation;
        int unused = leave(op, Connection.DONE); // it enters again when they are open
        op.together = false; // by the time that it can begin its list has long been posted
        Runnable opening =
                windows.opening.of(
                        op,
                        "by frames",
                        () -> {
                            if (resume(op, generation)) {
                                carryOut(op, true);
                            }
                            connection.afterwards();
                        });
        lock.lock();
        try {
            op.copying = false;
            if (!op.isPending()) {
                sends.stoppedStoring(op);
                endings.tryFinish(op, connection.isOver());
                return;
            }
        } finally {
            lock.unlock();
        }
        connection.endpoint().control().execute(opening);
    }

    private boolean resume(Operation op, int generation) {
        lock.lock();
        try {
            if (op.generation != generation || !op.isPending()) {
                return false;
            }
            op.copying = true;
            return true;
        } finally {
            lock.unlock();
        }
    }

    /// Whatever happens, the operation has to end.
    private static int run(Direct windows, Operation op) {
        try {
            return windows.run(op);
        } catch (Throwable e) {
            Failures.letThrough(e);
            Log.error("a copy through a window failed", e);
            return Connection.FAILED;
        }
    }

    /// A window found out that the peer is gone: nothing else of this connection may succeed after
    /// that.
    private void lost(int result, @Nullable RemoteMemory remote) {
        if (result == Connection.PEER_LOST && !connection.isOver()) {
            connection.fail(
                    new TelpherException.PeerLost(
                            "lost %s: path %s: its process cannot be reached any more"
                                    .formatted(connection.peerText(), pathTo(remote))));
        }
    }

    static @Nullable RemoteMemory firstRemote(Operation op) {
        return op.remotePieces != null ? op.remotePieces.region(0) : op.remote;
    }

    /// A send met a receive whose memory this side may reach: whoever gets to [#store] stores
    /// the bytes there. Under the lock.
    boolean storeLater(Operation op, RemoteMemory memory) {
        if (!links.areThere() || memory.incarnation() != peer) {
            return false;
        }
        op.remote = memory;
        op.remoteOffset = 0;
        stores.add(op);
        return true;
    }

    /// Carries out the next that waits for that, without lock and tokens. The progress thread,
    /// which serves all connections, leaves long copies to another thread.
    void store() {
        Operation op;
        int generation = 0;
        lock.lock();
        try {
            op = stores.peek();
            if (op != null) {
                stores.removeFirst();
                generation = op.generation;
            }
        } finally {
            lock.unlock();
        }
        if (op != null) {
            takeUp(op, generation);
        }
    }

    /// Carries out an operation whose turn has come, if it has not ended since; long copies are not
    /// made by the progress thread. Without lock and tokens.
    void takeUp(Operation op, int generation) {
        if (!connection.endpoint().progress().isCurrent() || op.length <= Direct.SHORT) {
            if (resume(op, generation)) {
                carryOut(op);
            }
            return;
        }
        connection
                .endpoint()
                .control()
                .execute(
                        () -> {
                            if (resume(op, generation)) {
                                carryOut(op);
                            }
                            connection.afterwards();
                        });
    }
}

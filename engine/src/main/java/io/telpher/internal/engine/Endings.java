package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import java.lang.invoke.VarHandle;
import java.util.ArrayDeque;
import java.util.List;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// How operations end. Guarded by the connection's lock, except for [#settle()], which must be
/// called without the lock and without tokens: it takes memory away from lanes and calls back.
final class Endings {
    /// What a NIC carries is cut off when this part of the drain limit was not enough for it.
    private static final int CUT_OFF = 4;

    private final ConnectionCore connection;
    private final SpinLock lock;
    private final OperationTable table;
    private final ArrayDeque<Operation> revoking = new ArrayDeque<>();
    private final ArrayDeque<TransferImpl> toCall = new ArrayDeque<>();

    /// Hint for [#settle()].
    private final Hint work = new Hint();

    /// Something ended since the last look: parked threads may have to wake up.
    private final Hint news = new Hint();

    /// Nobody tells of senders any more. Under the lock.
    private boolean windowsClosed;

    private final Tally tally;
    private final long slowNanos;
    private final long drainNanos;

    Endings(ConnectionCore connection, SpinLock lock, OperationTable table) {
        this.connection = connection;
        this.lock = lock;
        this.table = table;
        this.tally = connection.tally;
        this.drainNanos = connection.endpoint().options().drainLimit().toNanos();
        this.slowNanos = connection.endpoint().options().slowTransfer().toNanos();
    }

    /// Counts an operation into the regions of its local pieces; one region alone is the slot's to
    /// count ([RegionHold]).
    ///
    /// @return false when one of them is closed; then it is in none
    static boolean enter(@Nullable MemorySlices pieces) {
        if (pieces == null) {
            return true;
        }
        List<MemoryRegion> regions = pieces.regions();
        for (int i = 0; i < regions.size(); i++) {
            if (!((RegionImpl) regions.get(i)).enter()) {
                exit(regions, i);
                return false;
            }
        }
        return true;
    }

    static void exit(@Nullable MemorySlices pieces) {
        if (pieces != null) {
            exit(pieces.regions(), pieces.regions().size());
        }
    }

    /// By index: an iterator would be garbage of every transfer.
    private static void exit(List<MemoryRegion> regions, int until) {
        for (int i = 0; i < until; i++) {
            ((RegionImpl) regions.get(i)).exit();
        }
    }

    /// Ends an operation that nothing touches any more.
    ///
    /// @return false when it was ending already, or ends with the connection instead
    boolean finish(Operation op, int reason) {
        assert lock.isMine();
        TelpherException over = connection.failure();
        if (over != null && op.isPending()) {
            // Nothing is DONE after the peer was reported to be lost.
            op.error = over;
            boolean first = revoke(op, Failures.reason(over), "");
            assert first;
            return false;
        }
        if (!op.advance(Operation.PENDING, Operation.ENDED)) {
            return false;
        }
        keepSenderOut(op);
        op.reason = reason;
        op.setQuiet(RemoteQuiet.YES);
        ended(op);
        return true;
    }

    /// Begins the end of an operation with a cause; the first cause wins.
    ///
    /// @return false when it was ending already
    boolean revoke(Operation op, int reason, String detail) {
        assert lock.isMine();
        if (!op.isPending()) {
            return false;
        }
        // Before the state: an operation that has failed says why, whatever is thrown here.
        TelpherException why =
                op.error != null ? op.error : Failures.exception(reason, describe(op), detail);
        if (!op.advance(Operation.PENDING, Operation.ENDING)) {
            return false;
        }
        keepSenderOut(op);
        op.reason = reason;
        op.error = why;
        op.drainUntil = connection.platform.nanoTime() + drainNanos;
        boolean begun = op.line == null;
        if (begun) {
            revoking.addLast(op);
            work.set();
        } else {
            connection.streams.remove(op);
            op.letGo = true;
        }
        tellPeer(op, reason);
        if (!begun) {
            tryFinish(op, false);
        }
        return true;
    }

    /// The sender may not store into a receive any more. That needs no answer; being asked besides,
    /// the sender says what has become of its message.
    private void keepSenderOut(Operation op) {
        if (op.revocable) {
            connection.oneSided.links.keepOut(op.token());
        }
    }

    private void tellPeer(Operation op, int reason) {
        switch (op.kind) {
            case WRITE, NOTIFY -> connection.outbound.credits.noteRevoked(op);
            case SEND -> connection.matcher.sends.revoked(op);
            case RECEIVE -> {
                if (!op.peerEnded
                        && !connection.isOver()
                        && connection.matcher.receives.askToWithdraw(op)) {
                    // Where its region closes nothing has to be waited for: that keeps everybody
                    // out, and must not depend on the peer.
                    op.asking = reason != Connection.STALE;
                }
            }
            case SERVE -> {
                if (!op.dataSent()) {
                    connection.outbound.abortServe(op, reason, true);
                    connection.serving.ended();
                }
            }
            default -> {}
        }
    }

    /// The same, when it does not matter whether it was ending already.
    void revokeLater(Operation op, int reason, String detail) {
        boolean ignored = revoke(op, reason, detail);
        assert ignored || !op.isPending();
    }

    private String describe(Operation op) {
        TransferImpl transfer = op.transfer;
        String what =
                transfer != null
                        ? transfer.describe()
                        : op.kind.name().toLowerCase(java.util.Locale.ROOT)
                                + " of "
                                + op.length
                                + " bytes";
        return what + " with " + connection.peerText();
    }

    /// Ends a revoked operation if nothing has to be waited for any more.
    void tryFinish(Operation op, boolean force) {
        assert lock.isMine();
        if (op.state() != Operation.ENDING || !op.letGo || op.copying || op.copies > 0) {
            return;
        }
        boolean answered = op.unconfirmed == 0 && !op.asking;
        if (!answered && !force) {
            return;
        }
        boolean exposed = isExposed(op);
        if (exposed && force && awaitsSender(op)) {
            return;
        }
        if (op.advance(Operation.ENDING, Operation.ENDED)) {
            // The memory of a receive is this side's, which frames do not reach any more.
            boolean sure =
                    (answered || op.kind == Operation.Kind.RECEIVE)
                            && !exposed
                            && op.unfenced == null;
            op.setQuiet(sure ? RemoteQuiet.YES : RemoteQuiet.UNKNOWN);
            ended(op);
        }
    }

    /// Whether bytes may still be written that nobody here can hold up.
    private boolean isExposed(Operation op) {
        return op.exposed
                && (op.revocable ? connection.oneSided.links.isInside(op.token()) : !op.peerEnded);
    }

    /// Whether an exposed operation is a receive that its sender is about to leave: it has been
    /// kept out, so it is in the middle of one slice.
    private boolean awaitsSender(Operation op) {
        return op.revocable && !windowsClosed && connection.platform.nanoTime() - op.drainUntil < 0;
    }

    /// Its regions are left last: whoever closes one finds the transfer ended.
    private void ended(Operation op) {
        MemorySlices pieces = op.kind == Operation.Kind.SERVE ? null : op.localPieces;
        TelpherException why = op.error;
        TransferImpl transfer = op.transfer;
        if (why != null && transfer != null) {
            op.error = Failures.ofTransfer(why, transfer, op.path);
        }
        try {
            count(op);
        } finally {
            try {
                handOver(op);
            } finally {
                op.hold.leave(!connection.isOver());
                exit(pieces);
            }
        }
    }

    private void count(Operation op) {
        boolean good = op.reason == Connection.DONE;
        if (op.kind != Operation.Kind.SERVE && op.kind != Operation.Kind.LOOKUP) {
            if (good) {
                tally.of(op.path).done++;
                if (op.noteLength >= 0) {
                    tally.notificationsSent++;
                }
                if (op.slow) {
                    Events.slow(
                            connection, op.kind, op.length, op.path, op.age(connection.platform));
                }
            } else {
                failed(op.kind, op.length, op.path, op.reason, op.error);
            }
        }
    }

    /// Tells whoever takes the result.
    private void handOver(Operation op) {
        boolean good = op.reason == Connection.DONE;
        switch (op.kind) {
            case SEND -> connection.matcher.sends.ended(op);
            case RECEIVE -> connection.matcher.receives.ended(op);
            case SERVE -> {
                table.release(op);
                return;
            }
            default -> {}
        }
        if (op.orphaned) {
            table.release(op);
            return;
        }
        TransferImpl transfer = op.transfer;
        if (transfer != null) {
            long moved =
                    switch (op.kind) {
                        case RECEIVE, READ -> op.received;
                        default -> good ? op.length : op.confirmedBytes;
                    };
            if (op.direct && good) {
                moved = op.length;
            }
            transfer.operation = null;
            if (transfer.ended(op.reason, op.quiet, moved, op.path, good ? null : op.error)) {
                toCall.addLast(transfer);
                work.set();
            }
            table.release(op);
        }
        // Nobody parks for a token. Who parks for a transfer is there by now, or sees its end.
        if (transfer != null ? !connection.waiters.isEmpty() : op.kind == Operation.Kind.LOOKUP) {
            news.set();
        }
    }

    /// Counts and records an operation that failed. Under the lock.
    void failed(
            Operation.Kind kind,
            long length,
            String path,
            int reason,
            @Nullable TelpherException why) {
        tally.failed(reason);
        Events.failed(connection, kind, length, path, reason, why);
    }

    /// The same of what failed before there was an operation. Without the lock.
    void failedAtOnce(
            Operation.Kind kind,
            long length,
            String path,
            int reason,
            @Nullable TelpherException why) {
        lock.lock();
        try {
            failed(kind, length, path, reason, why);
        } finally {
            lock.unlock();
        }
    }

    /// Whether [#settle()] has something to do.
    boolean hasWork() {
        return work.isSet() || news.isSet();
    }

    /// Takes memory away from lanes for the operations that are being revoked, and calls back for
    /// those that ended.
    void settle() {
        while (work.isSet()) {
            Operation op;
            TransferImpl transfer;
            lock.lock();
            try {
                op = revoking.pollFirst();
                transfer = op == null ? toCall.pollFirst() : null;
                if (op == null && transfer == null) {
                    work.clear();
                }
            } finally {
                lock.unlock();
            }
            if (op != null) {
                takeAway(op);
            }
            if (transfer != null) {
                transfer.runActions();
            }
        }
        if (news.isSet()) {
            news.clear();
            VarHandle.fullFence(); // what has ended before the look at who is parked
            connection.waiters.wake();
        }
    }

    /// Has lanes and queues let go of the memory of an operation that is being revoked. It stays
    /// among those when that is not possible, which ends the connection.
    private void takeAway(Operation op) {
        int generation = op.generation;
        boolean taken = false;
        try {
            connection.keeper.letGo(op);
            connection.oneSided.queued.letGo(op, generation);
            taken = true;
        } catch (Throwable e) {
            Failures.letThrough(e);
            connection.fail(Failures.internal(connection, e));
            throw e;
        } finally {
            lock.lock();
            try {
                if (taken && op.generation == generation) {
                    op.letGo = true;
                    tryFinish(op, connection.isOver());
                } else if (!taken && op.generation == generation) {
                    revoking.addLast(op);
                }
            } finally {
                lock.unlock();
            }
        }
    }

    /// Ends what is late. Under the lock.
    ///
    /// @return whether operations are in flight
    boolean tick(long now) {
        boolean any = false;
        for (int i = 0; i < table.size(); i++) {
            Operation op = table.at(i);
            int state = op.state();
            if (state == Operation.PENDING) {
                any = true;
                if (!op.slow && op.isTimed() && op.age(now) >= slowNanos) {
                    op.slow = true;
                    tally.slow++;
                }
                if (now - op.deadline() >= 0 && op.kind != Operation.Kind.SERVE) {
                    revoke(op, Connection.TIMED_OUT, "");
                }
            } else if (state == Operation.ENDING) {
                any = true;
                long left = op.drainUntil - now;
                if (op.copying && left < drainNanos - drainNanos / CUT_OFF) {
                    connection.oneSided.queued.cutOff(op);
                }
                boolean late = left <= 0;
                if (late) {
                    letStreamGo(op);
                }
                // Once the connection is over the burial waits for senders, and so does this.
                tryFinish(op, late || (op.revocable && connection.isOver()));
            }
        }
        return any;
    }

    /// Lets a caller's stream go on that waits for the end of an operation, which may itself wait
    /// for what the driver has queued behind that stream. Under the lock.
    private static void letStreamGo(Operation op) {
        TransferImpl transfer = op.transfer;
        if (transfer != null) {
            transfer.openGate();
        }
    }

    /// The connection is over, and memory will be given back to the driver, which may wait for all
    /// streams. Under the lock.
    void letStreamsGo() {
        for (int i = 0; i < table.size(); i++) {
            letStreamGo(table.at(i));
        }
    }

    /// Whether nothing is in flight. Under the lock.
    boolean allEnded() {
        for (int i = 0; i < table.size(); i++) {
            int state = table.at(i).state();
            if (state == Operation.PENDING || state == Operation.ENDING) {
                return false;
            }
        }
        return true;
    }

    /// Revokes everything that is pending. Under the lock; may be called again when it failed.
    void revokeAll(TelpherException cause) {
        int reason = Failures.reason(cause);
        for (int i = 0; i < table.size(); i++) {
            Operation op = table.at(i);
            op.hold.letGo();
            if (op.isPending()) {
                op.error = cause;
                revoke(op, reason, String.valueOf(cause.getMessage()));
            } else if (op.state() == Operation.ENDING) {
                op.asking = false;
                if (!op.letGo && !revoking.contains(op)) {
                    revoking.addLast(op);
                }
                work.set();
            }
        }
    }

    /// Ends the receives that are ending and that senders can be kept out of, while the windows
    /// that tell of the senders are there; and looks whether this side's senders have left the
    /// peer's receives, which they say through the windows, too. Under the lock.
    ///
    /// @return false when one has yet to end, or to leave
    boolean forceRevocable() {
        boolean all = true;
        boolean told = connection.oneSided.links.tellOfSends();
        for (int i = 0; i < table.size(); i++) {
            Operation op = table.at(i);
            // Not by `inside`, which is another thread's: that enters, and leaves, a moment apart.
            all &= !(told && op.copying && op.kind == Operation.Kind.SEND);
            if (op.revocable && op.state() == Operation.ENDING) {
                tryFinish(op, true);
                all &= op.state() != Operation.ENDING;
            }
        }
        return all;
    }

    /// Ends everything that is ending: lanes and windows are closed. Under the lock.
    void forceAll() {
        windowsClosed = true;
        for (int i = 0; i < table.size(); i++) {
            tryFinish(table.at(i), true);
        }
    }

    /// Has slots let go of a region that are not in use. Under the lock.
    void letGo(RegionImpl region) {
        for (int i = 0; i < table.size(); i++) {
            table.at(i).hold.letGo(region);
        }
    }

    /// Revokes what uses a region. Under the lock.
    void revokeUsers(RegionImpl region, Predicate<Operation> which) {
        for (int i = 0; i < table.size(); i++) {
            Operation op = table.at(i);
            if (op.isPending() && uses(op, region) && which.test(op)) {
                revoke(op, Connection.STALE, "its local region was closed");
            }
        }
    }

    private static boolean uses(Operation op, RegionImpl region) {
        MemorySlices pieces = op.localPieces;
        return pieces == null ? op.region == region : pieces.regions().contains(region);
    }
}

package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.DeviceStream;
import io.telpher.Priority;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.internal.device.Runtimes;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Sets operations in motion: short copies at once, everything else as an operation of the
/// connection's table. Called by posting threads, which hold neither lock nor tokens unless it says
/// so; has no state of its own.
final class Posting {
    private final ConnectionCore connection;
    private final SpinLock lock;
    private final OperationTable table;
    private final Outbound outbound;
    private final Pump pump;
    private final Matcher matcher;
    private final Endings endings;
    private final OneSided oneSided;

    Posting(ConnectionCore connection) {
        this.connection = connection;
        this.lock = connection.lock;
        this.table = connection.table;
        this.outbound = connection.outbound;
        this.pump = connection.pump;
        this.matcher = connection.matcher;
        this.endings = connection.endings;
        this.oneSided = connection.oneSided;
    }

    // --- transfers ------------------------------------------------------------------------------

    /// Posts a prepared transfer whose state is `PENDING` already.
    ///
    /// @param together whether it is one of a list ([TransferList])
    void post(TransferImpl transfer, boolean together) {
        TelpherException over = connection.failure();
        if (over != null) {
            endedAtOnce(transfer, Failures.reason(over), "", over);
            return;
        }
        TelpherException refused = transfer.after.refused();
        if (refused != null) {
            endedAtOnce(transfer, Connection.FAILED, "", refused);
            return;
        }
        DeviceStream stream = transfer.options.stream();
        if (stream != null) {
            postOnStream(transfer, stream);
        } else if (!transfer.after.isEmpty()
                || transfer.notification() != null
                || !postShort(transfer)) {
            postLong(transfer, together);
        }
    }

    private void postOnStream(TransferImpl transfer, DeviceStream stream) {
        try {
            transfer.gate = Runtimes.open(stream.device()).gate(stream.handle());
            postLong(transfer, false);
        } catch (TelpherException e) {
            neverPosted(transfer, e);
        } catch (Throwable e) {
            neverPosted(transfer, new TelpherException.Unsupported(String.valueOf(e)));
            throw e;
        }
    }

    /// Whatever went wrong before there was an operation: the stream must not wait for it.
    private void neverPosted(TransferImpl transfer, TelpherException why) {
        if (transfer.operation == null && !transfer.state().isTerminal()) {
            endedAtOnce(transfer, Connection.FAILED, "", why);
        }
    }

    private void postLong(TransferImpl transfer, boolean together) {
        boolean waits = transfer.gate != null || !transfer.after.isEmpty();
        MemorySegment note = transfer.notification();
        long deadline = 0;
        int rounds = 0;
        while (true) {
            boolean entered = Endings.enter(transfer.localPieces);
            boolean viaWindow = false;
            LaneState claimed = null;
            boolean listened = false;
            Operation op;
            lock.lock();
            try {
                op = table.take();
                if (op != null) {
                    try {
                        fill(op, transfer, note);
                    } catch (RuntimeException e) {
                        // The notification's memory is not accessible.
                        transfer.operation = null;
                        table.release(op);
                        if (entered) {
                            Endings.exit(transfer.localPieces);
                        }
                        TelpherException why = new TelpherException.Unsupported(String.valueOf(e));
                        endings.failed(transfer.kind, transfer.length, "", Connection.FAILED, why);
                        listened = transfer.ended(Connection.FAILED, RemoteQuiet.YES, 0, "", why);
                        throw e;
                    }
                    if (op.kind == Operation.Kind.NOTIFY && !waits) {
                        claimed = startNote(op);
                    } else {
                        RegionImpl only = transfer.region;
                        boolean open = entered && (only == null || op.hold.enter(only));
                        viaWindow = start(op, open);
                        op.together = together && viaWindow;
                        claimed = pump.claim(null);
                    }
                }
            } finally {
                lock.unlock();
                if (listened) {
                    transfer.runActions();
                }
            }
            if (op != null) {
                goOn(op, viaWindow, claimed);
                return;
            }
            if (entered) {
                Endings.exit(transfer.localPieces);
            }
            connection.poll();
            if (deadline == 0) {
                deadline = connection.platform.nanoTime() + transfer.deadlineNanos;
            }
            if (connection.platform.nanoTime() - deadline > 0) {
                TelpherException late =
                        new TelpherException.TimedOut(
                                OperationTable.LIMIT
                                        + " operations are in flight with "
                                        + connection.peerText()
                                        + " and none ended in time");
                endedAtOnce(transfer, Connection.TIMED_OUT, "", late);
                return;
            }
            connection.platform.pause(rounds++);
        }
    }

    private static void fill(Operation op, TransferImpl transfer, @Nullable MemorySegment note) {
        op.setKind(transfer.kind);
        op.transfer = transfer;
        op.region = transfer.region;
        op.localOffset = transfer.localOffset;
        op.localPieces = transfer.localPieces;
        op.remote = transfer.remote;
        op.remotePieces = transfer.remotePieces;
        op.length = transfer.length;
        op.tag = transfer.tag;
        op.allow(transfer.deadlineNanos);
        op.high = transfer.options.priority() == Priority.HIGH;
        op.counter = transfer.counter();
        if (note != null) {
            op.keepNote(note, 0, (int) note.byteSize());
            if (transfer.kind == Operation.Kind.NOTIFY) {
                op.length = 0;
            }
        }
        transfer.operation = op;
    }

    /// Carries a short write or read out at once, if there is a window.
    private boolean postShort(TransferImpl transfer) {
        RegionImpl region = transfer.region;
        RemoteMemory remote = transfer.remote;
        if (region == null || remote == null || transfer.length > Direct.SHORT) {
            return false;
        }
        int result =
                oneSided.copyNow(
                        transfer.kind, region, transfer.localOffset, remote, 0, transfer.length);
        if (result == OneSided.NOT_NOW) {
            return false;
        }
        CounterUpdate counter = transfer.counter();
        if (result == Connection.DONE && counter != null) {
            result = oneSided.updateNow(counter);
            if (result != Connection.DONE) {
                oneSided.uncount(transfer.kind, remote, transfer.length);
            }
            if (result == OneSided.NOT_NOW) {
                return false; // posted again as a whole: the same bytes to the same place
            }
        }
        if (result == Connection.DONE) {
            tell(
                    transfer,
                    transfer.ended(
                            result, RemoteQuiet.YES, transfer.length, oneSided.path(remote), null));
        } else {
            String path = oneSided.path(remote);
            endedAtOnce(transfer, result, path, shortFailure(result, transfer, remote, path));
        }
        return true;
    }

    /// Ends a transfer that failed before it became an operation.
    private void endedAtOnce(TransferImpl transfer, int reason, String path, TelpherException why) {
        endings.failedAtOnce(transfer.kind, transfer.length, path, reason, why);
        tell(transfer, transfer.ended(reason, RemoteQuiet.YES, 0, path, why));
    }

    /// It has ended without an operation: another thread may have been waiting since it was posted.
    private void tell(TransferImpl transfer, boolean listened) {
        if (listened) {
            transfer.runActions();
        }
        connection.waiters.wake();
    }

    /// Why a short copy failed: what ended the connection, if it is over.
    private TelpherException shortFailure(
            int reason, TransferImpl transfer, RemoteMemory remote, String path) {
        TelpherException over = connection.failure();
        return over != null && Failures.reason(over) == reason
                ? Failures.ofTransfer(over, transfer, path)
                : Failures.exception(
                        reason,
                        transfer.describe() + " with " + connection.peerText(),
                        reason == Connection.STALE || reason == Connection.DENIED
                                ? ""
                                : "path " + oneSided.pathTo(remote));
    }

    boolean cancel(TransferImpl transfer) {
        boolean did = false;
        lock.lock();
        try {
            Operation op = transfer.operation;
            if (op != null) {
                did = endings.revoke(op, Connection.CANCELLED, "");
            }
        } finally {
            lock.unlock();
        }
        connection.afterwards();
        return did;
    }

    String pathOf(TransferImpl transfer) {
        RemoteMemory remote = transfer.remote;
        RemoteSlices pieces = transfer.remotePieces;
        return oneSided.pathTo(remote != null || pieces == null ? remote : pieces.region(0));
    }

    // --- any operation --------------------------------------------------------------------------

    /// Sets a filled operation in motion. Under the lock; [#goOn] must follow without it.
    ///
    /// @param entered whether it was counted into its local regions
    /// @return whether the data goes through a window
    boolean start(Operation op, boolean entered) {
        op.setState(Operation.PENDING);
        if (!entered) {
            op.region = null;
            op.localPieces = null;
            endings.revoke(op, Connection.STALE, "its local region is closed");
            return false;
        }
        if (!connection.streams.keep(op)) {
            return begin(op);
        }
        // What waits is not looked at again when the connection ends: the one end or the other sees
        // it.
        boolean unused = endsAtOnce(op);
        return false;
    }

    /// Begins a pending operation. Under the lock; [#goOn] must follow without it.
    ///
    /// @return whether the data goes through a window
    boolean begin(Operation op) {
        if (endsAtOnce(op)) {
            return false;
        }
        switch (op.kind) {
            case WRITE, READ -> {
                if (foreign(op)) {
                    endings.revoke(op, Connection.STALE, "");
                    return false;
                }
                if (oneSided.links.areThere()) {
                    op.copying = true;
                    return true;
                }
                op.stage = Operation.Stage.DATA;
                op.path = connection.lanes.path();
                outbound.enqueue(op);
            }
            case SEND -> {
                op.path = connection.lanes.path();
                matcher.sends.post(op);
            }
            case RECEIVE -> {
                op.path = connection.lanes.path();
                matcher.receives.post(op);
            }
            case NOTIFY -> {
                op.path = connection.lanes.path();
                outbound.advanceWrite(op);
            }
            default -> throw new IllegalStateException("not posted by callers: " + op.kind);
        }
        return false;
    }

    /// Sets a filled notification in motion: encodes it at once, if nothing is before it. Under the
    /// lock; [#goOn] must follow without it.
    ///
    /// @return the lane that it goes out on, or null
    @Nullable LaneState startNote(Operation op) {
        op.setState(Operation.PENDING);
        if (endsAtOnce(op)) {
            return null;
        }
        op.path = connection.lanes.path();
        LaneState claimed = pump.claim(op);
        if (claimed == null) {
            outbound.advanceWrite(op);
            claimed = pump.claim(null);
        }
        return claimed;
    }

    private boolean endsAtOnce(Operation op) {
        TelpherException over = connection.failure();
        if (over != null) {
            op.error = over;
            endings.revoke(op, Failures.reason(over), "");
        }
        return over != null;
    }

    /// Carries on with a started operation, without lock and tokens.
    void goOn(Operation op, boolean viaWindow, @Nullable LaneState claimed) {
        if (claimed != null) {
            pump.dispatch(claimed);
        }
        if (viaWindow) {
            oneSided.carryOut(op);
        }
        connection.endpoint().progress().keepTime(connection);
        if (op.line != null) {
            connection.endpoint().progress().takeOver(connection); // nobody may be polling soon
        }
        connection.settle(0);
    }

    private boolean foreign(Operation op) {
        RemoteMemory memory = op.remote;
        if (memory != null) {
            return isForeign(memory);
        }
        RemoteSlices pieces = op.remotePieces;
        if (pieces != null) {
            for (int i = 0; i < pieces.regions().size(); i++) {
                if (isForeign(pieces.regions().get(i))) {
                    return true;
                }
            }
        }
        return false;
    }

    private boolean isForeign(RemoteMemory memory) {
        return memory.incarnation() != connection.peerIncarnation();
    }
}

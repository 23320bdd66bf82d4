package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.CounterUpdate;
import io.telpher.EndpointAddress;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.Notification;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// A connection as the caller sees it: checks arguments, posts operations, waits. What happens then
/// is in [ConnectionCore].
final class ConnectionImpl extends ConnectionCore implements Connection {
    ConnectionImpl(EndpointImpl endpoint, long id, EndpointAddress peer) {
        super(endpoint, id, peer);
    }

    @Override
    public EndpointAddress peer() {
        return peerAddress();
    }

    // --- preparing ------------------------------------------------------------------------------

    private RegionImpl own(MemoryRegion region) {
        if (!(region instanceof RegionImpl mine) || mine.endpoint() != endpoint()) {
            throw new IllegalArgumentException(
                    "the local memory is not a region of the endpoint that this connection belongs to");
        }
        return mine;
    }

    private void checkOwn(MemorySlices pieces) {
        MemoryRegion before = null;
        for (int i = 0; i < (pieces.isStrided() ? 1 : pieces.count()); i++) {
            MemoryRegion region = pieces.region(i);
            if (region != before) {
                own(region);
                before = region;
            }
        }
    }

    private static void checkLength(long local, long remote) {
        if (local > remote) {
            throw new IllegalArgumentException(
                    "%d local bytes do not fit into %d remote bytes".formatted(local, remote));
        }
    }

    private TransferImpl oneSided(
            Operation.Kind kind, MemorySlice local, RemoteMemory remote, TransferOptions options) {
        checkLength(local.length(), remote.length());
        return new TransferImpl(
                this,
                kind,
                options,
                0,
                own(local.region()),
                local.offset(),
                null,
                remote,
                null,
                local.length());
    }

    private TransferImpl oneSided(
            Operation.Kind kind, MemorySlices local, RemoteSlices remote, TransferOptions options) {
        checkOwn(local);
        if (local.totalBytes() != remote.totalBytes()) {
            throw new IllegalArgumentException(
                    "%d local bytes and %d remote bytes: both sides must hold the same number"
                            .formatted(local.totalBytes(), remote.totalBytes()));
        }
        if (remote.count() == 0 || local.count() == 0) {
            throw new IllegalArgumentException("a vectored transfer needs at least one piece");
        }
        return new TransferImpl(
                this, kind, options, 0, null, 0, local, null, remote, local.totalBytes());
    }

    private static void checkRead(TransferOptions options) {
        if (options.notification() != null || options.counter() != null) {
            throw new IllegalArgumentException(
                    "only writes carry a notification or a counter update");
        }
    }

    @Override
    public Transfer prepareWrite(MemorySlice local, RemoteMemory remote, TransferOptions options) {
        return oneSided(Operation.Kind.WRITE, local, remote, checkNote(options));
    }

    @Override
    public Transfer prepareWrite(MemorySlices local, RemoteSlices remote, TransferOptions options) {
        return oneSided(Operation.Kind.WRITE, local, remote, checkNote(options));
    }

    @Override
    public Transfer prepareRead(MemorySlice local, RemoteMemory remote, TransferOptions options) {
        checkRead(options);
        return oneSided(Operation.Kind.READ, local, remote, options);
    }

    @Override
    public Transfer prepareRead(MemorySlices local, RemoteSlices remote, TransferOptions options) {
        checkRead(options);
        return oneSided(Operation.Kind.READ, local, remote, options);
    }

    private TransferOptions checkNote(TransferOptions options) {
        MemorySegment note = options.notification();
        if (note != null && note.byteSize() > endpoint().options().maxNotification()) {
            throw new IllegalArgumentException(
                    "a notification of %d bytes; the limit is %d (EndpointOptions.maxNotification)"
                            .formatted(note.byteSize(), endpoint().options().maxNotification()));
        }
        return options;
    }

    private Transfer message(
            Operation.Kind kind, long tag, MemorySlices local, TransferOptions options) {
        checkRead(options);
        checkOwn(local);
        if (local.count() == 1 && !local.isStrided()) {
            return new TransferImpl(
                    this,
                    kind,
                    options,
                    tag,
                    own(local.region(0)),
                    local.offset(0),
                    null,
                    null,
                    null,
                    local.length(0));
        }
        return new TransferImpl(
                this, kind, options, tag, null, 0, local, null, null, local.totalBytes());
    }

    @Override
    public Transfer prepareSend(long tag, MemorySlices local, TransferOptions options) {
        return message(Operation.Kind.SEND, tag, local, options);
    }

    @Override
    public Transfer prepareReceive(long tag, MemorySlices local, TransferOptions options) {
        return message(Operation.Kind.RECEIVE, tag, local, options);
    }

    @Override
    public Transfer notifyPeer(MemorySegment payload, TransferOptions options) {
        TransferImpl transfer =
                new TransferImpl(
                        this,
                        Operation.Kind.NOTIFY,
                        checkNote(options.withNotification(payload)),
                        0,
                        null,
                        0,
                        null,
                        null,
                        null,
                        payload.byteSize());
        transfer.post();
        return transfer;
    }

    // --- posting --------------------------------------------------------------------------------

    /// Posts a prepared transfer whose state is `PENDING` already.
    void post(TransferImpl transfer) {
        TelpherException over = failure();
        if (over != null) {
            transfer.ended(Failures.reason(over), io.telpher.RemoteQuiet.YES, 0, "", over);
            transfer.runActions();
            return;
        }
        MemorySegment note = transfer.notification();
        if (note == null && postShort(transfer)) {
            return;
        }
        long deadline = 0;
        int rounds = 0;
        while (true) {
            boolean entered = Endings.enter(transfer.region, transfer.localPieces);
            boolean viaWindow = false;
            LaneState claimed = null;
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
                            Endings.exit(transfer.region, transfer.localPieces);
                        }
                        boolean ignored =
                                transfer.ended(
                                        FAILED,
                                        io.telpher.RemoteQuiet.YES,
                                        0,
                                        "",
                                        new TelpherException.Unsupported(String.valueOf(e)));
                        throw e;
                    }
                    viaWindow = start(op, entered);
                    claimed = outbound.claim();
                }
            } finally {
                lock.unlock();
            }
            if (op != null) {
                goOn(op, viaWindow, claimed);
                return;
            }
            if (entered) {
                Endings.exit(transfer.region, transfer.localPieces);
            }
            poll();
            if (deadline == 0) {
                deadline = System.nanoTime() + transfer.deadlineNanos;
            }
            if (System.nanoTime() - deadline > 0) {
                TelpherException late =
                        new TelpherException.TimedOut(
                                OperationTable.LIMIT
                                        + " operations are in flight with "
                                        + peerText()
                                        + " and none ended in time");
                transfer.ended(TIMED_OUT, io.telpher.RemoteQuiet.YES, 0, "", late);
                transfer.runActions();
                return;
            }
            Waiting.pause(rounds++);
        }
    }

    private static void fill(Operation op, TransferImpl transfer, @Nullable MemorySegment note) {
        op.kind = transfer.kind;
        op.transfer = transfer;
        op.region = transfer.region;
        op.localOffset = transfer.localOffset;
        op.localPieces = transfer.localPieces;
        op.remote = transfer.remote;
        op.remotePieces = transfer.remotePieces;
        op.length = transfer.length;
        op.tag = transfer.tag;
        op.allow(transfer.deadlineNanos);
        op.high = transfer.options.priority() == io.telpher.Priority.HIGH;
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
                copyNow(transfer.kind, region, transfer.localOffset, remote, 0, transfer.length);
        if (result == NOT_NOW) {
            return false;
        }
        CounterUpdate counter = transfer.counter();
        if (result == DONE && counter != null) {
            result = updateNow(counter);
            if (result == NOT_NOW) {
                return false; // posted again as a whole: the same bytes to the same place
            }
        }
        boolean good = result == DONE;
        transfer.ended(
                result,
                io.telpher.RemoteQuiet.YES,
                good ? transfer.length : 0,
                directPath(remote),
                good ? null : shortFailure(result, transfer, remote));
        transfer.runActions();
        return true;
    }

    /// Why a short copy failed: what ended the connection, if it is over.
    private TelpherException shortFailure(int reason, TransferImpl transfer, RemoteMemory remote) {
        TelpherException over = failure();
        return over != null && Failures.reason(over) == reason
                ? over
                : Failures.exception(
                        reason,
                        transfer.describe() + " with " + peerText(),
                        reason == STALE || reason == DENIED ? "" : "path " + pathTo(remote));
    }

    boolean cancel(TransferImpl transfer) {
        boolean did = false;
        lock.lock();
        try {
            Operation op = transfer.operation;
            if (op != null) {
                did = endings.revoke(op, CANCELLED, "");
            }
        } finally {
            lock.unlock();
        }
        afterwards();
        return did;
    }

    String pathOf(TransferImpl transfer) {
        RemoteMemory remote = transfer.remote;
        RemoteSlices pieces = transfer.remotePieces;
        return pathTo(remote != null || pieces == null ? remote : pieces.memory(0));
    }

    // --- tokens ---------------------------------------------------------------------------------

    private long tryOneSided(
            Operation.Kind kind,
            MemoryRegion local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length) {
        RegionImpl region = own(local);
        check(localOffset, length, region.size());
        check(remoteOffset, length, remote.length());
        if (isOver()) {
            return reasonOver();
        }
        if (length <= Direct.SHORT) {
            int result = copyNow(kind, region, localOffset, remote, remoteOffset, length);
            if (result != NOT_NOW) {
                return result == DONE ? ALREADY_DONE : result;
            }
        }
        return tryPost(kind, region, localOffset, length, remote, remoteOffset, 0);
    }

    /// Posts an operation on one range of local memory, for a token.
    private long tryPost(
            Operation.Kind kind,
            RegionImpl region,
            long localOffset,
            long length,
            @Nullable RemoteMemory remote,
            long remoteOffset,
            long tag) {
        boolean entered = region.enter();
        boolean viaWindow;
        LaneState claimed;
        Operation op;
        long token;
        lock.lock();
        try {
            op = table.take();
            if (op == null) {
                if (entered) {
                    region.exit();
                }
                return BACK_PRESSURED;
            }
            op.kind = kind;
            op.region = region;
            op.localOffset = localOffset;
            op.length = length;
            op.remote = remote;
            op.remoteOffset = remoteOffset;
            op.tag = tag;
            op.allow(defaultDeadline);
            token = op.token();
            viaWindow = start(op, entered);
            claimed = outbound.claim();
        } finally {
            lock.unlock();
        }
        goOn(op, viaWindow, claimed);
        return token;
    }

    private static void check(long offset, long length, long size) {
        if (offset < 0 || length < 0 || offset > size || length > size - offset) {
            throw new IndexOutOfBoundsException(
                    "offset %d and length %d do not fit into %d bytes"
                            .formatted(offset, length, size));
        }
    }

    @Override
    public long tryWrite(
            MemoryRegion local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length) {
        return tryOneSided(Operation.Kind.WRITE, local, localOffset, remote, remoteOffset, length);
    }

    @Override
    public long tryRead(
            MemoryRegion local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length) {
        return tryOneSided(Operation.Kind.READ, local, localOffset, remote, remoteOffset, length);
    }

    private long tryMessage(
            Operation.Kind kind, long tag, MemoryRegion local, long offset, long length) {
        RegionImpl region = own(local);
        check(offset, length, region.size());
        return isOver() ? reasonOver() : tryPost(kind, region, offset, length, null, 0, tag);
    }

    @Override
    public long trySend(long tag, MemoryRegion local, long offset, long length) {
        return tryMessage(Operation.Kind.SEND, tag, local, offset, length);
    }

    @Override
    public long tryReceive(long tag, MemoryRegion local, long offset, long length) {
        return tryMessage(Operation.Kind.RECEIVE, tag, local, offset, length);
    }

    @Override
    public long tryNotify(MemorySegment payload, long offset, int length) {
        if (length > endpoint().options().maxNotification()) {
            throw new IllegalArgumentException(
                    "a notification of " + length + " bytes is too long");
        }
        if (isOver()) {
            return reasonOver();
        }
        Operation op;
        LaneState claimed;
        long token;
        lock.lock();
        try {
            op = table.take();
            if (op == null) {
                return BACK_PRESSURED;
            }
            op.kind = Operation.Kind.NOTIFY;
            op.allow(defaultDeadline);
            try {
                op.keepNote(payload, offset, length);
            } catch (RuntimeException e) {
                table.release(op);
                throw e;
            }
            token = op.token();
            boolean direct = start(op, true);
            assert !direct;
            claimed = outbound.claim();
        } finally {
            lock.unlock();
        }
        goOn(op, false, claimed);
        return token;
    }

    @Override
    public int poll(long token) {
        if (token == ALREADY_DONE) {
            return DONE;
        }
        // The slot cannot be used for anything else before its token has been taken here.
        Operation posted = table.find(token);
        if (posted != null && posted.state() != Operation.ENDED) {
            poll();
            if (posted.state() != Operation.ENDED) {
                return PENDING;
            }
        }
        return take(token);
    }

    private int take(long token) {
        lock.lock();
        try {
            Operation op = table.find(token);
            if (op == null || op.transfer != null) {
                throw new IllegalArgumentException(
                        "token " + token + " is none, or its result was taken already");
            }
            if (op.state() != Operation.ENDED) {
                return PENDING;
            }
            int reason = op.reason;
            lastMoved = op.kind == Operation.Kind.RECEIVE ? op.received : op.length;
            table.release(op);
            return reason;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public long bytesMoved() {
        return lastMoved;
    }

    // --- notifications and names ----------------------------------------------------------------

    @Override
    public @Nullable Notification pollNotification() {
        poll();
        return takeNotification();
    }

    @Override
    public int pollNotification(MemorySegment into) {
        if (notes.size() == 0) {
            poll();
        }
        return notes.size() == 0 ? -1 : takeNotification(into);
    }

    @Override
    public Notification awaitNotification(Duration atMost) {
        Notification[] taken = new Notification[1];
        boolean came =
                waitFor(
                        () -> {
                            Notification next = takeNotification();
                            if (next != null) {
                                taken[0] = next;
                            }
                            return next != null || isOver();
                        },
                        atMost.toNanos());
        Notification result = taken[0];
        if (result != null) {
            return result;
        }
        TelpherException over = failure();
        if (over != null) {
            throw over;
        }
        assert !came;
        throw new TelpherException.TimedOut(
                "no notification from " + peerText() + " within " + Failures.seconds(atMost));
    }

    @Override
    public RemoteMemory lookup(String name, Duration atMost) {
        byte[] bytes = name.getBytes(java.nio.charset.StandardCharsets.UTF_8);
        if (bytes.length == 0 || bytes.length > ControlFrame.MAX_PAYLOAD) {
            throw new IllegalArgumentException(
                    "a name has 1 to "
                            + ControlFrame.MAX_PAYLOAD
                            + " bytes, this has "
                            + bytes.length);
        }
        Objects.requireNonNull(atMost, "atMost");
        return lookup(bytes, name, atMost);
    }

    // --- the rest -------------------------------------------------------------------------------

    @Override
    public ConnectionMetrics metrics() {
        return collectMetrics();
    }

    @Override
    public boolean isOpen() {
        return !isOver();
    }

    @Override
    public String toString() {
        return "Connection[" + peerText() + ", " + (isOpen() ? "open" : "over") + "]";
    }
}

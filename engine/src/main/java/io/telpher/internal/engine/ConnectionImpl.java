package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
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
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// A connection as the caller sees it: checks arguments, makes transfers, and hands everything else
/// to the parts of its [ConnectionCore]. Made once for each connection, when `connect` or `accept`
/// returns it; has no state of its own.
final class ConnectionImpl implements Connection {
    final ConnectionCore core;
    private final Tokens tokens;

    ConnectionImpl(ConnectionCore core) {
        this.core = core;
        this.tokens = core.tokens;
    }

    @Override
    public EndpointAddress peer() {
        return core.peerAddress();
    }

    // --- preparing ------------------------------------------------------------------------------

    private RegionImpl own(MemoryRegion region) {
        return core.endpoint().own(region);
    }

    private void checkOwn(MemorySlices pieces) {
        pieces.regions().forEach(this::own);
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
                core,
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
                core, kind, options, 0, null, 0, local, null, remote, local.totalBytes());
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
        if (note != null) {
            tokens.checkNote(note.byteSize());
        }
        return options;
    }

    private Transfer message(
            Operation.Kind kind, long tag, MemorySlices local, TransferOptions options) {
        checkRead(options);
        checkOwn(local);
        if (local.count() == 1 && !local.isStrided()) {
            return new TransferImpl(
                    core,
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
                core, kind, options, tag, null, 0, local, null, null, local.totalBytes());
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
                        core,
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

    // --- tokens ---------------------------------------------------------------------------------

    @Override
    public long tryWrite(
            MemoryRegion local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length) {
        return tokens.tryOneSided(
                Operation.Kind.WRITE, local, localOffset, remote, remoteOffset, length);
    }

    @Override
    public long tryRead(
            MemoryRegion local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            long length) {
        return tokens.tryOneSided(
                Operation.Kind.READ, local, localOffset, remote, remoteOffset, length);
    }

    @Override
    public long trySend(long tag, MemoryRegion local, long offset, long length) {
        return tokens.tryMessage(Operation.Kind.SEND, tag, local, offset, length);
    }

    @Override
    public long tryReceive(long tag, MemoryRegion local, long offset, long length) {
        return tokens.tryMessage(Operation.Kind.RECEIVE, tag, local, offset, length);
    }

    @Override
    public long tryNotify(MemorySegment payload, long offset, int length) {
        return tokens.tryNotify(payload, offset, length);
    }

    @Override
    public int poll(long token) {
        return tokens.poll(token);
    }

    @Override
    public long bytesMoved() {
        return tokens.lastMoved();
    }

    // --- notifications and names ----------------------------------------------------------------

    @Override
    public @Nullable Notification pollNotification() {
        core.poll();
        return core.mailbox.take();
    }

    @Override
    public int pollNotification(MemorySegment into) {
        Objects.requireNonNull(into, "into");
        if (core.mailbox.isEmpty()) {
            int length = core.poll(into);
            if (length >= 0) {
                return length;
            }
        }
        return core.mailbox.isEmpty() ? -1 : core.mailbox.take(into);
    }

    @Override
    public Notification awaitNotification(Duration atMost) {
        Notification[] taken = new Notification[1];
        boolean came =
                core.waiters.waitFor(
                        () -> {
                            Notification next = core.mailbox.take();
                            if (next != null) {
                                taken[0] = next;
                            }
                            return next != null || core.isOver();
                        },
                        atMost.toNanos());
        Notification result = taken[0];
        if (result != null) {
            return result;
        }
        TelpherException over = core.failure();
        if (over != null) {
            throw over;
        }
        assert !came;
        throw new TelpherException.TimedOut(
                "no notification from " + core.peerText() + " within " + Failures.seconds(atMost));
    }

    @Override
    public RemoteMemory lookup(String name, Duration atMost) {
        byte[] bytes = name.getBytes(StandardCharsets.UTF_8);
        if (bytes.length == 0 || bytes.length > ControlFrame.MAX_PAYLOAD) {
            throw new IllegalArgumentException(
                    "a name has 1 to "
                            + ControlFrame.MAX_PAYLOAD
                            + " bytes, this has "
                            + bytes.length);
        }
        Objects.requireNonNull(atMost, "atMost");
        return core.names.lookup(bytes, name, atMost);
    }

    // --- the rest -------------------------------------------------------------------------------

    @Override
    public ConnectionMetrics metrics() {
        return core.metrics();
    }

    @Override
    public boolean isOpen() {
        return !core.isOver();
    }

    @Override
    public String toString() {
        return "Connection[" + core.peerText() + ", " + (isOpen() ? "open" : "over") + "]";
    }

    @Override
    public int poll() {
        return core.poll();
    }

    @Override
    public @Nullable TelpherException failure() {
        return core.failure();
    }

    @Override
    public List<Refusal> refusals() {
        return List.copyOf(core.refusals());
    }

    @Override
    public String explain() {
        return core.explain();
    }

    @Override
    public void close() {
        core.close();
    }
}

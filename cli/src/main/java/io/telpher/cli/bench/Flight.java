package io.telpher.cli.bench;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// Operations that can be in flight at the same time, in slots that are used in a ring. Posting and
/// polling allocate nothing. Used by one thread.
///
/// A switch instead of subclasses: a branch that always goes the same way costs less than a call
/// through an interface with many implementations, and some of these operations take 20 ns.
final class Flight {
    /// Which method posts.
    enum Kind {
        WRITE,
        READ,
        SEND,
        RECEIVE,
        NOTIFY,
        TRANSFER
    }

    /// One slot's operation.
    ///
    /// @param peer whose connection
    /// @param tag tag of a send or receive
    /// @param local local memory
    /// @param localOffset first byte in it
    /// @param remote remote memory, for writes and reads
    /// @param remoteOffset first byte in it
    /// @param transfer the prepared transfer, for [Kind#TRANSFER]
    record Slot(
            Neighbour peer,
            long tag,
            MemoryRegion local,
            long localOffset,
            RemoteMemory remote,
            long remoteOffset,
            @Nullable Transfer transfer) {}

    private static final long FREE = 0;

    private final Kind kind;
    private final String what;
    private final long length;
    private final Slot[] slots;
    private final Pause pause;
    private final Connection[] connections;
    private final MemorySegment payload;
    private final long[] tokens;
    private final List<Transfer> transfers;

    /// When each slot's operation was posted, for those that are timed; kept here for the loops.
    final long[] postedAt;

    /// @param kind how operations are posted
    /// @param what for errors: the operation and its path
    /// @param length bytes of one operation
    /// @param slots the operations, in the order of first use
    /// @param payload what notifications carry, at the slots' local offsets; unused by others
    /// @param pause what waiting does
    Flight(Kind kind, String what, long length, Slot[] slots, MemorySegment payload, Pause pause) {
        this.kind = kind;
        this.what = what;
        this.length = length;
        this.slots = slots;
        this.pause = pause;
        this.connections = new Connection[slots.length];
        this.payload = payload;
        for (int i = 0; i < slots.length; i++) {
            connections[i] = slots[i].peer().connection();
        }
        this.tokens = new long[slots.length];
        this.transfers = Stream.of(slots).map(Slot::transfer).filter(Objects::nonNull).toList();
        this.postedAt = new long[slots.length];
    }

    int size() {
        return slots.length;
    }

    /// Posts a slot's operation.
    ///
    /// @return false when the engine takes no more at the moment
    boolean post(int slot) {
        Slot s = slots[slot];
        Connection connection = connections[slot];
        long token =
                switch (kind) {
                    case WRITE ->
                            connection.tryWrite(
                                    s.local, s.localOffset, s.remote, s.remoteOffset, length);
                    case READ ->
                            connection.tryRead(
                                    s.local, s.localOffset, s.remote, s.remoteOffset, length);
                    case SEND -> connection.trySend(s.tag, s.local, s.localOffset, length);
                    case RECEIVE -> connection.tryReceive(s.tag, s.local, s.localOffset, length);
                    case NOTIFY -> connection.tryNotify(payload, s.localOffset, (int) length);
                    case TRANSFER -> postTransfer(s);
                };
        if (token < 0) {
            if (token == Connection.BACK_PRESSURED) {
                return false;
            }
            throw failed(slot, token);
        }
        tokens[slot] = token;
        return true;
    }

    /// Posts the prepared transfers of all slots as one list.
    void postAll() {
        Transfer.postAll(transfers);
        Arrays.fill(tokens, 1);
    }

    /// Posts, and makes progress as long as the engine takes no more.
    void postSurely(int slot) {
        while (!post(slot)) {
            connections[slot].poll();
            pause.now();
        }
    }

    private static long postTransfer(Slot slot) {
        Transfer transfer = slot.transfer;
        if (transfer == null) {
            throw new IllegalStateException("the slot has no prepared transfer");
        }
        transfer.post();
        return 1;
    }

    /// @return whether the slot's operation is done, or nothing was posted; makes progress
    boolean poll(int slot) {
        long token = tokens[slot];
        if (token == Connection.ALREADY_DONE || token == FREE) {
            tokens[slot] = FREE;
            return true;
        }
        int result = kind == Kind.TRANSFER ? pollTransfer(slot) : connections[slot].poll(token);
        if (result == Connection.PENDING) {
            return false;
        }
        if (result != Connection.DONE) {
            throw failed(slot, result);
        }
        tokens[slot] = FREE;
        return true;
    }

    private int pollTransfer(int slot) {
        Transfer transfer = slots[slot].transfer;
        if (transfer == null) {
            return Connection.FAILED;
        }
        TransferState state = transfer.poll();
        if (state == TransferState.DONE) {
            return Connection.DONE;
        }
        return state.isTerminal() ? Connection.FAILED : Connection.PENDING;
    }

    /// Pauses after a look that found nothing.
    void idle() {
        pause.now();
    }

    /// Waits for a slot's operation.
    void finish(int slot) {
        while (!poll(slot)) {
            pause.now();
        }
    }

    private BenchFailure failed(int slot, long reason) {
        Slot s = slots[slot];
        String detail =
                switch ((int) reason) {
                    case Connection.CLOSED -> "the connection is closed";
                    case Connection.PEER_LOST -> "the peer is lost";
                    case Connection.STALE -> "the descriptor is stale";
                    case Connection.DENIED -> "the peer denies it";
                    case Connection.TIMED_OUT -> "it timed out";
                    case Connection.TRUNCATED -> "it was truncated";
                    case Connection.CANCELLED -> "it was cancelled";
                    default -> "it failed";
                };
        TelpherException cause = s.transfer != null ? s.transfer.error() : null;
        if (cause == null) {
            cause = s.peer.connection().failure();
        }
        if (cause == null && (kind == Kind.WRITE || kind == Kind.READ)) {
            cause = errorOfAnother(s);
        }
        return new BenchFailure(
                "%s with rank %d: %s%s"
                        .formatted(
                                what,
                                s.peer.rank(),
                                detail,
                                cause == null ? "" : " (" + cause.getMessage() + ")"));
    }

    /// Tokens carry no more than a reason: does the same once more as a transfer, which has a text.
    private @Nullable TelpherException errorOfAnother(Slot s) {
        Connection connection = s.peer.connection();
        try {
            MemorySlice local = new MemorySlice(s.local, s.localOffset, length);
            RemoteMemory remote = s.remote.slice(s.remoteOffset, length);
            Transfer transfer =
                    kind == Kind.WRITE
                            ? connection.write(local, remote)
                            : connection.read(local, remote);
            transfer.await(Duration.ofSeconds(2));
            return transfer.error();
        } catch (TelpherException e) {
            return e;
        }
    }
}

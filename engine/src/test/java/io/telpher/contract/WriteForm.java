package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Supplier;

/// The forms of a write beside the plain one, for tests that write slot after slot, each in a form
/// of its own, again and again with the same bytes.
///
/// The target is a region of [#TARGET] bytes: the slots, then a counter for each slot, which
/// [#COUNTING] writes raise, then a word for each slot, for whoever takes the notifications of
/// [#NOTIFYING] writes.
enum WriteForm {
    /// A list of pieces.
    VECTORED,
    /// The strided form.
    STRIDED,
    /// With a notification that names the slot.
    NOTIFYING,
    /// With an addition to the slot's counter.
    COUNTING,
    /// By a token.
    TOKEN;

    static final int SLOTS = 300;
    static final int SLOT = 100_000;
    static final long COUNTERS = (long) SLOTS * SLOT;
    static final long NOTES = COUNTERS + SLOTS * 8L;
    static final long TARGET = NOTES + SLOTS * 8L;

    /// Of vectored writes.
    private static final int PIECES = 10;

    private static final long STRIDE = SLOT / PIECES;

    static WriteForm of(int slot) {
        return values()[slot % values().length];
    }

    /// @return how many bytes are written to each slot
    static int[] sizes(Random random) {
        return random.ints(SLOTS, 1, SLOT / PIECES).map(size -> size * PIECES).toArray();
    }

    /// Checks that a slot holds what a write of it leaves.
    static void check(MemorySegment target, int slot, int size, long seed) {
        int pieces = of(slot) == VECTORED || of(slot) == STRIDED ? PIECES : 1;
        for (int i = 0; i < pieces; i++) {
            long at = (long) slot * SLOT + i * STRIDE;
            Content.check(target, at, size / pieces, seed, at);
        }
    }

    /// Posts a write of a slot.
    ///
    /// @param source holds the same slots
    /// @return waits for its end, and returns why it failed, or null when it is done
    static Supplier<TelpherException> post(
            Connection connection, MemoryRegion source, RemoteMemory target, int slot, int size) {
        long at = (long) slot * SLOT;
        if (of(slot) == TOKEN) {
            long token =
                    TokenContract.post(
                            connection, () -> connection.tryWrite(source, at, target, at, size));
            return () -> {
                int result = TokenContract.finish(connection, token);
                assertThat(result).isIn(Connection.DONE, Connection.PEER_LOST);
                return result == Connection.DONE ? null : connection.failure();
            };
        }
        Transfer transfer = of(slot).write(connection, source.slice(at, size), target, slot);
        return () -> {
            Outcome outcome = Outcome.of(transfer);
            return outcome.state() == TransferState.DONE
                    ? outcome.assertDone(size).error()
                    : outcome.error();
        };
    }

    private Transfer write(Connection connection, MemorySlice from, RemoteMemory target, int slot) {
        int piece = (int) from.length() / PIECES;
        RemoteMemory to = target.slice(from.offset(), from.length());
        TransferOptions options = TransferOptions.DEFAULTS;
        return switch (this) {
            case VECTORED -> {
                List<MemorySlice> local = new ArrayList<>();
                List<RemoteMemory> remote = new ArrayList<>();
                for (int i = PIECES - 1; i >= 0; i--) {
                    long at = from.offset() + i * STRIDE;
                    local.add(from.region().slice(at, piece));
                    remote.add(target.slice(at, piece));
                }
                yield connection.write(MemorySlices.of(local), RemoteSlices.of(remote), options);
            }
            case STRIDED ->
                    connection.write(
                            MemorySlices.strided(
                                    from.region(), from.offset(), piece, STRIDE, PIECES),
                            RemoteSlices.strided(
                                    target.slice(from.offset(), SLOT), piece, STRIDE, PIECES),
                            options);
            case NOTIFYING -> {
                byte[] body = ByteBuffer.allocate(4).putInt(slot).array();
                yield connection.write(from, to, options.withNotification(Bytes.off(body)));
            }
            case COUNTING -> {
                RemoteMemory word = target.slice(COUNTERS + slot * 8L, 8);
                yield connection.write(from, to, options.withCounter(CounterUpdate.add(word, 1)));
            }
            case TOKEN -> throw new IllegalArgumentException("a token is no transfer");
        };
    }
}

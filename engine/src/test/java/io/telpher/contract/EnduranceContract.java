package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// A million writes, each looked at in the target's memory as soon as it is done.
@Setting.In({Place.ONE, Place.TWO, Place.NETNS})
abstract class EnduranceContract extends Contract {
    private static final int DEPTH = 16;
    private static final int LARGEST = 65_536;
    private static final int SLOT = LARGEST + 2 * MARGIN;

    private MemoryRegion source;
    private RemoteMemory target;
    private MemorySegment view;

    /// What the target has to look like.
    private final byte[] shadow = new byte[SLOT * DEPTH];

    private final long[] tokens = new long[DEPTH];
    private final int[] from = new int[DEPTH];
    private final int[] into = new int[DEPTH];
    private final int[] sizes = new int[DEPTH];

    @Test
    @Timeout(value = 300, unit = TimeUnit.SECONDS)
    void aMillionWritesWithoutAFalseDone() {
        try (Arena arena = Arena.ofShared()) {
            view = SharedView.add(peer, "target", setting.path(), shadow.length, arena);
            target =
                    RemoteMemory.ofBytes(
                            peer.run(self -> self.region("target").remote().toBytes()));
            source = region("source", Kind.TELPHER, 4 << 20);
            here.fill("source", 0, source.size(), random.nextLong());
            run(Scale.count(count()));
            peer.tell(self -> self.closeRegion("target"));
        }
    }

    /// A million for each path, whether it has one place or two; and some more over real links.
    private int count() {
        boolean alone = !setting.path().places().contains(Place.TWO);
        return switch (setting.place()) {
            case ONE, CHECKED -> alone ? 1_000_000 : 400_000;
            case TWO -> 600_000;
            case NETNS -> 100_000;
        };
    }

    private void run(int count) {
        MemorySegment.copy(view, Bytes.BYTE, 0, shadow, 0, shadow.length);
        Arrays.fill(tokens, -1);
        for (int i = 0; i < count; i++) {
            // Sometimes one at a time, sometimes many.
            int depth = (i >>> 12) % 4 == 0 ? 1 : DEPTH;
            int slot = i % depth;
            finish(slot);
            int size = Scale.size(random, 8, LARGEST);
            sizes[slot] = size;
            from[slot] = random.nextInt((int) source.size() - size + 1);
            into[slot] = slot * SLOT + MARGIN + random.nextInt(LARGEST - size + 1);
            post(slot);
            if (i % 4096 == 0) {
                finishAll();
                check(0, shadow.length, "the whole target");
            }
        }
        finishAll();
        check(0, shadow.length, "the whole target");
    }

    private void post(int slot) {
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        do {
            tokens[slot] =
                    connection().tryWrite(source, from[slot], target, into[slot], sizes[slot]);
            checkTime(end);
        } while (tokens[slot] == Connection.BACK_PRESSURED && connection().poll() >= 0);
        assertThat(tokens[slot]).as("token").isNotNegative();
    }

    private void finishAll() {
        for (int slot = 0; slot < DEPTH; slot++) {
            finish(slot);
        }
    }

    private void finish(int slot) {
        if (tokens[slot] < 0) {
            return;
        }
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        int result;
        do {
            result = connection().poll(tokens[slot]);
            checkTime(end);
            Thread.yield(); // the peer needs a core, and other tests may have the second one
        } while (result == Connection.PENDING);
        if (result != Connection.DONE) {
            throw new AssertionError("a write ended as " + result, connection().failure());
        }
        tokens[slot] = -1;
        MemorySegment.copy(
                source.segment(), Bytes.BYTE, from[slot], shadow, into[slot], sizes[slot]);
        check(into[slot] - MARGIN, sizes[slot] + 2 * MARGIN, "a write that is done");
    }

    private static void checkTime(long end) {
        if (System.nanoTime() > end) {
            throw new AssertionError("a write has not ended in time");
        }
    }

    private void check(int at, int length, String what) {
        long mismatch =
                MemorySegment.mismatch(
                        MemorySegment.ofArray(shadow), at, at + length, view, at, at + length);
        if (mismatch >= 0) {
            throw new AssertionError(
                    "%s is wrong at byte %d of %d".formatted(what, mismatch, length));
        }
    }
}

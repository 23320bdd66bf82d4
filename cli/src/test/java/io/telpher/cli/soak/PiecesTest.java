package io.telpher.cli.soak;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.Content;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.BitSet;
import java.util.Random;
import org.junit.jupiter.api.Test;

class PiecesTest {
    private static final int ROOM = 10_000;

    /// What is scattered is gathered again, lies in its room, and nothing lies upon another.
    @Test
    void piecesLieBesideEachOther() {
        long seed = new Random().nextLong();
        Random random = new Random(seed);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment slot = arena.allocate(ROOM);
            for (int i = 0; i < 3000; i++) {
                long total = random.nextInt(1, ROOM);
                int count = random.nextInt(1, 50);
                Pieces pieces =
                        switch (i % 3) {
                            case 0 -> Pieces.one(random, total, ROOM);
                            case 1 -> Pieces.scattered(random, total, ROOM);
                            default ->
                                    Pieces.strided(
                                            random,
                                            count,
                                            random.nextInt(1, ROOM / count + 1),
                                            ROOM);
                        };
                BitSet taken = new BitSet();
                for (int j = 0; j < pieces.offsets().length; j++) {
                    int from = (int) pieces.offsets()[j];
                    int to = (int) (from + pieces.lengths()[j]);
                    assertThat(taken.get(from, to).isEmpty())
                            .as("seed %d, %s", seed, pieces)
                            .isTrue();
                    taken.set(from, to);
                    assertThat(from).isGreaterThanOrEqualTo((int) pieces.low());
                    assertThat(to).isLessThanOrEqualTo((int) pieces.high());
                }
                assertThat(pieces.high()).isLessThanOrEqualTo(ROOM);
                assertThat(taken.cardinality()).isEqualTo((int) pieces.total());
                MemorySegment stream = arena.allocate(Math.max(1, pieces.total()));
                Content.fill(stream, 0, pieces.total(), i, 0);
                pieces.scatter(stream, slot);
                stream.fill((byte) 0);
                pieces.gather(slot, stream);
                assertThat(Content.firstWrong(stream, 0, pieces.total(), i, 0)).isEqualTo(-1);
            }
        }
    }
}

package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import org.junit.jupiter.api.Test;

/// Two numbers in one word.
class CopyCountsTest {
    private final CopyCounts counts = new CopyCounts();

    private Tally.OfPath sum() {
        Tally.OfPath sum = new Tally.OfPath("test");
        counts.addTo(sum);
        return sum;
    }

    @Test
    void allNumbersComeOutWhateverIsCounted() {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        long copies = 0;
        long written = 0;
        long read = 0;
        for (int i = 0; i < 100_000; i++) {
            long length = random.nextInt(5) == 0 ? random.nextInt(1 << 18) : random.nextInt(70);
            boolean reads = random.nextBoolean();
            Operation.Kind kind = reads ? Operation.Kind.READ : Operation.Kind.WRITE;
            int times = 1;
            if (random.nextInt(4) == 0) {
                counts.uncount(kind, length); // may be more than were counted since the last look
                times = -1;
            } else {
                counts.count(kind, length);
            }
            copies += times;
            written += reads ? 0 : times * length;
            read += reads ? times * length : 0;
            if (random.nextInt(10) == 0) {
                Tally.OfPath sum = sum();
                assertThat(sum.done).as("seed %d, step %d", seed, i).isEqualTo(copies);
                assertThat(sum.written).as("seed %d, step %d", seed, i).isEqualTo(written);
                assertThat(sum.read).as("seed %d, step %d", seed, i).isEqualTo(read);
            }
        }
    }

    @Test
    void aWordMayOverflow() {
        int rounds = 40;
        int each = 1 << 24;
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < each; i++) {
                counts.count(Operation.Kind.WRITE, 64);
            }
            counts.settle();
        }
        assertThat(sum().done).isEqualTo((long) rounds * each);
        assertThat(sum().written).isEqualTo((long) rounds * each * 64);
        assertThat(sum().read).isZero();
    }
}

package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Random;
import org.junit.jupiter.api.Test;

class NotificationQueueTest {
    @Test
    void keepsOrderAndBytesThroughWrapAndGrowth() {
        long seed = Long.getLong("telpher.test.seed", System.nanoTime());
        System.out.println("NotificationQueueTest seed " + seed);
        Random random = new Random(seed);
        NotificationQueue queue = new NotificationQueue();
        ArrayDeque<byte[]> model = new ArrayDeque<>();
        for (int step = 0; step < 20_000; step++) {
            if (random.nextInt(5) < 2 || model.isEmpty()) {
                byte[] bytes = new byte[random.nextInt(random.nextInt(20) == 0 ? 5000 : 80)];
                random.nextBytes(bytes);
                if (random.nextInt(10) == 0) {
                    queue.addLarge(bytes);
                } else {
                    byte[] padded = new byte[bytes.length + 3];
                    System.arraycopy(bytes, 0, padded, 3, bytes.length);
                    queue.add(MemorySegment.ofArray(padded), 3, bytes.length);
                }
                model.addLast(bytes);
            } else {
                byte[] expected = model.removeFirst();
                assertThat(queue.peekLength()).isEqualTo(expected.length);
                byte[] taken = new byte[expected.length];
                queue.take(MemorySegment.ofArray(taken));
                assertThat(taken).isEqualTo(expected);
            }
            assertThat(queue.size()).isEqualTo(model.size());
        }
    }
}

package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

class LongMapTest {
    @Test
    void behavesLikeAHashMap() {
        long seed = Long.getLong("telpher.test.seed", System.nanoTime());
        System.out.println("LongMapTest seed " + seed);
        Random random = new Random(seed);
        for (int round = 0; round < 50; round++) {
            LongMap<String> map = new LongMap<>();
            Map<Long, String> model = new HashMap<>();
            int keys = 1 + random.nextInt(200);
            for (int step = 0; step < 2000; step++) {
                long key = random.nextInt(keys) * (round % 2 == 0 ? 1L : 1L << 33);
                switch (random.nextInt(3)) {
                    case 0 -> {
                        map.put(key, "v" + step);
                        model.put(key, "v" + step);
                    }
                    case 1 -> assertThat(map.remove(key)).isEqualTo(model.remove(key));
                    default -> assertThat(map.get(key)).isEqualTo(model.get(key));
                }
                assertThat(map.size()).isEqualTo(model.size());
            }
            for (long i = 0; i < keys; i++) {
                long key = i * (round % 2 == 0 ? 1L : 1L << 33);
                assertThat(map.get(key)).isEqualTo(model.get(key));
            }
        }
    }
}

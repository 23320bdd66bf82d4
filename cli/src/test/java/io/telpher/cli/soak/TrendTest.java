package io.telpher.cli.soak;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Random;
import org.junit.jupiter.api.Test;

class TrendTest {
    private final long seed = new Random().nextLong();
    private final Random random = new Random(seed);
    private final Trend trend = new Trend("things", 30);

    @Test
    void whatGoesUpAndDownIsFlat() {
        for (int i = 0; i < 5000; i++) {
            // Peers come and go, and a few moments stand out.
            trend.add(i, 100 + random.nextInt(40) + (random.nextInt(50) == 0 ? 1000 : 0));
        }
        assertThat(trend.grows()).as("seed %d", seed).isNull();
        assertThat(trend.growth()).as("seed %d", seed).isBetween(-15.0, 15.0);
    }

    @Test
    void aSlowLeakIsFoundInALongRun() {
        for (int i = 0; i < 5000; i++) {
            trend.add(i, 100 + i / 100 + random.nextInt(40));
        }
        assertThat(trend.grows()).as("seed %d", seed).startsWith("things: from ");
        assertThat(trend.growth()).as("seed %d", seed).isBetween(35.0, 65.0);
    }

    @Test
    void fewSamplesSayNothing() {
        for (int i = 0; i < Trend.LEAST - 1; i++) {
            trend.add(i, i * 1000);
        }
        assertThat(trend.isKnown()).isFalse();
        assertThat(trend.grows()).isNull();
        trend.add(Trend.LEAST, 1000 * Trend.LEAST);
        assertThat(trend.grows()).isNotNull();
    }
}

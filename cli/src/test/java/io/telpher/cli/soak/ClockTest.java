package io.telpher.cli.soak;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class ClockTest {
    private static final long SECOND = 1_000_000_000L;
    private final AtomicLong time = new AtomicLong(-5 * SECOND);
    private final Clock clock = new Clock(time::get);

    private long after(long nanos) {
        time.addAndGet(nanos);
        return clock.now();
    }

    @Test
    void whatThisProcessWasStoppedForDoesNotPass() {
        long start = clock.now();
        assertThat(after(SECOND / 2) - start).isEqualTo(SECOND / 2);
        assertThat(after(180 * SECOND) - start).isEqualTo(SECOND / 2);
        assertThat(after(SECOND) - start).isEqualTo(SECOND * 3 / 2);
        assertThat(after(SECOND + 1) - start).isEqualTo(SECOND * 3 / 2);
        assertThat(after(1) - start).isEqualTo(SECOND * 3 / 2 + 1);
    }
}

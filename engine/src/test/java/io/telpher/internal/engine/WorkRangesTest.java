package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class WorkRangesTest {
    private static final long RANGE = WorkRanges.RANGE;

    private final WorkRanges ranges = new WorkRanges();

    private List<Long> takeAll() {
        List<Long> taken = new ArrayList<>();
        while (ranges.count() > 0) {
            taken.add(ranges.take());
        }
        return taken;
    }

    @Test
    void allIsTakenInOrderAndTheLastRangeIsShorter() {
        ranges.start(2 * RANGE + 13);
        assertThat(ranges.count()).isEqualTo(3);
        assertThat(takeAll()).containsExactly(0L, RANGE, 2 * RANGE);
        assertThat(ranges.bytes(RANGE)).isEqualTo(RANGE);
        assertThat(ranges.bytes(2 * RANGE)).isEqualTo(13);
    }

    /// Before the peer has given up what carried it, it could arrive late, over what is there then.
    @Test
    void whatIsLostIsTakenAgainWhenItIsSaidToBeOver() {
        ranges.start(4 * RANGE);
        long first = ranges.take();
        long second = ranges.take();
        ranges.lose(second);
        ranges.lose(first);
        assertThat(ranges.count()).isEqualTo(2);
        assertThat(ranges.take()).isEqualTo(2 * RANGE);
        ranges.takeLostAgain();
        assertThat(takeAll()).containsExactly(RANGE, 0L, 3 * RANGE);
    }

    @Test
    void anotherOperationHasNothingOfTheOneBefore() {
        ranges.start(4 * RANGE);
        ranges.lose(ranges.take());
        ranges.takeLostAgain();
        ranges.lose(ranges.take());
        ranges.start(RANGE);
        ranges.takeLostAgain();
        assertThat(takeAll()).containsExactly(0L);
    }
}

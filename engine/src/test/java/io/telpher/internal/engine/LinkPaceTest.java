package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class LinkPaceTest {
    /// Ranges that a link has under way at a time, and those of the operation.
    private static final int EACH = 2;

    private static final int RANGES = 4;

    private static final long QUICKEST = 1000;
    private static final int TIMES = 40;

    private final LinkPace pace = new LinkPace();

    /// As a job asks for a link that takes part.
    private boolean isGiven() {
        if (pace.isTooSlow(QUICKEST, RANGES, EACH)) {
            pace.wasLeftOut();
            return false;
        }
        return pace.mayTake();
    }

    /// @return how often it was left out before it was given a range
    private int waits() {
        int times = 0;
        while (!isGiven()) {
            times++;
            assertThat(times).as("it is tried again").isLessThan(1000);
        }
        return times;
    }

    @Test
    void aLinkOfWhichNothingIsKnownIsGivenWhatItAsksFor() {
        assertThat(isGiven()).isTrue();
        assertThat(isGiven()).isTrue();
    }

    /// The others take what is left in the time of (ranges + those under way) / those under way.
    @Test
    void aLinkIsGivenWhatItEndsBeforeTheQuickestHasAllElse() {
        pace.took(3 * QUICKEST);
        assertThat(pace.isTooSlow(QUICKEST, RANGES, EACH)).isFalse();
        assertThat(pace.isTooSlow(QUICKEST, RANGES - 1, EACH)).isTrue();
        assertThat(isGiven()).isTrue();
        assertThat(isGiven()).isTrue();
    }

    @Test
    void aSlowLinkIsTriedWithOneRangeUntilThatHasEnded() {
        pace.took(TIMES * QUICKEST);
        assertThat(isGiven()).isFalse();
        assertThat(waits()).isPositive();
        for (int i = 0; i < 100; i++) {
            assertThat(isGiven()).as("while the one range shows how quick it is").isFalse();
        }
        pace.took(QUICKEST);
        assertThat(isGiven()).as("it is quick again").isTrue();
        assertThat(isGiven()).as("and given as much as others").isTrue();
    }

    /// About once for 20 times that it is left out: it costs the transfer that it is tried with.
    @Test
    void aLinkThatStaysSlowIsTriedSeldom() {
        pace.took(TIMES * QUICKEST);
        int tries = 0;
        for (int asked = 0; asked < 1000; asked++) {
            if (isGiven()) {
                tries++;
                pace.took(TIMES * QUICKEST);
            }
        }
        assertThat(tries).isBetween(30, 60);
    }

    /// Otherwise it would never be tried again.
    @Test
    void aTryThatCameToNothingIsNoTry() {
        pace.took(TIMES * QUICKEST);
        int unused = waits();
        pace.tookNone();
        assertThat(isGiven()).isTrue();
    }
}

package io.telpher.cli.soak;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/// How long a rank may take to say its first word.
class StartingTest {
    private static final long MINUTE = 60_000_000_000L;

    @Test
    void aRankWithAHundredthOfAProcessorHasTime() {
        Starting starting = new Starting(MINUTE);
        for (int minute = 1; minute <= 10; minute++) {
            assertThat(starting.goesOn((1 + minute) * MINUTE, minute * MINUTE / 100))
                    .as("minute %d", minute)
                    .isTrue();
        }
    }

    @Test
    void aRankThatDoesNothingHasNone() {
        Starting starting = new Starting(0);
        assertThat(starting.goesOn(MINUTE, 2 * Starting.WORK)).isTrue();
        assertThat(starting.goesOn(2 * MINUTE, 2 * Starting.WORK + Starting.WORK / 2)).isFalse();
        assertThat(starting.text(2 * MINUTE))
                .isEqualTo("has not started within 120 s, in which it had 0.25 s of a processor");
    }

    @Test
    void aRankThatIsBusyForEverIsGivenUp() {
        Starting starting = new Starting(0);
        assertThat(starting.goesOn(Starting.LIMIT - 1, MINUTE)).isTrue();
        assertThat(starting.goesOn(Starting.LIMIT, 2 * MINUTE)).isFalse();
    }
}

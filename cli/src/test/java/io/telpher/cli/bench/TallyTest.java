package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import org.HdrHistogram.Histogram;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class TallyTest {
    private static final Stage STAGE = Stages.plain("mapped", 1000, Stage.Waiting.POLL);

    /// @param micros of each operation
    private static PhaseResult result(int rank, long operations, long nanos, long micros) {
        Histogram times = PhaseResult.histogram();
        times.recordValueWithCount(micros * 1_000_000, operations);
        return new PhaseResult(rank, operations, nanos, 0, times);
    }

    private static Row row(Op op, Phase.Shape shape, int depth, PhaseResult... results) {
        Tally tally = new Tally(STAGE, new Case(op, 1000, 1, depth), shape);
        PhaseOutcome outcome =
                new PhaseOutcome(List.of(results), new Verdict(3, "byte 7", 1_000_000));
        tally.add(outcome, tally.medians);
        tally.add(outcome, tally.tails);
        return tally.row();
    }

    /// 2 x 100 operations in 2 x 400 us.
    @ParameterizedTest
    @EnumSource
    void aPingPongOfMessagesHasTwoOfThemInEachOperation(Op op) {
        Row row =
                row(
                        op,
                        Phase.Shape.PING_PONG,
                        1,
                        result(0, 100, 400_000, 2),
                        result(1, 0, 400_000, 2));
        int messages = op.oneSided() ? 1 : 2;
        assertThat(row.iterations()).isEqualTo(200);
        assertThat(row.gbps()).isCloseTo(0.25 * messages, within(1e-9));
        assertThat(row.usMean()).isCloseTo(4.0 / messages, within(1e-9));
        assertThat(row.usP50()).isCloseTo(2, within(0.01));
        assertThat(row.usP99()).isCloseTo(2, within(0.01));
        assertThat(row.usP999()).isCloseTo(2, within(0.01));
        assertThat(row.cpuPerGb()).isCloseTo(10.0 / messages, within(1e-9));
        assertThat(row.fairness()).isEqualTo(1);
        assertThat(row.wrong()).isEqualTo(6);
        assertThat(row.firstWrong()).isEqualTo("byte 7");
    }

    /// One initiator three times as fast as the other.
    @ParameterizedTest
    @EnumSource
    void streamsAddUpAndMessagesInThemHaveNoTime(Op op) {
        Row row =
                row(
                        op,
                        Phase.Shape.STREAM,
                        4,
                        result(0, 300, 400_000, 2),
                        result(1, 100, 400_000, 6));
        assertThat(row.iterations()).isEqualTo(800);
        assertThat(row.gbps()).isCloseTo(1, within(1e-9));
        assertThat(row.fairness()).isCloseTo(0.8, within(1e-9));
        if (op.oneSided()) {
            assertThat(row.usMean()).isCloseTo(4, within(1e-9));
            assertThat(row.usP50()).isCloseTo(2, within(0.01));
            assertThat(row.usP99()).isCloseTo(6, within(0.01));
        } else {
            assertThat(List.of(row.usMean(), row.usP50(), row.usP99(), row.usP999()))
                    .containsOnly(Double.NaN);
        }
    }

    @Test
    void segmentsCountByTheirOperations() {
        Tally tally = new Tally(STAGE, new Case(Op.WRITE, 1000, 1, 1), Phase.Shape.PING_PONG);
        for (long operations : new long[] {100, 300}) {
            tally.add(
                    new PhaseOutcome(
                            List.of(result(0, operations, 400_000, 1)), new Verdict(0, null, 0)),
                    tally.medians);
        }
        assertThat(tally.row().usMean()).isCloseTo(2, within(1e-9));
        assertThat(tally.row().gbps()).isCloseTo(0.5, within(1e-9));
        assertThat(tally.row().usP99()).isNaN();
    }
}

package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import org.HdrHistogram.Histogram;
import org.junit.jupiter.api.Test;

class StatisticsTest {
    @Test
    void jainsIndexTellsEqualFromUnequalShares() {
        assertThat(Fairness.jain(5, 5, 5, 5)).isEqualTo(1);
        assertThat(Fairness.jain(1, 0, 0, 0)).isEqualTo(0.25);
        assertThat(Fairness.jain(1, 2)).isCloseTo(0.9, within(1e-12));
        assertThat(Fairness.jain()).isEqualTo(1);
    }

    @Test
    void theMedianOfAnEvenNumberLiesBetweenTheTwoInTheMiddle() {
        assertThat(Spread.of(List.of(3.0, 1.0, 2.0))).isEqualTo(new Spread(2, 1, 3));
        assertThat(Spread.of(List.of(4.0, 1.0, 2.0, 3.0)).median()).isEqualTo(2.5);
        assertThat(Spread.of(List.of(Double.NaN, 7.0))).isEqualTo(new Spread(7, 7, 7));
        assertThat(Spread.of(List.of()).isKnown()).isFalse();
    }

    @Test
    void figuresAreJudgedInTheirOwnDirection() {
        Figure time = figure(1.0, 0.6, Figure.Better.LOWER);
        assertThat(time.verdict(new Spread(0.5, 0, 1))).isEqualTo("aim reached");
        assertThat(time.verdict(new Spread(1.0, 0, 1))).isEqualTo("reached");
        assertThat(time.verdict(new Spread(1.01, 0, 1))).isEqualTo("missed");
        assertThat(time.verdict(Spread.NONE)).isEqualTo("not measured");
        Figure rate = figure(0.95, 1.0, Figure.Better.HIGHER);
        assertThat(rate.verdict(new Spread(0.96, 0, 1))).isEqualTo("reached");
        assertThat(rate.verdict(new Spread(0.94, 0, 1))).isEqualTo("missed");
        Figure share = figure(1, Double.NaN, Figure.Better.BELOW);
        assertThat(share.verdict(new Spread(1, 0, 1))).isEqualTo("missed");
        Figure limit = figure(Double.NaN, 1, Figure.Better.HIGHER);
        assertThat(limit.verdict(new Spread(0.94, 0, 1))).isEqualTo("aim missed");
        assertThat(limit.verdict(new Spread(1, 0, 1))).isEqualTo("aim reached");
        assertThat(limit.barText()).isEmpty();
    }

    private static Figure figure(double bar, double aim, Figure.Better better) {
        return new Figure("name", "what", bar, aim, better, "x", round -> 0);
    }

    @Test
    void figuresAreChosenByNameOrByItsBeginning() {
        assertThat(FigureList.choose(List.of())).isEqualTo(FigureList.ALL);
        assertThat(FigureList.choose(List.of("all"))).isEqualTo(FigureList.ALL);
        assertThat(FigureList.choose(List.of("tcp-write-1M"))).hasSize(1);
        assertThat(FigureList.choose(List.of("idle")))
                .extracting(Figure::name)
                .containsExactly("idle-shm", "idle-tcp");
        assertThatThrownBy(() -> FigureList.choose(List.of("warp")))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("shm-write-64K");
        assertThat(FigureList.names()).doesNotHaveDuplicates();
    }

    @Test
    void resultsTravelWithTheirHistogram() {
        Histogram times = PhaseResult.histogram();
        times.recordValue(26_590);
        times.recordValue(1_500_000_000_000L);
        PhaseResult sent = new PhaseResult(3, 100, 12345, 6, times);
        PhaseResult got = PhaseResult.decode(Message.decode(sent.encode().encode()));
        assertThat(got.rank()).isEqualTo(3);
        assertThat(got.operations()).isEqualTo(100);
        assertThat(got.nanos()).isEqualTo(12345);
        assertThat(got.allocated()).isEqualTo(6);
        assertThat(got.times()).isEqualTo(times);
    }

    @Test
    void ratesOfInitiatorsAddUpAndTheSlowestGivesTheTime() {
        Histogram none = PhaseResult.histogram();
        PhaseOutcome outcome =
                new PhaseOutcome(
                        List.of(
                                new PhaseResult(0, 0, 1, 0, none),
                                new PhaseResult(1, 1000, 1_000_000, 5, none),
                                new PhaseResult(2, 1000, 2_000_000, 7, none)),
                        new Verdict(0, null, 0));
        assertThat(outcome.operations()).isEqualTo(2000);
        assertThat(outcome.rate()).isEqualTo(1.5e6);
        assertThat(outcome.nanosPerOperation()).isEqualTo(2000);
        assertThat(outcome.allocated()).isEqualTo(12);
        assertThat(outcome.rates()).containsExactly(1e6, 5e5);
    }
}

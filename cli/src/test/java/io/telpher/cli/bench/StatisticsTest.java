package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.util.List;
import org.HdrHistogram.Histogram;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

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

    /// A bar is moved here and in the list, or not at all.
    @ParameterizedTest
    @CsvSource({
        "shm-write-64K, 0.95, 1.0",
        "shm-write-1M, 0.95, 1.0",
        "shm-write-64M, 1.0, 1.3",
        "shm-memcpy-64K, NaN, 1.0",
        "shm-memcpy-1M, NaN, 1.0",
        "cma-write-1M, 1.0, 1.2",
        "shm-message-8, 1.0, 0.6",
        "shm-message-8-p99, 1.5, 1.0",
        "shm-write-8-rate, 10, 40",
        "shm-pieces, 0.3, 0.12",
        "shm-loaded, 10, 3",
        "tcp-write-1M, 0.9, 1.1",
        "tcp-write-1M-iperf3, 1.8, 3",
        "tcp-write-1M-cpu, 1.2, 1.0",
        "tcp-send-8, 1.1, 0.9",
        "tcp-send-8-p99, 1.5, 1.0",
        "tcp-write-8, 1.1, 0.9",
        "tcp-write-64K, 1.0, 0.8",
        "tcp-pieces, 1.2, 0.5",
        "tcp-loaded, 10, 3",
        "rails-equal, 0.95, 0.98",
        "rails-1:2, 0.95, 0.98",
        "incast-shm, 0.95, 0.99",
        "incast-tcp, 0.95, 0.99",
        "idle-shm, 1, NaN",
        "idle-tcp, 1, NaN",
        "memory-shm, 256, NaN",
        "memory-tcp, 256, NaN",
        "threads-shm, 0, NaN",
        "threads-tcp, 0, NaN"
    })
    void barsStayWhatWasPromised(String name, Double bar, Double aim) {
        Figure figure = FigureList.choose(List.of(name)).getFirst();
        assertThat(figure.bar()).isEqualTo(bar);
        assertThat(figure.aim()).isEqualTo(aim);
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

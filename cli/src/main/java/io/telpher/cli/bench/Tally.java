package io.telpher.cli.bench;

import org.HdrHistogram.Histogram;
import org.jspecify.annotations.Nullable;

/// Adds up the segments of a row.
final class Tally {
    private final Stage stage;
    final Case test;
    final Phase.Shape shape;

    /// Whether an operation is answered by another one: a ping-pong.
    private final boolean answered;

    /// Whether the times are those of what a row measures. Of messages that nobody answers only the
    /// end at their sender is known, which says nothing of when they arrive.
    private final boolean timed;

    final Histogram medians = PhaseResult.histogram();
    final Histogram tails = PhaseResult.histogram();
    int group = 1;
    private long operations;
    private double weightedRate;
    private double weight;
    private double weightedNanos;
    private long cpuNanos;
    private long wrong;
    private @Nullable String first;
    private double fairness = 1;

    Tally(Stage stage, Case test, Phase.Shape shape) {
        this.stage = stage;
        this.test = test;
        this.shape = shape;
        this.answered = shape == Phase.Shape.PING_PONG && !test.op().oneSided();
        this.timed = test.op().oneSided() || answered;
    }

    void check(PhaseOutcome outcome) {
        wrong += outcome.verdict().wrong();
        if (first == null) {
            first = outcome.verdict().first();
        }
    }

    void add(PhaseOutcome outcome, Histogram times) {
        check(outcome);
        long done = outcome.operations();
        operations += done;
        weight += done;
        weightedNanos += done * outcome.nanosPerOperation();
        weightedRate += done / outcome.rate();
        cpuNanos += outcome.verdict().cpuNanos();
        fairness = Math.min(fairness, Fairness.jain(outcome.rates()));
        outcome.addTimesTo(times);
    }

    Row row() {
        double oneWay = answered ? 2 : 1;
        double bytes = operations * oneWay * test.bytes();
        return new Row(
                stage,
                test,
                operations,
                weight / weightedRate * oneWay * test.bytes() / 1e9,
                timed ? weightedNanos / weight / oneWay / 1e3 : Double.NaN,
                microseconds(medians, 50),
                microseconds(tails, 99),
                microseconds(tails, 99.9),
                cpuNanos / bytes,
                wrong,
                first,
                group,
                fairness);
    }

    private double microseconds(Histogram times, double percentile) {
        return !timed || times.getTotalCount() == 0
                ? Double.NaN
                : times.getValueAtPercentile(percentile) / 1e6;
    }
}

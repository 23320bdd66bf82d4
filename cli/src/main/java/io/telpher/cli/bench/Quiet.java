package io.telpher.cli.bench;

import java.util.function.Supplier;

/// Gets measurements from moments in which other programs use little of the machine: waits for such
/// moments, and measures again what was disturbed, as long as its patience lasts. For comparisons,
/// where one disturbed side makes the ratio worthless. Not for several threads.
final class Quiet {
    private static final double LONGEST_WAIT = 10;
    private static final int TRIES = 3;

    private double patience;

    /// @param patience seconds that may be spent in all
    Quiet(double patience) {
        this.patience = patience;
    }

    /// Measures.
    ///
    /// @param measurement takes a while and may be repeated
    /// @return the least disturbed result
    <T> T measure(Supplier<T> measurement) {
        Try<T> best = attempt(measurement);
        for (int i = 1; i < TRIES && best.disturbed() && patience > 0; i++) {
            patience -= best.seconds;
            Try<T> next = attempt(measurement);
            best = next.share < best.share ? next : best;
        }
        return best.result;
    }

    private record Try<T>(T result, double share, double seconds) {
        boolean disturbed() {
            return share > Disturbance.NOTABLE;
        }
    }

    private <T> Try<T> attempt(Supplier<T> measurement) {
        await();
        long start = System.nanoTime();
        Disturbance disturbance = new Disturbance();
        T result = measurement.get();
        double share = disturbance.share();
        return new Try<>(result, share, (System.nanoTime() - start) / 1e9);
    }

    private void await() {
        if (patience <= 0) {
            return;
        }
        long start = System.nanoTime();
        Disturbance.awaitQuiet(Math.min(LONGEST_WAIT, patience));
        patience -= (System.nanoTime() - start) / 1e9;
    }
}

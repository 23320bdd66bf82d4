package io.telpher.cli.bench;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/// One figure over several rounds.
///
/// @param median the middle one; the mean of the two in the middle when their number is even
/// @param min the least
/// @param max the greatest
record Spread(double median, double min, double max) {
    /// Nothing was measured.
    static final Spread NONE = new Spread(Double.NaN, Double.NaN, Double.NaN);

    static Spread of(List<Double> values) {
        double[] sorted =
                values.stream().mapToDouble(Double::doubleValue).filter(Double::isFinite).toArray();
        if (sorted.length == 0) {
            return NONE;
        }
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        double median =
                sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
        return new Spread(median, sorted[0], sorted[sorted.length - 1]);
    }

    boolean isKnown() {
        return !Double.isNaN(median);
    }

    @Override
    public String toString() {
        return isKnown()
                ? "%s (%s to %s)"
                        .formatted(Table.figure(median), Table.figure(min), Table.figure(max))
                : "not measured";
    }

    static String percent(double share) {
        return String.format(Locale.ROOT, "%.1f %%", share * 100);
    }
}

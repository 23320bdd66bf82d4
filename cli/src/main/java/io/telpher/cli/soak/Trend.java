package io.telpher.cli.soak;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/// Whether a number grows with time: the median of the slopes between all pairs of samples (Theil
/// and Sen), which neither the moments of faults nor a few outliers move. Keeps a bounded number of
/// samples: of two neighbours the smaller one stays, since a leak raises that too. Used by one
/// thread.
final class Trend {
    private static final int MOST = 256;

    /// With fewer samples nothing is said.
    static final int LEAST = 12;

    private record Sample(double seconds, double value) {}

    private final String name;
    private final double tolerance;
    private final List<Sample> samples = new ArrayList<>();
    private int each = 1;
    private int skipped;
    private double smallest = Double.MAX_VALUE;

    /// @param name what it is
    /// @param tolerance growth over all samples that is not yet called one
    Trend(String name, double tolerance) {
        this.name = name;
        this.tolerance = tolerance;
    }

    void add(double seconds, double value) {
        smallest = Math.min(smallest, value);
        if (++skipped < each) {
            return;
        }
        samples.add(new Sample(seconds, smallest));
        skipped = 0;
        smallest = Double.MAX_VALUE;
        if (samples.size() == MOST) {
            List<Sample> half = new ArrayList<>();
            for (int i = 0; i < MOST; i += 2) {
                double least = Math.min(samples.get(i).value, samples.get(i + 1).value);
                half.add(new Sample(samples.get(i + 1).seconds, least));
            }
            samples.clear();
            samples.addAll(half);
            each *= 2;
        }
    }

    /// @return growth from the first sample to the last, by the median slope
    double growth() {
        int n = samples.size();
        if (n < LEAST) {
            return 0;
        }
        double[] slopes = new double[n * (n - 1) / 2];
        int at = 0;
        for (int i = 0; i < n; i++) {
            for (int j = i + 1; j < n; j++) {
                Sample a = samples.get(i);
                Sample b = samples.get(j);
                slopes[at++] = (b.value - a.value) / (b.seconds - a.seconds);
            }
        }
        Arrays.sort(slopes);
        return slopes[at / 2] * (samples.getLast().seconds - samples.getFirst().seconds);
    }

    boolean isKnown() {
        return samples.size() >= LEAST;
    }

    /// @return how it grows, in words; null when it does not
    @Nullable String grows() {
        double growth = growth();
        return growth <= tolerance
                ? null
                : String.format(
                        Locale.ROOT,
                        "%s: from %.0f to %.0f in %.0f s, by %.0f along the median slope",
                        name,
                        samples.getFirst().value,
                        samples.getLast().value,
                        samples.getLast().seconds - samples.getFirst().seconds,
                        growth);
    }
}

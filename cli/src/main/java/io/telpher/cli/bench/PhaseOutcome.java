package io.telpher.cli.bench;

import java.util.List;
import org.HdrHistogram.Histogram;

/// What all ranks found in one [Phase].
///
/// @param results by rank
/// @param verdict wrong bytes of all ranks, processor time of all processes
record PhaseOutcome(List<PhaseResult> results, Verdict verdict) {
    long operations() {
        return results.stream().mapToLong(PhaseResult::operations).sum();
    }

    /// @return operations a second of all initiators together
    double rate() {
        return results.stream()
                .mapToDouble(r -> r.operations() == 0 ? 0 : r.operations() * 1e9 / r.nanos())
                .sum();
    }

    /// @return nanoseconds of the slowest initiator per operation
    double nanosPerOperation() {
        return results.stream()
                .filter(r -> r.operations() > 0)
                .mapToDouble(r -> (double) r.nanos() / r.operations())
                .max()
                .orElse(Double.NaN);
    }

    /// @return how long the slowest initiator took
    double seconds() {
        return results.stream()
                .filter(r -> r.operations() > 0)
                .mapToDouble(r -> r.nanos() / 1e9)
                .max()
                .orElse(Double.NaN);
    }

    /// Adds the times of all initiators.
    void addTimesTo(Histogram sum) {
        for (PhaseResult result : results) {
            if (result.operations() > 0) {
                sum.add(result.times());
            }
        }
    }

    /// @return operations a second of each initiator
    double[] rates() {
        return results.stream()
                .filter(r -> r.operations() > 0)
                .mapToDouble(r -> r.operations() * 1e9 / r.nanos())
                .toArray();
    }

    /// @return bytes that the measuring threads of all ranks allocated in their loops
    long allocated() {
        return results.stream().mapToLong(PhaseResult::allocated).sum();
    }
}

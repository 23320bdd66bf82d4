package io.telpher.cli.bench;

import java.util.List;
import java.util.stream.DoubleStream;
import java.util.stream.Stream;
import org.HdrHistogram.Histogram;

/// What all ranks found in one [Phase].
///
/// @param results by rank
/// @param verdict wrong bytes of all ranks, processor time of all processes
record PhaseOutcome(List<PhaseResult> results, Verdict verdict) {
    private Stream<PhaseResult> initiators() {
        return results.stream().filter(r -> r.operations() > 0);
    }

    long operations() {
        return results.stream().mapToLong(PhaseResult::operations).sum();
    }

    /// @return operations a second of all initiators together
    double rate() {
        return DoubleStream.of(rates()).sum();
    }

    /// @return nanoseconds of the slowest initiator per operation
    double nanosPerOperation() {
        return initiators()
                .mapToDouble(r -> (double) r.nanos() / r.operations())
                .max()
                .orElse(Double.NaN);
    }

    /// @return how long the slowest initiator took
    double seconds() {
        return initiators().mapToDouble(r -> r.nanos() / 1e9).max().orElse(Double.NaN);
    }

    /// Adds the times of all initiators.
    void addTimesTo(Histogram sum) {
        initiators().forEach(r -> sum.add(r.times()));
    }

    /// @return operations a second of each initiator
    double[] rates() {
        return initiators().mapToDouble(r -> r.operations() * 1e9 / r.nanos()).toArray();
    }

    /// @return bytes that the measuring threads of all ranks allocated in their loops
    long allocated() {
        return results.stream().mapToLong(PhaseResult::allocated).sum();
    }
}

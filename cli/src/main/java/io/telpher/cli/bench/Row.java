package io.telpher.cli.bench;

import org.jspecify.annotations.Nullable;

/// One measured [Case].
///
/// @param stage where
/// @param test what
/// @param iterations operations of all initiators
/// @param gbps payload in 1e9 bytes a second, all flows together
/// @param usMean microseconds per operation: from posting to completion, or one way; like the
///     following NaN for messages that are not answered, whose arrival the sender does not see
/// @param usP50 median, in microseconds, or NaN
/// @param usP99 99th percentile
/// @param usP999 99.9th percentile
/// @param cpuPerGb processor seconds of all processes for 1e9 bytes
/// @param wrong wrong bytes
/// @param firstWrong where the first of them is
/// @param group operations that were timed together for the median; 1 when each was timed alone
/// @param fairness Jain's index over the initiators' rates; 1 when there is one
record Row(
        Stage stage,
        Case test,
        long iterations,
        double gbps,
        double usMean,
        double usP50,
        double usP99,
        double usP999,
        double cpuPerGb,
        long wrong,
        @Nullable String firstWrong,
        int group,
        double fairness) {
    /// @return this, where all data was right
    /// @throws BenchFailure where not: a figure of wrong data is none
    Row checked() {
        if (wrong > 0) {
            throw new BenchFailure(
                    "wrong data: %d bytes of %s over %s; the first is %s"
                            .formatted(wrong, test, stage.path(), firstWrong));
        }
        return this;
    }

    /// @return operations a second, in millions
    double millionsPerSecond() {
        return gbps * 1e3 / test.bytes();
    }

    /// @return how it was measured, for the JSON field `settings`
    String settings(String pins) {
        return "%s, target %s%s%s%s%s"
                .formatted(
                        pins,
                        stage.parks(test.op()) ? "parks" : "polls",
                        test.list() ? ", posted as one list" : "",
                        group > 1 ? ", p50 over groups of " + group : "",
                        stage.traffic() == Traffic.PAIR
                                ? ""
                                : ", " + stage.traffic().word() + " of " + stage.ranks(),
                        stage.direction() == Traffic.Direction.BOTH ? ", both directions" : "");
    }
}

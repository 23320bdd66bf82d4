package io.telpher.cli.bench;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/// What a pair of a full mesh reached in a round, or all pairs together; its data was right.
///
/// @param mode which other pairs ran at the same time
/// @param from the source's name
/// @param to the target's name
/// @param bytes of one write
/// @param writes how many were acknowledged
/// @param seconds from the round's start to the last acknowledgement of the target
/// @param usP50 median from posting to acknowledgement, in microseconds, or NaN
/// @param usP99 99th percentile
/// @param usP999 99.9th percentile
/// @param path which way most bytes went
/// @param lanes lanes of the pair's connection
record MeshResult(
        Mode mode,
        String from,
        String to,
        long bytes,
        long writes,
        double seconds,
        double usP50,
        double usP99,
        double usP999,
        String path,
        int lanes) {
    /// Which pairs run at the same time.
    enum Mode {
        /// All of them.
        ALL("all pairs at once"),
        /// One after another.
        PAIRS("pair by pair");

        private final String text;

        Mode(String text) {
            this.text = text;
        }

        /// @return for people
        String text() {
            return text;
        }

        static Mode parse(String word) {
            for (Mode mode : values()) {
                if (mode.word().equals(word.strip())) {
                    return mode;
                }
            }
            throw new IllegalArgumentException(
                    "--mode is '%s'; it is a list of %s"
                            .formatted(
                                    word,
                                    Arrays.stream(values())
                                            .map(Mode::word)
                                            .collect(Collectors.joining(", "))));
        }

        private String word() {
            return name().toLowerCase(Locale.ROOT);
        }
    }

    /// Takes over what [MeshFlow#result] says.
    ///
    /// @param start of the round, by the source's clock
    static MeshResult of(Mode mode, String from, String to, long bytes, long start, Message flow) {
        return new MeshResult(
                mode,
                from,
                to,
                bytes,
                flow.number("done"),
                (flow.number("last") - start) / 1e9,
                flow.decimal("p50"),
                flow.decimal("p99"),
                flow.decimal("p999"),
                flow.text("path"),
                (int) flow.number("lanes"));
    }

    double gbps() {
        return bytes * writes / seconds / 1e9;
    }

    String pair() {
        return from + " -> " + to;
    }

    /// @return the line of the pair's log; programs look for `PERF.*Avg.*BW:` in it
    String line() {
        return String.format(
                Locale.ROOT,
                "[PERF] %s, %s: %d writes of %s in %.6f s, Avg: %.3f ms, BW: %.3f GB/s,"
                        + " path %s, %d lane%s, data right",
                mode.text(),
                pair(),
                writes,
                Sizes.format(bytes),
                seconds,
                seconds * 1e3 / writes,
                gbps(),
                path,
                lanes,
                lanes == 1 ? "" : "s");
    }
}

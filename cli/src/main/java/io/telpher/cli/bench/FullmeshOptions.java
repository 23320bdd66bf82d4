package io.telpher.cli.bench;

import io.telpher.cli.bench.MeshResult.Mode;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// What is wanted of a full mesh, by the connecting host.
///
/// @param transports what may be used
/// @param lanes lanes of each pair, 0 for the engine's choice
/// @param depth writes in flight for each pair
/// @param sizes bytes of a write
/// @param seconds how long each round posts
/// @param modes which pairs run at the same time
/// @param processes who owns the GPUs
/// @param logs folder of the pairs' logs
/// @param spoiled a source whose first byte is to be wrong, or [MeshRound#NONE]
record FullmeshOptions(
        List<String> transports,
        int lanes,
        int depth,
        List<Long> sizes,
        double seconds,
        List<Mode> modes,
        MeshPlan.Processes processes,
        Path logs,
        int spoiled) {
    /// What UCCL's launcher took the number of connections of a pair from.
    static final String CHANNELS = "UCCL_TCPX_NUM_CHANNELS";

    private static final int MOST_LANES = 64;
    private static final List<String> KNOWN = List.of("shm", "tcp");

    FullmeshOptions {
        for (String transport : transports) {
            if (!KNOWN.contains(transport)) {
                throw new IllegalArgumentException(
                        "--transport is '%s'; it is a list of %s"
                                .formatted(transport, String.join(", ", KNOWN)));
            }
        }
        if (depth < 1 || depth > 1024) {
            throw new IllegalArgumentException(
                    "--depth is " + depth + "; it is between 1 and 1024");
        }
        if (!(seconds > 0 && seconds <= 86_400)) {
            throw new IllegalArgumentException(
                    "--seconds is " + seconds + "; it is above 0 and at most 86400");
        }
        if (sizes.contains(0L)) {
            throw new IllegalArgumentException("--sizes has a 0: a write has a byte at least");
        }
        sizes = List.copyOf(sizes);
        transports = List.copyOf(transports);
        modes = List.copyOf(modes);
    }

    /// @param option what `--lanes` says, or null
    /// @return the lanes of a pair, 0 for the engine's choice
    static int lanes(@Nullable Integer option, Map<String, String> environment) {
        String channels = environment.get(CHANNELS);
        String name = option != null ? "--lanes" : CHANNELS;
        String value = option != null ? option.toString() : channels;
        if (value == null) {
            return 0;
        }
        if (!value.strip().matches("\\d{1,4}")
                || Integer.parseInt(value.strip()) < 1
                || Integer.parseInt(value.strip()) > MOST_LANES) {
            throw new IllegalArgumentException(
                    "%s is '%s'; it is between 1 and %d".formatted(name, value, MOST_LANES));
        }
        return Integer.parseInt(value.strip());
    }

    /// @param peers ranks here
    /// @return what the other host has to know
    MeshPlan plan(int peers) {
        long largest = sizes.stream().mapToLong(Long::longValue).max().orElseThrow();
        return new MeshPlan(transports, lanes, depth, largest, processes, peers);
    }
}

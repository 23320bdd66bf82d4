package io.telpher.cli.soak;

import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// What a soak is to do.
///
/// @param seconds how long
/// @param ranks processes; at least 2
/// @param paths which paths
/// @param seed of everything that is drawn
/// @param every mean seconds between two faults
/// @param line seconds between two lines that say how it goes
/// @param folder where events go; null for a new one, which is deleted if nothing fails
/// @param plant a fault of the soak itself
record SoakOptions(
        double seconds,
        int ranks,
        List<SoakPath> paths,
        long seed,
        double every,
        double line,
        @Nullable Path folder,
        Plant plant) {
    private static final int MOST_RANKS = 16;

    SoakOptions {
        paths = List.copyOf(paths);
        if (!(seconds > 0)) {
            throw new IllegalArgumentException("--minutes must be above 0");
        }
        if (ranks < 2 || ranks > MOST_RANKS) {
            throw new IllegalArgumentException(
                    "--ranks is %d; it must lie between 2 and %d".formatted(ranks, MOST_RANKS));
        }
        if (!(every > 0)) {
            throw new IllegalArgumentException("--every must be above 0");
        }
        if (!(line > 0)) {
            throw new IllegalArgumentException("--line must be above 0");
        }
        if (paths.isEmpty()) {
            throw new IllegalArgumentException(
                    "no path is left: --path and --transport exclude each other's");
        }
    }

    String pathList() {
        return paths.stream().map(SoakPath::text).collect(Collectors.joining(","));
    }
}

package io.telpher.cli.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/// Who initiates towards whom.
enum Traffic {
    /// Rank 0 to rank 1.
    PAIR,
    /// Each to the next, the last to the first.
    RING,
    /// Each to every other.
    ALL_TO_ALL,
    /// All others to rank 0.
    INCAST;

    static Traffic parse(String text) {
        for (Traffic traffic : values()) {
            if (traffic.word().equals(text.strip())) {
                return traffic;
            }
        }
        throw new IllegalArgumentException(
                "'" + text + "' is no pattern: pair, ring, all-to-all or incast");
    }

    String word() {
        return name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /// @return the ranks that `rank` initiates towards, in the order of first use
    List<Integer> targets(int rank, int ranks, Direction direction) {
        List<Integer> targets = new ArrayList<>();
        for (int i = 1; i < ranks; i++) {
            int other = (rank + i) % ranks;
            if (leads(rank, other, ranks)
                    || (direction == Direction.BOTH && leads(other, rank, ranks))) {
                targets.add(other);
            }
        }
        return targets;
    }

    private boolean leads(int from, int to, int ranks) {
        return switch (this) {
            case PAIR -> from == 0 && to == 1;
            case RING -> to == (from + 1) % ranks;
            case ALL_TO_ALL -> true;
            case INCAST -> to == 0;
        };
    }

    /// Whether the opposite of every flow runs too.
    enum Direction {
        /// Only as the pattern says.
        ONE,
        /// Also the other way round, at the same time.
        BOTH
    }
}

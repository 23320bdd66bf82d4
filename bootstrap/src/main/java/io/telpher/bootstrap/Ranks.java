package io.telpher.bootstrap;

import java.util.ArrayList;
import java.util.List;

/// Lists of ranks in messages.
final class Ranks {
    private static final int MOST = 8;

    private Ranks() {}

    /// @param ranks in ascending order
    /// @return such as `rank 3` or `ranks 0 to 6, 9`
    static String text(List<Integer> ranks) {
        List<String> runs = new ArrayList<>();
        int first = 0;
        for (int i = 1; i <= ranks.size(); i++) {
            if (i == ranks.size() || ranks.get(i) != ranks.get(i - 1) + 1) {
                int from = ranks.get(first);
                int to = ranks.get(i - 1);
                runs.add(from == to ? "" + from : from + " to " + to);
                first = i;
            }
        }
        if (runs.size() > MOST) {
            runs = new ArrayList<>(runs.subList(0, MOST));
            runs.add("others");
        }
        return (ranks.size() == 1 ? "rank " : "ranks ") + String.join(", ", runs);
    }
}

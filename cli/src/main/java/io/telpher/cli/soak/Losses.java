package io.telpher.cli.soak;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/// Every end of a connection must have a reason that the driver knows: one of the ends closed it,
/// one of the processes was killed, or its last lane was cut. Judged some seconds later, when both
/// ends have told. Used by the driver's thread.
final class Losses {
    private static final long LATER = 6_000_000_000L;
    private static final long FORGET = 120_000_000_000L;

    /// Cuts that are so close are one: the first lane's loss is still being dealt with.
    private static final long TOGETHER = 15_000_000_000L;

    private record Loss(String connection, int one, int other, String text, long at) {}

    private record Cut(int alive, long at) {}

    private final List<Loss> losses = new ArrayList<>();
    private final Map<String, Long> closed = new HashMap<>();
    private final Map<String, List<Cut>> cuts = new HashMap<>();
    private final Map<Integer, Long> killed = new HashMap<>();

    void killed(int rank) {
        killed.put(rank, Clock.OWN.now());
    }

    void closing(String connection) {
        closed.put(connection, Clock.OWN.now());
    }

    void cut(String connection, int alive) {
        cuts.computeIfAbsent(connection, c -> new ArrayList<>())
                .add(new Cut(alive, Clock.OWN.now()));
    }

    /// A connection is over.
    ///
    /// @param text who says so, and why
    void over(String connection, int one, int other, String text) {
        losses.add(new Loss(connection, one, other, text, Clock.OWN.now()));
    }

    /// @throws SoakFailure when one has no reason
    void judge() {
        long now = Clock.OWN.now();
        for (Iterator<Loss> all = losses.iterator(); all.hasNext(); ) {
            Loss loss = all.next();
            if (now - loss.at > LATER) {
                all.remove();
                if (!explained(loss)) {
                    throw new SoakFailure(
                            "a connection was lost for no reason that was given: " + loss.text);
                }
            }
        }
        closed.values().removeIf(at -> now - at > FORGET);
        cuts.values().removeIf(list -> now - list.getLast().at > FORGET);
    }

    private boolean explained(Loss loss) {
        return closed.containsKey(loss.connection)
                || recent(killed.get(loss.one), loss.at)
                || recent(killed.get(loss.other), loss.at)
                || isLastLane(cuts.getOrDefault(loss.connection, List.of()), loss.at);
    }

    private static boolean recent(@org.jspecify.annotations.Nullable Long at, long now) {
        return at != null && now - at < FORGET;
    }

    private static boolean isLastLane(List<Cut> cuts, long at) {
        List<Cut> together = cuts.stream().filter(cut -> at - cut.at < TOGETHER).toList();
        return !together.isEmpty() && together.size() >= together.getFirst().alive;
    }
}

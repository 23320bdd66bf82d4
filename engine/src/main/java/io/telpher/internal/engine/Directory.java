package io.telpher.internal.engine;

import io.telpher.RemoteMemory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// The memory that an endpoint has published under names, and which peers have asked for a name
/// that is not published yet: they get the answer when it is. On any thread, without a lock.
final class Directory {
    /// Names that are asked for before they are published, and questions for each.
    private static final int MOST_NAMES = 16_384;

    private static final int MOST_ASKED = 1024;

    private record Asked(ConnectionCore connection, long token) {}

    private final Map<String, RemoteMemory> published = new ConcurrentHashMap<>();

    /// Who waits for a name; a list is touched inside the map's `compute` methods alone.
    private final Map<String, List<Asked>> asked = new ConcurrentHashMap<>();

    /// Publishes memory, and answers those who have asked for it.
    ///
    /// @param name has 1 to a quarter of [ControlFrame#MAX_PAYLOAD] characters
    /// @return where an answer waits for somebody to send it
    List<ConnectionCore> publish(String name, RemoteMemory memory) {
        if (name.isEmpty() || name.length() > ControlFrame.MAX_PAYLOAD / 4) {
            throw new IllegalArgumentException(
                    "a name has 1 to %d characters, this one has %d"
                            .formatted(ControlFrame.MAX_PAYLOAD / 4, name.length()));
        }
        published.put(name, memory);
        List<Asked> due = asked.remove(name);
        List<ConnectionCore> answered = new ArrayList<>();
        for (Asked one : due == null ? List.<Asked>of() : due) {
            one.connection.names.published(one.token, memory);
            answered.add(one.connection);
        }
        return answered;
    }

    /// A peer asks for a name.
    ///
    /// @return the memory of that name, or null: then the answer follows when it is published
    @Nullable RemoteMemory find(String name, ConnectionCore connection, long token) {
        RemoteMemory memory = published.get(name);
        if (memory != null) {
            return memory;
        }
        if (asked.size() >= MOST_NAMES && !asked.containsKey(name)) {
            return null; // whoever asks runs into its deadline
        }
        Asked question = new Asked(connection, token);
        asked.compute(
                name,
                (n, before) -> {
                    List<Asked> waiting = before == null ? new ArrayList<>() : before;
                    if (waiting.size() >= MOST_ASKED) {
                        waiting.removeFirst(); // the oldest has most likely given up
                    }
                    waiting.add(question);
                    return waiting;
                });
        // Published between the two looks: answer now; the second answer of a race is ignored as
        // stale. The others who wait are the publisher's to answer.
        memory = published.get(name);
        if (memory != null) {
            drop(name, question::equals);
        }
        return memory;
    }

    private void drop(String name, Predicate<Asked> which) {
        asked.computeIfPresent(
                name,
                (n, waiting) -> {
                    waiting.removeIf(which);
                    return waiting.isEmpty() ? null : waiting;
                });
    }

    /// A connection is over: nobody waits there.
    void forget(ConnectionCore connection) {
        for (String name : asked.keySet()) {
            drop(name, question -> question.connection == connection);
        }
    }

    /// @return how many names somebody waits for
    int asked() {
        return asked.size();
    }
}

package io.telpher.sim;

import java.util.ArrayDeque;
import java.util.List;

/// What happened: the newest events, and a hash of all.
final class EventLog {
    private static final int MOST = 200_000;

    private final ArrayDeque<SimEvent> events = new ArrayDeque<>();
    private long hash = 0xcbf2_9ce4_8422_2325L;

    void add(long nanos, String where, String what) {
        if (events.size() == MOST) {
            events.removeFirst();
        }
        events.addLast(new SimEvent(nanos, where, what));
        mix(nanos);
        mix(where.hashCode());
        mix(what.hashCode());
    }

    private void mix(long value) {
        hash = (hash ^ value) * 0x100_0000_01b3L;
        hash ^= hash >>> 29;
    }

    long hash() {
        return hash;
    }

    List<SimEvent> events() {
        return List.copyOf(events);
    }
}

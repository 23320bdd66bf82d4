package io.telpher.sim;

import java.util.ArrayDeque;
import org.jspecify.annotations.Nullable;

/// One direction of a ring in shared memory: what both sides can see at once. Stores are seen by a
/// polling reader a little later than they are made; whoever makes a full fence sees them all.
final class Ring {
    /// A frame as it stands in the ring.
    ///
    /// @param visible when a reader without a fence sees it
    record Entry(long visible, byte[] bytes) {}

    private static final int VISIBLE_NANOS = 400;

    private final Stream stream;
    private final ArrayDeque<Entry> entries = new ArrayDeque<>();
    private long lastVisible;
    private int used;

    /// The reader's word: how far it has applied the writer's frames.
    long applied;

    /// The reader sleeps.
    boolean parked;

    /// The writer waits for space.
    boolean waiting;

    Ring(Stream stream) {
        this.stream = stream;
    }

    boolean hasRoom(int bytes) {
        return used + bytes <= stream.link().options().buffer();
    }

    boolean isEmpty() {
        return entries.isEmpty();
    }

    void add(byte[] bytes) {
        Scheduler scheduler = stream.scheduler();
        lastVisible =
                Math.max(lastVisible, scheduler.now() + scheduler.random.nextInt(VISIBLE_NANOS));
        entries.addLast(new Entry(lastVisible, bytes));
        used += bytes.length;
    }

    /// @return the next frame, if it is visible
    byte @Nullable [] peek() {
        Entry first = entries.peekFirst();
        return first == null || first.visible > stream.scheduler().now() ? null : first.bytes;
    }

    /// @return the next frame, as whoever has made a fence sees it
    byte @Nullable [] any() {
        Entry first = entries.peekFirst();
        return first == null ? null : first.bytes;
    }

    void remove() {
        used -= entries.removeFirst().bytes.length;
    }
}

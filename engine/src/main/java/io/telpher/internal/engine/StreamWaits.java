package io.telpher.internal.engine;

import io.telpher.DeviceStream;
import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/// Operations that begin when streams of their callers have got there: see docs/gpu.md, "On a
/// caller's stream" and "After a stream". No event tells of that; whoever takes turns looks.
///
/// They stand in lines, of each of which only the first is looked at: those that wait for the same
/// streams, which get to where the first stands before they get to where others do, and messages
/// of one tag that begin after streams, which must not overtake each other. Where postings have
/// overlapped the others are looked at, too: see docs/gpu.md, "Postings that overlap".
final class StreamWaits {
    /// How many operations this process has kept so far, which numbers them.
    private static final AtomicLong KEPT = new AtomicLong();

    private final ConnectionCore connection;

    /// By what they have in common; guarded by the connection's lock.
    private final Map<Object, Line> lines = new LinkedHashMap<>();

    /// Whether there are any, for those without the lock.
    private volatile boolean filled;

    /// @param hold whether they stand until the operation has ended
    /// @param thread whose streams they are, where each thread has one of that name
    private record OfStreams(List<DeviceStream> streams, boolean hold, @Nullable Thread thread) {
        static OfStreams posted(List<DeviceStream> streams, boolean hold) {
            boolean own = false;
            for (DeviceStream stream : streams) {
                own |= stream.handle() == DeviceStream.PER_THREAD;
            }
            return new OfStreams(streams, hold, own ? Thread.currentThread() : null);
        }
    }

    private record OfTag(Operation.Kind kind, long tag) {}

    /// Operations that begin one after the other.
    static final class Line {
        /// What it is in `lines` by.
        private final Object of;

        private final ArrayDeque<Operation> waiting = new ArrayDeque<>();

        /// Whether one has come whose posting had begun before the one before it came.
        private boolean overlapped;

        Line(Object of) {
            this.of = of;
        }

        void add(Operation op) {
            Operation before = waiting.peekLast();
            overlapped |= before != null && mayOvertake(op, before);
            waiting.addLast(op);
        }

        /// @return what need not wait any more, or null
        @Nullable Operation next() {
            Operation first = waiting.getFirst();
            if (first.isAtGate()) {
                return first;
            }
            if (overlapped) {
                for (Operation op : waiting) {
                    if (mayOvertake(op, first) && op.isAtGate()) {
                        return op;
                    }
                }
            }
            return null;
        }

        private static boolean mayOvertake(Operation op, Operation other) {
            TransferImpl transfer = op.transfer;
            return transfer != null && transfer.since < other.kept;
        }
    }

    StreamWaits(ConnectionCore connection) {
        this.connection = connection;
    }

    /// @return the number of the last operation that was kept: larger ones are kept later
    static long lastKept() {
        return KEPT.get();
    }

    /// @return whether somebody must look
    boolean isFilled() {
        return filled;
    }

    /// Keeps an operation that was posted by this thread, unless it may begin. Under the lock.
    ///
    /// @return whether nothing but this begins it
    boolean keep(Operation op) {
        Object of = lineOf(op);
        if (of == null) {
            return false;
        }
        op.kept = KEPT.incrementAndGet();
        Line line = lines.computeIfAbsent(of, Line::new);
        line.add(op);
        op.line = line;
        filled = true;
        return true;
    }

    private @Nullable Object lineOf(Operation op) {
        TransferImpl transfer = op.transfer;
        DeviceStream stream = transfer == null ? null : transfer.options.stream();
        StreamPoints after = transfer == null ? StreamPoints.NONE : transfer.after;
        boolean message = op.kind == Operation.Kind.SEND || op.kind == Operation.Kind.RECEIVE;
        if (message && (filled || !after.isEmpty())) {
            OfTag ofTag = new OfTag(op.kind, op.tag);
            if (lines.containsKey(ofTag) || (stream == null && !after.isEmpty())) {
                return ofTag;
            }
        }
        if (stream != null) {
            return OfStreams.posted(List.of(stream), true);
        }
        return after.isEmpty() ? null : OfStreams.posted(after.streams(), false);
    }

    /// An operation that waits is to begin, or has ended. Under the lock.
    void remove(Operation op) {
        Line line = op.line;
        if (line != null) {
            op.line = null;
            line.waiting.remove(op);
            if (line.waiting.isEmpty()) {
                lines.remove(line.of);
                filled = !lines.isEmpty();
            }
        }
    }

    /// Begins what need not wait any more. Without lock and tokens.
    ///
    /// @return how many
    int poll() {
        int begun = 0;
        while (filled && beginNext()) {
            begun++;
        }
        return begun;
    }

    private boolean beginNext() {
        boolean viaWindow;
        LaneState claimed;
        Operation op;
        int generation;
        connection.lock.lock();
        try {
            op = next();
            if (op == null) {
                return false;
            }
            remove(op);
            op.beginsNow();
            generation = op.generation;
            viaWindow = connection.posting.begin(op);
            op.copying = false; // until it is taken up
            claimed = connection.pump.claim(null);
        } finally {
            connection.lock.unlock();
        }
        connection.posting.goOn(op, false, claimed);
        if (viaWindow) {
            connection.oneSided.takeUp(op, generation);
        }
        return true;
    }

    private @Nullable Operation next() {
        for (Line line : lines.values()) {
            Operation next = line.next();
            if (next != null) {
                return next;
            }
        }
        return null;
    }
}

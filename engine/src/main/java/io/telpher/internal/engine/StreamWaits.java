package io.telpher.internal.engine;

import io.telpher.DeviceStream;
import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Operations that begin when streams of their callers have got there: see docs/gpu.md, "On a
/// caller's stream" and "After a stream". No event tells of that; whoever takes turns looks.
///
/// They stand in lines, of each of which only the first is looked at: those that wait for the same
/// streams, which get to where the first stands before they get to where others do, and messages
/// of one tag that begin after streams, which must not overtake each other.
final class StreamWaits {
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
    ///
    /// @param of what it is in `lines` by
    record Line(Object of, ArrayDeque<Operation> waiting) {}

    StreamWaits(ConnectionCore connection) {
        this.connection = connection;
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
        Line line = lines.computeIfAbsent(of, key -> new Line(key, new ArrayDeque<>()));
        line.waiting.addLast(op);
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
            Operation first = line.waiting.getFirst();
            if (first.isAtGate()) {
                return first;
            }
        }
        return null;
    }
}

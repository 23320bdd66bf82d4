package io.telpher.internal.engine;

import io.telpher.DeviceStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Operations that begin when streams of their callers have got there: see docs/gpu.md, "On a
/// caller's stream". No event tells of that; whoever takes turns looks.
///
/// A stream gets to a gate only when the one before it was opened, so only the first operation of
/// each stream is looked at.
final class StreamWaits {
    private final ConnectionCore connection;

    /// Those streams for which operations wait; guarded by the connection's lock.
    private final List<Line> lines = new ArrayList<>();

    /// Whether there are any, for those without the lock.
    private volatile boolean filled;

    /// @param thread whose stream it is, where each thread has one of that name
    private record Line(
            DeviceStream stream, @Nullable Thread thread, ArrayDeque<Operation> waiting) {
        boolean isOf(DeviceStream other, @Nullable Thread poster) {
            return stream.equals(other) && thread == poster;
        }
    }

    StreamWaits(ConnectionCore connection) {
        this.connection = connection;
    }

    /// @return whether somebody must look
    boolean isFilled() {
        return filled;
    }

    /// An operation was posted by this thread, and nothing but this begins it. Under the lock.
    void add(Operation op, DeviceStream stream) {
        Thread poster = stream.handle() == DeviceStream.PER_THREAD ? Thread.currentThread() : null;
        op.waits = true;
        filled = true;
        for (Line line : lines) {
            if (line.isOf(stream, poster)) {
                line.waiting.addLast(op);
                return;
            }
        }
        Line added = new Line(stream, poster, new ArrayDeque<>());
        added.waiting.addLast(op);
        lines.add(added);
    }

    /// An operation that waits is to begin, or has ended. Under the lock.
    void remove(Operation op) {
        op.waits = false;
        for (int i = 0; i < lines.size(); i++) {
            ArrayDeque<Operation> waiting = lines.get(i).waiting;
            if (waiting.remove(op)) {
                if (waiting.isEmpty()) {
                    lines.remove(i);
                }
                break;
            }
        }
        filled = !lines.isEmpty();
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
        for (int i = 0; i < lines.size(); i++) {
            Operation first = lines.get(i).waiting.getFirst();
            if (first.isAtGate()) {
                return first;
            }
        }
        return null;
    }
}

package io.telpher.internal.engine;

import io.telpher.internal.device.Gpu;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Operations that begin when streams of their callers have got there: see docs/gpu.md, "On a
/// caller's stream". No event tells of that; whoever takes turns looks.
final class StreamWaits {
    private final ConnectionCore connection;

    /// In the order of their posting; guarded by the connection's lock.
    private final List<Operation> waiting = new ArrayList<>();

    /// Whether there are any, for those without the lock.
    private volatile boolean filled;

    StreamWaits(ConnectionCore connection) {
        this.connection = connection;
    }

    /// @return whether somebody must look
    boolean isFilled() {
        return filled;
    }

    /// An operation was posted, and nothing but this begins it. Under the lock.
    void add(Operation op) {
        waiting.add(op);
        filled = true;
    }

    /// An operation has ended: it begins no more. Under the lock.
    void remove(Operation op) {
        waiting.remove(op);
        filled = !waiting.isEmpty();
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
        connection.lock.lock();
        try {
            op = next();
            if (op == null) {
                return false;
            }
            remove(op);
            if (!op.isPending()) {
                return true; // it is ending
            }
            viaWindow = connection.posting.begin(op);
            claimed = connection.pump.claim(null);
        } finally {
            connection.lock.unlock();
        }
        connection.posting.goOn(op, viaWindow, claimed);
        return true;
    }

    /// One that may begin, and before which none of the same stream may: a stream gets to its gates
    /// in order, but this side may have looked at one just before and at a later one just after.
    private @Nullable Operation next() {
        int found = waiting.size();
        for (int i = 0; i < found; i++) {
            Gpu.Gate gate = waiting.get(i).gate();
            if (gate == null || gate.isReached()) {
                found = i;
                i = -1; // those before it, once more
            }
        }
        return found == waiting.size() ? null : waiting.get(found);
    }
}

package io.telpher.internal.engine;

import org.jspecify.annotations.Nullable;

/// Operations that wait for a lane, in order; those of high priority first. Guarded by the
/// connection's lock. Linked through the operations, so that nothing is allocated; an operation is
/// in one queue at most.
final class OperationQueue {
    private final OperationTable table;
    private @Nullable Operation first;
    private @Nullable Operation last;
    private @Nullable Operation lastHigh;

    /// Read without the lock as a hint.
    private final Hint filled = new Hint();

    OperationQueue(OperationTable table) {
        this.table = table;
    }

    /// Puts an operation behind its equals.
    void add(Operation op) {
        if (!op.queued) {
            insert(op, op.high ? lastHigh : last);
            if (op.high) {
                lastHigh = op;
            }
        }
    }

    /// Puts an operation before its equals.
    void addFirst(Operation op) {
        if (!op.queued) {
            insert(op, op.high ? null : lastHigh);
            if (op.high && lastHigh == null) {
                lastHigh = op;
            }
        }
    }

    private void insert(Operation op, @Nullable Operation after) {
        op.queued = true;
        if (after == null) {
            op.next = first;
            first = op;
        } else {
            op.next = after.next;
            after.next = op;
        }
        if (op.next == null) {
            last = op;
        }
        filled.set();
    }

    /// @return the first operation that is still pending, or null; drops the others
    @Nullable Operation peek() {
        Operation op = first;
        while (op != null && !op.isPending()) {
            removeFirst();
            op = first;
        }
        return op;
    }

    /// Takes the first one out.
    void removeFirst() {
        Operation op = first;
        if (op == null) {
            return;
        }
        first = op.next;
        if (op == lastHigh) {
            lastHigh = null;
        }
        if (op == last) {
            last = null;
        }
        op.next = null;
        op.queued = false;
        table.unqueued(op);
        if (first == null) {
            filled.clear();
        }
    }

    /// Takes one out that may stand anywhere: slow, for rare cases.
    void remove(Operation op) {
        Operation before = null;
        Operation at = first;
        while (at != null && at != op) {
            before = at;
            at = at.next;
        }
        if (at == null) {
            return;
        }
        if (before == null) {
            removeFirst();
            return;
        }
        before.next = op.next;
        if (op == lastHigh) {
            lastHigh = before;
        }
        if (op == last) {
            last = before;
        }
        op.next = null;
        op.queued = false;
        table.unqueued(op);
    }

    /// Lets the first one wait behind its equals.
    void rotate() {
        Operation op = first;
        if (op != null && op.next != null) {
            removeFirst();
            add(op);
        }
    }

    /// A hint: may be out of date by a moment.
    boolean isFilled() {
        return filled.isSet();
    }
}

package io.telpher.internal.engine;

import io.telpher.spi.Clock;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// The operation slots of one connection, guarded by its lock. Slots are made when they are needed
/// first and used again; a token is slot and generation, so that a spent token is noticed.
final class OperationTable {
    /// The most operations of one connection at a time.
    static final int LIMIT = 65_536;

    private final Clock clock;
    private @Nullable Operation[] slots = new Operation[8];
    private int[] free = new int[8];
    int freeCount;
    private int used;

    OperationTable(Clock clock) {
        this.clock = clock;
    }

    /// @return a free operation, or null when too much is in flight
    @Nullable Operation take() {
        int index;
        if (freeCount > 0) {
            index = free[--freeCount];
        } else {
            if (used == LIMIT) {
                return null;
            }
            index = used++;
            if (index == slots.length) {
                slots = Arrays.copyOf(slots, index * 2);
                free = Arrays.copyOf(free, index * 2);
            }
            slots[index] = new Operation(index, clock);
        }
        Operation op = slots[index];
        if (op == null) {
            throw new IllegalStateException("slot " + index + " is empty");
        }
        return op;
    }

    /// Gives a slot back; its token is spent at once. A slot is used again when all frames that
    /// were cut from its operation are settled, since a lane that dies must know what has become
    /// of them, and when it has come out of the queue in which it may still stand: whoever is
    /// behind it hangs on its link.
    void release(Operation op) {
        if (op.unconfirmed > 0) {
            op.setState(Operation.FREE); // whoever settles the last frame gives it back again
            return;
        }
        TagChannel channel = op.channel;
        op.channel = null;
        op.clear();
        // From here on frames of the old use are strangers. 31 bits and never 0: a token is
        // positive.
        op.generation = op.generation == Integer.MAX_VALUE ? 1 : op.generation + 1;
        op.setState(Operation.FREE);
        if (op.queued) {
            op.released = true;
        } else {
            free[freeCount++] = op.index;
        }
        if (channel != null) {
            channel.leave();
        }
    }

    /// Called when an operation leaves a queue.
    void unqueued(Operation op) {
        if (op.released) {
            op.released = false;
            free[freeCount++] = op.index;
        }
    }

    /// @return the operation of a token, or null when the token is spent
    @Nullable Operation find(long token) {
        int index = (int) token;
        if (token <= 0 || index < 0 || index >= used) {
            return null;
        }
        Operation op = slots[index];
        return op != null && op.generation == (int) (token >>> 32) && op.state() != Operation.FREE
                ? op
                : null;
    }

    /// How many slots were ever used: the bound for [#at(int)].
    int size() {
        return used;
    }

    /// @return the operation in a slot, whatever its state
    Operation at(int index) {
        Operation op = slots[index];
        if (op == null) {
            throw new IllegalStateException("slot " + index + " is empty");
        }
        return op;
    }
}

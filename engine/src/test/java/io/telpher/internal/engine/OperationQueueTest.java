package io.telpher.internal.engine;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.spi.Clock;
import org.junit.jupiter.api.Test;

class OperationQueueTest {
    private static Operation pending(int index, boolean high) {
        Operation op = new Operation(index, Clock.SYSTEM);
        op.high = high;
        op.setState(Operation.PENDING);
        return op;
    }

    @Test
    void highGoesFirstAndEqualsKeepTheirOrder() {
        OperationQueue queue = new OperationQueue(new OperationTable(Clock.SYSTEM));
        Operation a = pending(0, false);
        Operation b = pending(1, true);
        Operation c = pending(2, false);
        Operation d = pending(3, true);
        queue.add(a);
        queue.add(b);
        queue.add(c);
        queue.add(d);
        queue.add(d); // twice changes nothing
        for (Operation expected : new Operation[] {b, d, a, c}) {
            assertThat(queue.peek()).isSameAs(expected);
            queue.removeFirst();
        }
        assertThat(queue.peek()).isNull();
        assertThat(queue.isFilled()).isFalse();
        queue.add(c);
        assertThat(queue.peek()).isSameAs(c);
    }

    @Test
    void whatGoesOutAgainComesBeforeItsEquals() {
        OperationQueue queue = new OperationQueue(new OperationTable(Clock.SYSTEM));
        Operation a = pending(0, false);
        Operation b = pending(1, true);
        Operation c = pending(2, false);
        Operation d = pending(3, true);
        queue.addFirst(a);
        queue.addFirst(c);
        queue.add(b);
        queue.addFirst(d);
        for (Operation expected : new Operation[] {d, b, c, a}) {
            assertThat(queue.peek()).isSameAs(expected);
            queue.removeFirst();
        }
        assertThat(queue.isFilled()).isFalse();
        queue.addFirst(b);
        queue.add(a);
        queue.addFirst(c);
        for (Operation expected : new Operation[] {b, c, a}) {
            assertThat(queue.peek()).isSameAs(expected);
            queue.removeFirst();
        }
    }

    @Test
    void rotatingGivesWayToEquals() {
        OperationQueue queue = new OperationQueue(new OperationTable(Clock.SYSTEM));
        Operation a = pending(0, false);
        Operation b = pending(1, false);
        queue.add(a);
        queue.rotate();
        assertThat(queue.peek()).isSameAs(a);
        queue.add(b);
        queue.rotate();
        assertThat(queue.peek()).isSameAs(b);
    }

    @Test
    void whatIsNotPendingAnyMoreIsDropped() {
        OperationQueue queue = new OperationQueue(new OperationTable(Clock.SYSTEM));
        Operation a = pending(0, true);
        Operation b = pending(1, false);
        queue.add(a);
        queue.add(b);
        a.setState(Operation.ENDING);
        assertThat(queue.peek()).isSameAs(b);
        Operation c = pending(2, true);
        queue.add(c);
        assertThat(queue.peek()).isSameAs(c);
    }
}

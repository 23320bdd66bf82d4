package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.WorkQueue;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// One queue and its work, on a queue pair of the double.
@Timeout(60)
class NicQueueTest extends OneNicQueue {
    @Test
    void workEndsOnceWhenAllOfItHasCompleted() {
        Source source = new Source(() -> {});
        source.post();
        pollUntilEnded(source);
        assertThat(source.ends).containsExactly(WorkQueue.End.DONE);
        assertThat(
                        region.segment()
                                .asSlice(0, BYTES)
                                .mismatch(region.segment().asSlice(BYTES, BYTES)))
                .isEqualTo(-1);
        assertThat(failures).isEmpty();
    }

    /// What was cut before comes to its end, and others go on.
    @Test
    void workWhosePiecesCannotBeHadFails() {
        Source broken =
                new Source(
                        () -> {
                            throw new IndexOutOfBoundsException("piece");
                        });
        Source good = new Source(() -> {});
        broken.post();
        good.post();
        pollUntilEnded(broken);
        pollUntilEnded(good);
        assertThat(broken.ends).containsExactly(WorkQueue.End.FAILED);
        assertThat(broken.why).contains("IndexOutOfBoundsException: piece");
        assertThat(good.ends).containsExactly(WorkQueue.End.DONE);
        assertThat(failures).isEmpty();
    }

    /// The send queue has room for the first of it when the region is closed at the peer, whose key
    /// another region may have by the time that there is room for the rest.
    @Test
    void aPieceIsCutNoFurtherWhenItsRegionIsClosed() {
        VERBS.silence("fake0", true);
        long before = VERBS.requests();
        Source first = new Source(() -> {});
        Source second = new Source(() -> {}, BYTES);
        first.post();
        second.post();
        long posted = VERBS.requests() - before;
        assertThat(posted).isGreaterThan(BYTES).isLessThan(2 * BYTES);
        second.window.end();
        VERBS.silence("fake0", false);
        pollUntilEnded(second);
        assertThat(first.ends).containsExactly(WorkQueue.End.DONE);
        assertThat(second.ends).containsExactly(WorkQueue.End.STALE);
        assertThat(VERBS.requests() - before).isEqualTo(posted);
        assertThat(failures).isEmpty();
    }

    /// One of those that are told throws.
    @Test
    void allWorkHearsOfTheEndOfItsLink() {
        VERBS.silence("fake0", true);
        Source first = new Source(() -> {});
        Source second = new Source(() -> {});
        NicWork work = first.post();
        second.post();
        queue.close();
        work.stop();
        assertThat(first.ends).containsExactly(WorkQueue.End.LOST);
        assertThat(second.ends).containsExactly(WorkQueue.End.LOST);
    }

    /// Somebody wants to stop work, and has to wait for its queue; meanwhile it ends, and is posted
    /// again, to the other queue.
    @Test
    void whoeverComesTooLateToStopWorkLeavesOtherQueuesAlone() throws InterruptedException {
        Source first = new Source(() -> {});
        Source second = new Source(() -> {});
        Thread late;
        NicQueue small = queue;
        NicWork again = new NicWork(queue, bulk, memory, first);
        synchronized (small) {
            again.post(false, BYTES);
            late = Thread.ofPlatform().daemon().start(again::stop);
            while (late.getState() != Thread.State.BLOCKED) {
                Thread.onSpinWait();
            }
            pollUntilEnded(first);
            assertThat(first.ends).containsExactly(WorkQueue.End.DONE);
            first.postLarge(again);
            second.postLarge(new NicWork(queue, bulk, memory, second));
        }
        late.join();
        bulk.close();
        assertThat(first.ends).containsExactly(WorkQueue.End.LOST);
        assertThat(second.ends).containsExactly(WorkQueue.End.LOST);
    }

    /// The library would touch what it has unmapped.
    @Test
    void aQueuePairThatWasClosedRefusesEveryCall() {
        QueuePair closed = pair(0);
        int number = closed.number();
        Offer peer = offer(far);
        assertThat(closed.close()).isTrue();
        assertThat(closed.number()).isEqualTo(number);
        assertThat(closed.descriptor()).isEqualTo(-Errno.EBADF);
        assertThatThrownBy(() -> closed.connect(peer, 1))
                .isInstanceOf(TelpherException.NativeFailure.class)
                .hasMessageContaining("EBADF");
        assertThat(closed.postSend(0)).isEqualTo(Errno.EBADF);
        assertThat(closed.postReceive(0)).isEqualTo(Errno.EBADF);
        assertThat(closed.poll(1, 0)).isEqualTo(-Errno.EBADF);
        closed.takeEvents();
        assertThat(closed.requestNotification()).isFalse();
        assertThat(closed.failure()).contains("ibv_get_cq_event failed: EBADF");
    }

    /// What was posted before goes on, so the work has not failed: it ends with its link.
    @Test
    void anErrorWhileWorkIsCutEndsItWithItsLink() {
        VERBS.silence("fake0", true);
        Source source =
                new Source(
                        () -> {
                            throw new InternalError("of the test");
                        });
        source.post();
        assertThat(failures).singleElement().asString().contains("InternalError: of the test");
        assertThat(source.ends).isEmpty();
        queue.close();
        assertThat(source.ends).containsExactly(WorkQueue.End.LOST);
    }

    /// Of several that were cut off each is told that nothing arrives any more, though they throw,
    /// and the queue goes on.
    @Test
    void allWorkThatWasCutOffHearsOfItsFence() {
        VERBS.silence("fake0", true);
        Source first = new Source(() -> {});
        Source second = new Source(() -> {});
        List<NicWork> both = List.of(first.post(), second.post());
        both.forEach(NicWork::stop);
        both.forEach(NicWork::abort);
        QueuePair broken = queue.takeBroken();
        assertThat(broken).isNotNull();
        assertThat(broken.close()).isTrue();
        queue.ended();
        assertThat(first.ends).containsExactly(WorkQueue.End.ABORTED);
        assertThat(second.ends).containsExactly(WorkQueue.End.ABORTED);
        assertThat(far.close()).isTrue();
        VERBS.silence("fake0", false);
        connect();
        assertThat(first.fences).isEqualTo(1);
        assertThat(second.fences).isEqualTo(1);
        Source good = new Source(() -> {});
        good.post();
        pollUntilEnded(good);
        assertThat(good.ends).containsExactly(WorkQueue.End.DONE);
    }
}

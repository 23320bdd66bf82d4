package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.spi.WorkQueue;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

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

    /// The first two have a read of their own; the third one waits for one that is posted when
    /// those have come back.
    @Test
    void aWriteEndsWhenAReadBehindItHasComeBack() {
        connectWithReads();
        long before = VERBS.reads();
        List<Source> sources = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            sources.add(new Source(() -> {}));
            NicWork unused = sources.getLast().post(10);
        }
        assertThat(VERBS.reads() - before).isEqualTo(2);
        assertThat(queue.poll()).isTrue();
        assertThat(sources.get(0).ends).containsExactly(WorkQueue.End.DONE);
        assertThat(sources.get(1).ends).containsExactly(WorkQueue.End.DONE);
        assertThat(sources.get(2).ends).isEmpty();
        assertThat(VERBS.reads() - before).isEqualTo(3);
        pollUntilEnded(sources.get(2));
        assertThat(sources.get(2).ends).containsExactly(WorkQueue.End.DONE);
    }

    /// The read that the third one waits for is due when all room could go to what waits.
    @Test
    void aReadThatIsDueGoesBeforeWorkThatWaits() {
        connectWithReads();
        VERBS.silence("fake0", true);
        List<Source> writes = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            writes.add(new Source(() -> {}));
            NicWork unused = writes.getLast().post(10);
        }
        List<Source> others = new ArrayList<>();
        for (int i = 0; i < 8; i++) { // as many requests each as are under way at most
            others.add(new Source(() -> {}));
            new NicWork(queue, queue, memory, others.getLast()).post(true, BYTES);
        }
        VERBS.silence("fake0", false);
        assertThat(queue.poll()).isTrue();
        assertThat(writes.get(2).ends).isEmpty();
        assertThat(queue.poll()).isTrue();
        assertThat(writes.get(2).ends).containsExactly(WorkQueue.End.DONE);
        assertThat(others.getLast().ends).isEmpty();
        others.forEach(this::pollUntilEnded);
        assertThat(others).allMatch(each -> each.ends.equals(List.of(WorkQueue.End.DONE)));
    }

    /// Requests that are posted again would name the first.
    @Test
    void aPeerNamesTheSameFlushWordInEveryAnswer() {
        owner.checkFlush(accepted(0, 0x1000, 7));
        owner.checkFlush(accepted(1, 0x1000, 7));
        for (ControlMessage.Accepted other : List.of(accepted(0, 0, 0), accepted(1, 0x1000, 8))) {
            assertThatThrownBy(() -> owner.checkFlush(other))
                    .isInstanceOf(TelpherException.ProtocolViolation.class)
                    .hasMessageContaining("and named 0x1000 (key 0x7) before");
        }
    }

    private static ControlMessage.Accepted accepted(int index, long address, int key) {
        return new ControlMessage.Accepted(
                index, 5, ControlMessage.Status.GOOD, 5, 5, 1, address, key, "");
    }

    /// It had completed, and no read behind it had come back. If the link is lost, so is it; if it
    /// is cut off, it is that; over another queue pair it is done, since the peer has ended the one
    /// that it came by.
    @ParameterizedTest
    @EnumSource(
            value = WorkQueue.End.class,
            names = {"DONE", "ABORTED", "LOST"})
    void aWriteThatWaitsForAReadEndsWithItsQueuePair(WorkQueue.End end) {
        connectWithReads();
        List<Source> sources = new ArrayList<>();
        List<NicWork> works = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            sources.add(new Source(() -> {}));
            works.add(sources.getLast().post(10));
        }
        VERBS.silence("fake0", true);
        assertThat(queue.poll()).isTrue();
        Source waiting = sources.get(2);
        assertThat(waiting.ends).isEmpty();
        if (end == WorkQueue.End.LOST) {
            queue.close();
            assertThat(waiting.ends).containsExactly(end);
            return;
        }
        Source other = new Source(() -> {});
        NicWork cutOff = end == WorkQueue.End.ABORTED ? works.get(2) : other.post(10);
        cutOff.stop();
        cutOff.abort();
        QueuePair broken = queue.takeBroken();
        assertThat(broken).isNotNull();
        assertThat(broken.close()).isTrue();
        queue.ended();
        assertThat(waiting.ends).hasSize(end == WorkQueue.End.ABORTED ? 1 : 0);
        assertThat(far.close()).isTrue();
        VERBS.silence("fake0", false);
        FlushWord word = memory.flushWord();
        connect(word.read(word.address(), word.key()));
        pollUntilEnded(waiting);
        assertThat(waiting.ends).containsExactly(end);
        Source good = new Source(() -> {});
        NicWork unused = good.post(10);
        pollUntilEnded(good);
        assertThat(good.ends).containsExactly(WorkQueue.End.DONE);
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

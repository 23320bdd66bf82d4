package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.spi.WorkQueue;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Writes of one queue that end when a read behind them has come back, on a queue pair of the
/// double.
@Timeout(60)
class NicFlushTest extends OneNicQueue {
    /// Ends the queue's queue pair, as after an error, and gives it one whose writes reads follow.
    private void connectWithReads() {
        breakOff();
        FlushWord word = memory.flushWord();
        connect(word.read(word.address(), word.key()));
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
}

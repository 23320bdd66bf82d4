package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Access;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.VerbsQueuePairs;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import io.telpher.spi.Lane;
import io.telpher.spi.Window;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// How one-sided transfers begin, on the double: what the peer is asked, and what happens until it
/// answers.
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsOpeningTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final int BYTES = 4096;
    private static final FakeVerbs VERBS = FakeVerbs.HERE;

    private static Transfer write(Couple couple) {
        MemoryRegion from = couple.here.allocate(BYTES, Access.READ_WRITE);
        MemoryRegion into = couple.there.allocate(BYTES, Access.READ_WRITE);
        return couple.connection.write(from.slice(0, BYTES), into.remote());
    }

    private static String pathOf(Transfer transfer) {
        assertThat(transfer.await(LIMIT)).as("ends in time").isTrue();
        assertThat(transfer.state()).as("%s", transfer.error()).isEqualTo(TransferState.DONE);
        return transfer.path();
    }

    /// More than there are control threads, all before the first queue pair is there.
    @Test
    void firstTransfersDoNotWaitForEachOther() throws InterruptedException {
        CountDownLatch posted = new CountDownLatch(1);
        Provider slow =
                Altered.provider(
                        VERBS,
                        "createQp",
                        (usual, arguments) -> {
                            boolean isTarget =
                                    ((VerbsQueuePairs.Capacity) arguments[2]).sends() == 1;
                            if (isTarget) {
                                assertThat(posted.await(LIMIT.toSeconds(), TimeUnit.SECONDS))
                                        .isTrue();
                            }
                            return usual.answer();
                        });
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, slow)) {
            List<Transfer> writes = new ArrayList<>();
            for (int i = 0; i < 400; i++) {
                writes.add(write(couple));
            }
            Thread.sleep(200);
            posted.countDown();
            assertThat(writes).allSatisfy(each -> assertThat(pathOf(each)).isEqualTo("verbs"));
        }
    }

    /// Registers nothing while it is to stall, until the end of that.
    private static Provider stalling(AtomicBoolean stalls, CountDownLatch end, long seconds) {
        return Altered.provider(
                VERBS,
                "register",
                (usual, arguments) -> {
                    if (stalls.get()) {
                        assertThat(end.await(seconds, TimeUnit.SECONDS)).isTrue();
                    }
                    return usual.answer();
                });
    }

    /// The far side is registering a region, for as long as the test likes.
    @Test
    void aPeerThatDoesNotAnswerIsNotWaitedForLong() throws InterruptedException {
        VERBS.removeDevice("fake1");
        CountDownLatch end = new CountDownLatch(1);
        AtomicBoolean stalls = new AtomicBoolean();
        Provider stalling = stalling(stalls, end, LIMIT.toSeconds());
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, stalling)) {
            assertThat(pathOf(write(couple))).isEqualTo("verbs");
            MemoryRegion from = couple.here.allocate(BYTES, Access.READ_WRITE);
            MemoryRegion into = couple.there.allocate(BYTES, Access.READ_WRITE);
            stalls.set(true);
            assertThat(pathOf(couple.connection.write(from.slice(0, BYTES), into.remote())))
                    .isEqualTo("verbs-ring");
            assertThat(couple.connection.explain())
                    .contains("the peer did not say in time where a region is");
            long start = System.nanoTime();
            for (int i = 0; i < 12; i++) {
                assertThat(pathOf(couple.connection.write(from.slice(0, BYTES), into.remote())))
                        .isEqualTo("verbs-ring");
            }
            assertThat(System.nanoTime() - start)
                    .as("those that follow do not wait again")
                    .isLessThan(Duration.ofSeconds(12).toNanos());
            end.countDown();
            long late = System.nanoTime() + LIMIT.toNanos();
            while (!pathOf(couple.connection.write(from.slice(0, BYTES), into.remote()))
                    .equals("verbs")) {
                assertThat(System.nanoTime()).as("the answer is not used").isLessThan(late);
                Thread.sleep(1);
            }
        }
    }

    /// Time is left for the frames. A busy machine may need more for them now and then.
    @Test
    void aShortDeadlineIsHalfWaitedFor() {
        VERBS.removeDevice("fake1");
        CountDownLatch end = new CountDownLatch(1);
        AtomicBoolean stalls = new AtomicBoolean();
        Provider stalling = stalling(stalls, end, 60);
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, stalling)) {
            assertThat(pathOf(write(couple))).isEqualTo("verbs");
            stalls.set(true);
            TransferOptions soon = TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(1500));
            MemoryRegion from = couple.here.allocate(BYTES, Access.READ_WRITE);
            TransferState state = TransferState.IDLE;
            for (int i = 0; i < 10 && state != TransferState.DONE; i++) {
                MemoryRegion into = couple.there.allocate(BYTES, Access.READ_WRITE);
                Transfer write = couple.connection.write(from.slice(0, BYTES), into.remote(), soon);
                assertThat(write.await(LIMIT)).isTrue();
                state = write.state();
            }
            assertThat(state).isEqualTo(TransferState.DONE);
            end.countDown(); // closing waits for who registers
        }
    }

    /// The far side makes a queue pair, for as long as the test likes, and does all else.
    @Test
    void anOfferThatIsNotAnsweredCostsTheLink() {
        CountDownLatch end = new CountDownLatch(1);
        AtomicBoolean stalls = new AtomicBoolean();
        Provider stalling =
                Altered.provider(
                        VERBS,
                        "createQp",
                        (usual, arguments) -> {
                            if (stalls.get()) {
                                assertThat(end.await(LIMIT.toSeconds(), TimeUnit.SECONDS)).isTrue();
                            }
                            return usual.answer();
                        });
        EndpointOptions options =
                VerbsFaultsTest.OPTIONS
                        .withPaths(VerbsFaultsTest.ALL)
                        .withLiveness(Duration.ofSeconds(2));
        try (Couple couple = new Couple(options, VERBS, stalling)) {
            assertThat(pathOf(write(couple))).isEqualTo("verbs");
            stalls.set(true);
            VERBS.failNextRequest(
                    SendRequest.IBV_WR_RDMA_WRITE, WorkCompletion.IBV_WC_REM_ACCESS_ERR);
            Transfer waiting = write(couple);
            MemorySegment word = MemorySegment.ofArray(new byte[8]);
            long late = System.nanoTime() + LIMIT.toNanos();
            while (waiting.state() == TransferState.PENDING) {
                assertThat(System.nanoTime()).as("nobody gives up").isLessThan(late);
                assertThat(couple.connection.notifyPeer(word).await(LIMIT)).isTrue();
                assertThat(couple.accepted.pollNotification()).isNotNull();
            }
            assertThat(pathOf(waiting)).isEqualTo("verbs-ring");
            assertThat(couple.connection.explain())
                    .contains("the peer runs, and did not answer the offer of a queue pair");
            end.countDown();
        } finally {
            end.countDown();
        }
    }

    /// Devices keep what is written as long as they may, and the word of it may come by another.
    @ParameterizedTest
    @ValueSource(ints = {8, BYTES, 1 << 20})
    void whatIsDoneIsInMemory(int bytes) {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            MemoryRegion from = couple.here.allocate(bytes, Access.READ_WRITE);
            MemoryRegion into = couple.there.allocate(bytes, Access.WRITE);
            assertThat(pathOf(couple.connection.write(from.slice(0, bytes), into.remote())))
                    .isEqualTo("verbs");
            VERBS.beLazy();
            from.segment().fill((byte) 7);
            assertThat(pathOf(couple.connection.write(from.slice(0, bytes), into.remote())))
                    .isEqualTo("verbs");
            assertThat(into.segment().mismatch(from.segment())).isEqualTo(-1);
        }
    }

    private static Transfer write(
            Couple couple, MemoryRegion from, MemoryRegion into, long at, long bytes) {
        return couple.connection.write(from.slice(at, bytes), into.remote().slice(at, bytes));
    }

    /// As many are posted again as have ended, so that the number in flight stays.
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 16, 64})
    void aFewReadsFollowManyWrites(int depth) {
        int count = 640;
        int bytes = 4000;
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            MemoryRegion from = couple.here.allocate((long) bytes * depth, Access.READ_WRITE);
            MemoryRegion into = couple.there.allocate((long) bytes * depth, Access.WRITE);
            assertThat(pathOf(write(couple, from, into, 0, bytes))).isEqualTo("verbs");
            long before = VERBS.reads();
            Deque<Transfer> inFlight = new ArrayDeque<>();
            for (int i = 0; i < count + depth; i++) {
                if (i >= depth) {
                    assertThat(pathOf(inFlight.removeFirst())).isEqualTo("verbs");
                }
                if (i < count) {
                    inFlight.addLast(write(couple, from, into, (long) bytes * (i % depth), bytes));
                }
            }
            double each = (VERBS.reads() - before) / (double) count;
            assertThat(each)
                    .isPositive()
                    .isLessThanOrEqualTo(depth <= 2 ? 1 : depth < 64 ? 0.5 : 0.25);
        }
    }

    /// Whatever happens where a question is answered, there is an answer.
    @Test
    void aBugOfThePeerIsItsAnswer() {
        VERBS.removeDevice("fake1");
        AtomicReference<RuntimeException> planted = new AtomicReference<>();
        Provider failing =
                Altered.provider(
                        VERBS,
                        "register",
                        (usual, arguments) -> {
                            RuntimeException bug = planted.getAndSet(null);
                            if (bug != null) {
                                throw bug;
                            }
                            return usual.answer();
                        });
        try (Couple couple = new Couple(VerbsFaultsTest.ALL, failing)) {
            assertThat(pathOf(write(couple))).isEqualTo("verbs");
            planted.set(new IllegalStateException("planted"));
            assertThat(pathOf(write(couple))).isEqualTo("verbs-ring");
            assertThat(couple.connection.explain())
                    .contains("internal failure: java.lang.IllegalStateException: planted");
            assertThat(pathOf(write(couple))).isEqualTo("verbs");
        }
    }

    /// A stream that takes everything, and brings as many frames as it is asked for.
    private static ControlStream flooded(List<Long> asked) {
        return new ControlStream(
                (Lane)
                        Proxy.newProxyInstance(
                                VerbsOpeningTest.class.getClassLoader(),
                                new Class<?>[] {Lane.class},
                                (proxy, method, arguments) ->
                                        switch (method.getName()) {
                                            case "send" -> {
                                                byte[] frame =
                                                        ((MemorySegment) arguments[0])
                                                                .toArray(JAVA_BYTE);
                                                if (ControlMessage.decode(frame)
                                                        instanceof ControlMessage.Resolve m) {
                                                    asked.add(m.id());
                                                }
                                                yield Lane.OK;
                                            }
                                            case "flush" -> Lane.OK;
                                            case "poll" -> arguments[1];
                                            case "park" -> true;
                                            default -> throw new AssertionError(method);
                                        }));
    }

    @Test
    void aFloodOfMessagesIsTakenInByAndBy() {
        ControlStream stream = flooded(new ArrayList<>());
        assertThat(stream.look()).isTrue();
        assertThat(stream.isBehind()).isTrue();
        assertThat(stream.park()).isFalse();
    }

    @Test
    void aFewQuestionsAreUnderWayAtATime() {
        List<Long> asked = new ArrayList<>();
        RegionQuestions questions =
                new RegionQuestions(
                        flooded(asked),
                        (name, answer) -> {
                            throw new TelpherException.StaleRegion("region " + (name >> 32));
                        });
        List<CompletableFuture<Window>> ends = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            ends.add(questions.ask(new RemoteMemory(1, i, 1, 7, 0, 8, Access.READ_WRITE)));
        }
        assertThat(asked).hasSize(RegionQuestions.MOST);
        for (int i = 0; i < 50; i++) {
            assertThat(questions.answered(stale(asked.get(i)))).isTrue();
        }
        assertThat(asked).hasSize(100);
        assertThat(questions.answered(stale(asked.get(0)))).as("twice").isFalse();
        assertThat(ends.subList(0, 50))
                .allSatisfy(
                        end ->
                                assertThat(end.exceptionNow())
                                        .isInstanceOf(TelpherException.StaleRegion.class));
        assertThat(ends.get(50)).isNotDone();
        questions.close(new TelpherException.Closed("over"));
        assertThat(ends.subList(50, 100))
                .allSatisfy(end -> assertThat(end.exceptionNow()).hasMessage("over"));
    }

    private static ControlMessage.Resolved stale(long id) {
        return ControlMessage.Resolved.refusal(id, ControlMessage.Status.STALE, "");
    }
}

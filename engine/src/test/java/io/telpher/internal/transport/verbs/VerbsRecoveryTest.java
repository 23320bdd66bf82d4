package io.telpher.internal.transport.verbs;

import static io.telpher.internal.transport.verbs.VerbsWindowsTest.assertAllLanesLive;
import static io.telpher.internal.transport.verbs.VerbsWindowsTest.assertByNic;
import static io.telpher.internal.transport.verbs.VerbsWindowsTest.assertDone;
import static io.telpher.internal.transport.verbs.VerbsWindowsTest.ended;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Access;
import io.telpher.MemoryRegion;
import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import io.telpher.internal.transport.verbs.VerbsWindowsTest.Regions;
import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Queue pairs of one-sided transfers that break, and are made anew: what becomes of the transfers
/// meanwhile. On the double.
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsRecoveryTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final int BYTES = 4 << 20;
    private static final FakeVerbs VERBS = FakeVerbs.HERE;

    /// Holds up connecting, from when it is closed.
    private static final class Gate {
        private final AtomicBoolean closed = new AtomicBoolean();
        private final CountDownLatch reached = new CountDownLatch(1);
        private final CountDownLatch open = new CountDownLatch(1);

        Provider before(String method) {
            return Altered.provider(
                    VERBS,
                    method,
                    (usual, arguments) -> {
                        if (closed.get()) {
                            reached.countDown();
                            assertThat(open.await(LIMIT.toSeconds(), TimeUnit.SECONDS)).isTrue();
                        }
                        return usual.answer();
                    });
        }

        void close() {
            closed.set(true);
        }

        void awaitReached() {
            try {
                assertThat(reached.await(LIMIT.toSeconds(), TimeUnit.SECONDS)).isTrue();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
        }

        void open() {
            open.countDown();
        }
    }

    /// The peer's word of what was wrong comes at the second try: it costs the one transfer.
    @ParameterizedTest
    @ValueSource(ints = {SendRequest.IBV_WR_RDMA_WRITE, SendRequest.IBV_WR_RDMA_READ})
    void aRefusalThatWasLostCostsNoLane(int opcode) {
        VERBS.removeDevice("fake1"); // whose windows are opened behind the first transfer's back
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            boolean read = opcode == SendRequest.IBV_WR_RDMA_READ;
            for (int round = 0; round < 3; round++) {
                VERBS.failNextRequest(
                        opcode,
                        WorkCompletion.IBV_WC_RETRY_EXC_ERR,
                        WorkCompletion.IBV_WC_REM_ACCESS_ERR);
                Transfer refused = read ? regions.read(couple) : regions.write(couple);
                Transfer other = read ? regions.read(couple) : regions.write(couple);
                assertThat(ended(refused).error()).hasMessageContaining("remote access error");
                assertByNic(other);
            }
            regions.assertSame();
            assertAllLanesLive(couple);
        }
    }

    /// It has failed by one request already, when the rest of it is cut off because the peer makes
    /// no queue pair: what of it may still arrive counts.
    @Test
    void whatIsCutOffAfterItHasFailedMayStillArrive() {
        VERBS.removeDevice("fake1");
        Gate gate = new Gate();
        try (Couple couple =
                new Couple(VerbsFaultsTest.ALL, VERBS, gate.before("readyToReceive"))) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            gate.close();
            VERBS.failNextRequest(
                    SendRequest.IBV_WR_RDMA_WRITE, WorkCompletion.IBV_WC_REM_ACCESS_ERR);
            Transfer late =
                    couple.connection.write(
                            regions.here().slice(0, BYTES),
                            regions.there().remote(),
                            TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(300)));
            gate.awaitReached();
            assertThat(ended(late).state()).isEqualTo(TransferState.TIMED_OUT);
            assertThat(late.remoteQuiet()).isEqualTo(RemoteQuiet.UNKNOWN);
            gate.open();
            assertByNic(regions.write(couple));
            assertAllLanesLive(couple);
        }
    }

    /// Connecting waits for the network, closing does not wait for that. At both ends.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void closingDoesNotWaitForAQueuePairThatConnects(boolean active) {
        VERBS.removeDevice("fake1");
        Gate gate = new Gate();
        Provider held = gate.before("readyToReceive");
        try (Couple couple =
                new Couple(VerbsFaultsTest.ALL, active ? held : VERBS, active ? VERBS : held)) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            gate.close();
            VERBS.failNextRequest(
                    SendRequest.IBV_WR_RDMA_WRITE, WorkCompletion.IBV_WC_REM_ACCESS_ERR);
            Transfer refused = regions.write(couple);
            Transfer other = regions.write(couple);
            gate.awaitReached();
            (active ? couple.connection : couple.accepted).close();
            assertThat(ended(refused).state()).isNotEqualTo(TransferState.DONE);
            assertThat(ended(other).state()).isNotEqualTo(TransferState.DONE);
            gate.open();
        } finally {
            gate.open();
        }
    }

    /// An Error where a queue pair is made anew, at either end: the link is given up, rather than
    /// its work left waiting for a queue pair.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void anErrorInATaskCostsTheLinkAndNoTransfer(boolean active) {
        VERBS.removeDevice("fake1"); // whose windows are opened behind the first transfer's back
        AtomicBoolean failing = new AtomicBoolean();
        Provider broken =
                Altered.provider(
                        VERBS,
                        "createQp",
                        (usual, arguments) -> {
                            if (failing.getAndSet(false)) {
                                throw new OutOfMemoryError("of the test");
                            }
                            return usual.answer();
                        });
        try (Couple couple =
                new Couple(VerbsFaultsTest.ALL, active ? broken : VERBS, active ? VERBS : broken)) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            regions.there().segment().fill((byte) 0);
            failing.set(true);
            VERBS.failNextRequest(
                    SendRequest.IBV_WR_RDMA_WRITE, WorkCompletion.IBV_WC_RETRY_EXC_ERR);
            assertDone(regions.write(couple));
            regions.assertSame();
            assertThat(couple.connection.explain()).contains("OutOfMemoryError: of the test");
        }
    }

    /// Its keys may be another region's by then, so it is not posted again.
    @Test
    void whatIsToBePostedAgainLeavesClosedRegionsAlone() {
        VERBS.removeDevice("fake1");
        Gate gate = new Gate();
        AtomicInteger made = new AtomicInteger();
        Provider counting =
                Altered.provider(
                        VERBS,
                        "createQp",
                        (usual, arguments) -> {
                            made.incrementAndGet();
                            return usual.answer();
                        });
        try (Couple couple =
                new Couple(VerbsFaultsTest.ALL, counting, gate.before("readyToReceive"))) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            Regions closing = Regions.of(couple, BYTES).opened(couple);
            gate.close();
            VERBS.failNextRequest(
                    SendRequest.IBV_WR_RDMA_WRITE, WorkCompletion.IBV_WC_REM_ACCESS_ERR);
            VERBS.holdOneSided(true); // until all are under way
            Transfer refused = regions.write(couple);
            Transfer stale = closing.write(couple);
            Transfer other = regions.write(couple);
            VERBS.holdOneSided(false);
            gate.awaitReached();
            closing.there().close();
            int before = made.get();
            gate.open();
            assertThat(ended(stale).error()).isInstanceOf(TelpherException.StaleRegion.class);
            assertThat(ended(refused).error()).hasMessageContaining("remote access error");
            assertByNic(other);
            assertThat(made).as("queue pairs that were made").hasValue(before);
            assertAllLanesLive(couple);
        } finally {
            VERBS.holdOneSided(false);
            gate.open();
        }
    }

    /// Nothing is under way, and no completion comes: only the event tells.
    @Test
    void anIdleQueueThatBreaksEndsItsLinkAtOnce() throws InterruptedException {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            Thread.sleep(100); // idle lanes park
            VERBS.tellOfActive("fake0", "queue error");
            VERBS.tellOfActive("fake1", "queue error");
            long end = System.nanoTime() + LIMIT.toNanos();
            while (!couple.connection.explain().contains("one-sided transfers: fake")) {
                assertThat(System.nanoTime()).as(couple.connection.explain()).isLessThan(end);
                Thread.sleep(1);
            }
            regions.there().segment().fill((byte) 0);
            assertDone(regions.write(couple));
            regions.assertSame();
        }
    }

    /// The device tells that the queue pair is in error, and flushes what was under way without a
    /// word of why: that costs a fresh queue pair, once, and then the link.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void whatNoCompletionExplainsCostsAFreshQueuePair(boolean again) throws InterruptedException {
        VERBS.removeDevice("fake1");
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            regions.there().segment().fill((byte) 0);
            long posts = VERBS.posts();
            VERBS.holdOneSided(true);
            Transfer write = regions.write(couple);
            awaitPosts(posts);
            posts = VERBS.posts();
            VERBS.tellOfBusy("fake0", "queue error");
            awaitPosts(posts); // over the fresh one
            assertAllLanesLive(couple);
            if (again) {
                VERBS.tellOfBusy("fake0", "queue error again");
                awaitLaneGone(couple);
            }
            VERBS.holdOneSided(false);
            assertDone(write);
            regions.assertSame();
        } finally {
            VERBS.holdOneSided(false);
        }
    }

    /// Nothing completes behind the event at all.
    @Test
    void aLinkWhoseDeviceTellsAndNeverExplainsIsGivenUp() throws InterruptedException {
        VERBS.removeDevice("fake1");
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            regions.there().segment().fill((byte) 0);
            VERBS.spreadRumours(1_000_000);
            VERBS.failNextRequest(
                    SendRequest.IBV_WR_RDMA_WRITE, WorkCompletion.IBV_WC_REM_ACCESS_ERR);
            Transfer write = regions.write(couple);
            awaitLaneGone(couple);
            VERBS.spreadRumours(0);
            assertDone(write);
            regions.assertSame();
            assertThat(couple.connection.explain())
                    .contains("one-sided transfers: fake0/1 10.77.0.1: local work queue error");
        }
    }

    private static void awaitPosts(long more) throws InterruptedException {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (VERBS.posts() == more) {
            assertThat(System.nanoTime()).isLessThan(end);
            Thread.sleep(1);
        }
    }

    private static void awaitLaneGone(Couple couple) throws InterruptedException {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (couple.connection.metrics().lanes().stream().allMatch(lane -> lane.alive())) {
            assertThat(System.nanoTime()).as(couple.connection.explain()).isLessThan(end);
            Thread.sleep(1);
        }
    }

    /// A request that was not taken is not done because a later one is.
    @Test
    void whatFollowsARequestThatWasNotTakenProvesNothing() {
        for (int round = 0; round < 20; round++) {
            VERBS.reset();
            try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
                Regions regions = Regions.of(couple, BYTES).opened(couple);
                regions.there().segment().fill((byte) 0);
                VERBS.failNext("ibv_post_send", Errno.ENOMEM);
                assertDone(regions.write(couple));
                regions.assertSame();
            }
        }
    }

    /// Its memory is gone while its region is open: the region is as if it were closed.
    @ParameterizedTest
    @ValueSource(ints = {64, BYTES})
    void anArenaThatIsClosedUnderItsRegionMakesItStale(int bytes) {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, bytes).opened(couple);
            for (boolean read : new boolean[] {true, false}) {
                for (boolean used : new boolean[] {true, false}) {
                    MemoryRegion doomed;
                    try (Arena arena = Arena.ofShared()) {
                        doomed = couple.here.register(arena.allocate(bytes, 8), Access.READ_WRITE);
                        if (used) {
                            assertByNic(transfer(couple, doomed, regions.there(), read));
                        }
                    }
                    assertThat(ended(transfer(couple, doomed, regions.there(), read)).error())
                            .isInstanceOf(TelpherException.StaleRegion.class);
                    doomed.close();
                }
            }
            assertByNic(regions.write(couple));
            assertAllLanesLive(couple);
        }
    }

    /// A silent link holds it when its memory goes.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void whatIsUnderWayWhenItsMemoryGoesIsNotDone(boolean read) {
        VERBS.removeDevice("fake1");
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            // From the heap of the process: what arrives harms nobody.
            Arena memory = Arena.ofAuto();
            MemoryRegion doomed;
            Transfer late;
            try (Arena arena = Arena.ofShared()) {
                doomed =
                        couple.here.register(
                                memory.allocate(BYTES, 4096).reinterpret(arena, null),
                                Access.READ_WRITE);
                assertByNic(transfer(couple, doomed, regions.there(), read));
                VERBS.silence("fake0", true);
                long posts = VERBS.posts();
                late = transfer(couple, doomed, regions.there(), read);
                while (VERBS.posts() == posts) {
                    Thread.onSpinWait();
                }
            }
            VERBS.silence("fake0", false);
            assertThat(ended(late).error()).isInstanceOf(TelpherException.StaleRegion.class);
            doomed.close();
        }
    }

    private static Transfer transfer(
            Couple couple, MemoryRegion near, MemoryRegion far, boolean read) {
        return read
                ? couple.connection.read(near.slice(0, near.size()), far.remote())
                : couple.connection.write(near.slice(0, near.size()), far.remote());
    }
}

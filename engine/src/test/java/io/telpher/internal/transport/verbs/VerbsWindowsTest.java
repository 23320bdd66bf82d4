package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import io.telpher.Access;
import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// One-sided transfers by the NIC, on the double: what they cost, and what goes wrong with them.
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsWindowsTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final int BYTES = 4 << 20;

    /// What a single link carries, in several requests.
    private static final int ONE_LINKS = 1_000_000;
    private static final FakeVerbs VERBS = FakeVerbs.HERE;

    /// What must not happen while queue pairs are mended: it ends the link.
    private static final List<String> MENDING =
            List.of(
                    "ibv_create_comp_channel",
                    "ibv_create_cq",
                    "ibv_create_qp",
                    "ibv_modify_qp",
                    "ibv_req_notify_cq",
                    "ibv_post_send",
                    "ibv_poll_cq",
                    "ibv_destroy_qp",
                    "ibv_destroy_cq",
                    "ibv_destroy_comp_channel");

    /// A region on each side, whose bytes differ.
    record Regions(MemoryRegion here, MemoryRegion there) {
        static Regions of(Couple couple, int bytes) {
            MemoryRegion a = couple.here.allocate(bytes, Access.READ_WRITE);
            MemoryRegion b = couple.there.allocate(bytes, Access.READ_WRITE);
            for (int i = 0; i < bytes; i += 97) {
                a.segment().set(JAVA_BYTE, i, (byte) (i * 31 + 1));
            }
            return new Regions(a, b);
        }

        Transfer write(Couple couple) {
            return couple.connection.write(here.slice(0, here.size()), there.remote());
        }

        Transfer read(Couple couple) {
            return couple.connection.read(here.slice(0, here.size()), there.remote());
        }

        void assertSame() {
            assertThat(here.segment().mismatch(there.segment())).isEqualTo(-1);
        }

        /// Writes once, so that everything is open.
        Regions opened(Couple couple) {
            assertDone(write(couple));
            return this;
        }
    }

    static Transfer ended(Transfer transfer) {
        assertThat(transfer.await(LIMIT)).as("ends in time").isTrue();
        return transfer;
    }

    static void assertDone(Transfer transfer) {
        assertThat(ended(transfer).state())
                .as("%s", transfer.error())
                .isEqualTo(TransferState.DONE);
    }

    static void assertByNic(Transfer transfer) {
        assertDone(transfer);
        assertThat(transfer.path()).isEqualTo("verbs");
    }

    static void assertAllLanesLive(Couple couple) {
        assertThat(couple.connection.metrics().lanes())
                .allSatisfy(lane -> assertThat(lane.alive()).isTrue());
    }

    @Test
    void ringsCarryEverythingWhereThePathIsNotAllowed() {
        try (Couple couple = new Couple(List.of("verbs-ring"))) {
            Regions regions = Regions.of(couple, BYTES);
            Transfer write = regions.write(couple);
            assertDone(write);
            assertThat(write.path()).isEqualTo("verbs-ring");
            regions.assertSame();
        }
    }

    @Test
    void theNicWritesAndReads() {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, BYTES + 13);
            assertByNic(regions.write(couple));
            regions.assertSame();
            regions.there().segment().fill((byte) 9);
            assertByNic(regions.read(couple));
            regions.assertSame();
            assertThat(couple.connection.explain()).contains("one-sided: verbs over fake");
        }
    }

    /// Whoever polls its memory at the target sees it by one request and one call; this side takes
    /// a completion later, when it looks for the end. The double counts what the links say to each
    /// other as well, so the least of several rounds counts.
    @Test
    void aShortWriteArrivesByOneRequest() {
        VERBS.removeDevice("fake1");
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, 8).opened(couple);
            long leastPosts = Long.MAX_VALUE;
            long leastRequests = Long.MAX_VALUE;
            long leastCalls = Long.MAX_VALUE;
            for (int round = 0; round < 20; round++) {
                regions.here().segment().set(JAVA_LONG, 0, 42 + round);
                long posts = VERBS.posts();
                long calls = VERBS.calls();
                long requests = VERBS.requests();
                long token =
                        couple.connection.tryWrite(
                                regions.here(), 0, regions.there().remote(), 0, 8);
                assertThat(regions.there().segment().get(JAVA_LONG, 0)).isEqualTo(42 + round);
                leastPosts = Math.min(leastPosts, VERBS.posts() - posts);
                while (couple.connection.poll(token) == Connection.PENDING) {
                    Thread.onSpinWait();
                }
                leastRequests = Math.min(leastRequests, VERBS.requests() - requests);
                leastCalls = Math.min(leastCalls, VERBS.calls() - calls);
            }
            assertThat(leastPosts).as("posts until the bytes are there").isEqualTo(1);
            assertThat(leastRequests).isEqualTo(1);
            assertThat(leastCalls).as("the post, and one poll").isEqualTo(2);
        }
    }

    /// A device whose ports are all excluded is none beside which another one's writes have to be
    /// proven.
    @Test
    void onlyADeviceThatMayBeUsedCostsARead() {
        for (Map<String, String> settings :
                List.of(Map.of("TELPHER_IB_HCA", "fake0"), Map.<String, String>of())) {
            try (Couple couple = new Couple(settings, VERBS, VERBS)) {
                Regions regions = Regions.of(couple, 8).opened(couple);
                long reads = VERBS.reads();
                assertByNic(regions.write(couple));
                assertThat(VERBS.reads() > reads).as("%s", settings).isEqualTo(settings.isEmpty());
            }
        }
    }

    @Test
    void aThousandPiecesCostAFewCalls() {
        VERBS.removeDevice("fake1");
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, 128_000).opened(couple);
            regions.there().segment().fill((byte) 0);
            List<MemorySlice> near = new ArrayList<>();
            List<RemoteMemory> far = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                near.add(regions.here().slice(i * 128L, 64));
                far.add(regions.there().remote().slice((999 - i) * 128L, 64));
            }
            long calls = VERBS.calls();
            long requests = VERBS.requests();
            assertByNic(
                    couple.connection.write(
                            MemorySlices.of(near), RemoteSlices.of(far), TransferOptions.DEFAULTS));
            assertThat(VERBS.requests() - requests).isGreaterThanOrEqualTo(1000);
            assertThat(VERBS.calls() - calls).isLessThanOrEqualTo(50); // 0.05 for each piece
            for (int i = 0; i < 1000; i++) {
                assertThat(
                                regions.there()
                                        .segment()
                                        .asSlice((999 - i) * 128L, 64)
                                        .mismatch(regions.here().segment().asSlice(i * 128L, 64)))
                        .isEqualTo(-1);
            }
        }
    }

    /// Neither on this thread nor on others, the double's own among them. What a JIT compiler has
    /// not seen yet may allocate, so the best of several rounds counts.
    @Test
    void aThousandPiecesAllocateNothing() {
        VERBS.removeDevice("fake1");
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, 64_000).opened(couple);
            List<MemorySlice> near = new ArrayList<>();
            List<RemoteMemory> far = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                near.add(regions.here().slice(i * 64L, 64));
                far.add(regions.there().remote().slice((999 - i) * 64L, 64));
            }
            Transfer write =
                    couple.connection.prepareWrite(
                            MemorySlices.of(near), RemoteSlices.of(far), TransferOptions.DEFAULTS);
            int count = 200;
            long least = Long.MAX_VALUE;
            for (int round = 0; round < 60 && least > count; round++) {
                long before = threads.getTotalThreadAllocatedBytes();
                for (int i = 0; i < count; i++) {
                    write.post();
                    while (!write.poll().isTerminal()) {
                        Thread.onSpinWait();
                    }
                }
                least = Math.min(least, threads.getTotalThreadAllocatedBytes() - before);
            }
            assertByNic(write);
            assertThat(least / count).as("bytes for each transfer").isLessThanOrEqualTo(8);
        }
    }

    /// The error of one request costs one transfer, whatever else is under way, and whether or not
    /// the device tells of the queue pair some milliseconds before.
    @ParameterizedTest
    @CsvSource({
        SendRequest.IBV_WR_RDMA_WRITE + ", 0",
        SendRequest.IBV_WR_RDMA_READ + ", 0",
        SendRequest.IBV_WR_RDMA_WRITE + ", 20",
        SendRequest.IBV_WR_RDMA_READ + ", 20"
    })
    void anErrorCostsItsTransferOnly(int opcode, int rumoured) {
        VERBS.spreadRumours(rumoured);
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            boolean read = opcode == SendRequest.IBV_WR_RDMA_READ;
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            Regions small = Regions.of(couple, 1000).opened(couple);
            for (int round = 0; round < 5; round++) {
                VERBS.failNextRequest(opcode, WorkCompletion.IBV_WC_REM_ACCESS_ERR);
                List<Transfer> transfers = new ArrayList<>();
                for (int i = 0; i < 4; i++) {
                    transfers.add(read ? regions.read(couple) : regions.write(couple));
                    transfers.add(read ? small.read(couple) : small.write(couple));
                }
                transfers.forEach(VerbsWindowsTest::ended);
                assertThat(transfers)
                        .filteredOn(t -> t.state() != TransferState.DONE)
                        .singleElement()
                        .satisfies(
                                failed ->
                                        assertThat(failed.error())
                                                .hasMessageContaining("path verbs")
                                                .hasMessageContaining("remote access error"));
            }
            assertByNic(regions.write(couple));
            regions.assertSame();
            assertAllLanesLive(couple);
        }
    }

    /// What speaks of the link ends the link: another one takes over. (A longer transfer goes over
    /// two links, each of which might meet one of the failures: [VerbsRailsTest].)
    @Test
    void aLinkThatFailsInTheMiddleIsTakenOverFrom() {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, ONE_LINKS).opened(couple);
            regions.there().segment().fill((byte) 0);
            VERBS.failNextRequest(
                    SendRequest.IBV_WR_RDMA_WRITE,
                    WorkCompletion.IBV_WC_RETRY_EXC_ERR,
                    WorkCompletion.IBV_WC_RETRY_EXC_ERR);
            assertDone(regions.write(couple));
            regions.assertSame();
            assertThat(couple.connection.explain())
                    .contains("one-sided transfers: transport retry counter exceeded");
            regions.there().segment().fill((byte) 0);
            assertByNic(regions.write(couple)); // over another link
            regions.assertSame();
        }
    }

    @Test
    void aRegionThatIsClosedMeanwhileIsStale() {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions lasting = Regions.of(couple, 1000).opened(couple);
            for (int round = 0; round < 20; round++) {
                boolean read = round % 2 == 0;
                Regions regions = Regions.of(couple, BYTES).opened(couple);
                List<Transfer> transfers = new ArrayList<>();
                for (int i = 0; i < 4; i++) {
                    transfers.add(read ? regions.read(couple) : regions.write(couple));
                }
                Thread closing = Thread.ofPlatform().start(regions.there()::close);
                for (Transfer transfer : transfers) {
                    if (ended(transfer).state() != TransferState.DONE) {
                        assertThat(transfer.error())
                                .isInstanceOf(TelpherException.StaleRegion.class);
                    }
                }
                try {
                    closing.join();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
                assertThat(ended(regions.write(couple)).error())
                        .isInstanceOf(TelpherException.StaleRegion.class);
                assertByNic(lasting.write(couple));
                regions.here().close();
            }
            assertAllLanesLive(couple);
        }
    }

    /// Whoever cannot register goes by the rings, and says why.
    @Test
    void refusedRegistrationsAreNamed() {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions opened = Regions.of(couple, 1000).opened(couple);
            for (boolean near : new boolean[] {true, false}) {
                Regions regions = Regions.of(couple, 1000);
                if (near) {
                    assertDone(
                            couple.connection.write(
                                    opened.here().slice(0, 1000), regions.there().remote()));
                }
                VERBS.failNext("ibv_reg_mr", Errno.ENOMEM);
                Transfer transfer = regions.write(couple);
                assertDone(transfer);
                assertThat(transfer.path()).isEqualTo("verbs-ring");
                regions.assertSame();
            }
            assertThat(couple.connection.explain())
                    .contains("RLIMIT_MEMLOCK is ", "ulimit -l unlimited");
        }
    }

    @Test
    void longRegionsAreRegisteredInPieces() {
        VERBS.limitRegions((1 << 20) + 5000);
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, 3 << 20);
            assertByNic(regions.write(couple));
            regions.assertSame();
            regions.there().segment().fill((byte) 3);
            assertByNic(regions.read(couple));
            regions.assertSame();
            Regions longer = Regions.of(couple, 5 << 20);
            assertDone(longer.write(couple));
            longer.assertSame();
            assertThat(couple.connection.explain())
                    .contains("this region would need 5 keys, and 4 can be named");
        }
    }

    /// A transfer that has not come through is cut off at its deadline, and says that the far side
    /// may still see it; others wait for the link.
    @Test
    void whatASilentLinkHoldsIsCutOff() {
        VERBS.removeDevice("fake1");
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = Regions.of(couple, BYTES).opened(couple);
            Regions other = Regions.of(couple, BYTES).opened(couple);
            other.there().segment().fill((byte) 0);
            VERBS.silence("fake0", true);
            Transfer waiting = other.write(couple);
            Transfer late =
                    couple.connection.write(
                            regions.here().slice(0, BYTES),
                            regions.there().remote(),
                            TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(100)));
            assertThat(ended(late).state()).isEqualTo(TransferState.TIMED_OUT);
            assertThat(late.remoteQuiet()).isEqualTo(RemoteQuiet.UNKNOWN);
            assertThat(waiting.state()).isEqualTo(TransferState.PENDING);
            VERBS.silence("fake0", false);
            assertDone(waiting);
            other.assertSame();
            assertByNic(regions.write(couple));
            assertAllLanesLive(couple);
        }
    }

    /// Every call that mends a queue pair fails once. It costs nothing, or the link, and then the
    /// reason names it.
    @Test
    void everyCallThatMendsMayFail() throws InterruptedException {
        for (String verb : MENDING) {
            VERBS.reset();
            try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
                Regions regions = Regions.of(couple, BYTES).opened(couple);
                VERBS.failNextRequest(
                        SendRequest.IBV_WR_RDMA_WRITE, WorkCompletion.IBV_WC_REM_ACCESS_ERR);
                Transfer failing = regions.write(couple);
                VERBS.failNext(verb, Errno.EIO);
                Transfer other = regions.write(couple);
                ended(failing);
                assertDone(other);
                regions.assertSame();
                assertDone(regions.write(couple));
            }
            assertThat(VERBS.misuses()).as(verb).isEmpty();
            if (verb.startsWith("ibv_destroy")) {
                VERBS.forgetAll(); // it is kept, and what it uses
            }
            NothingLeft.awaitNothing();
        }
    }
}

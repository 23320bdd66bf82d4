package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;
import io.telpher.Connection;
import io.telpher.DeviceStream;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// How many launches lists of transfers and lists of pieces take. The driver is the fake one, which
/// counts; what is held back of a list waits for its end, and not for a clock.
class GpuListTest extends OnFakeGpu {
    private static final int SIZE = 1 << 20;
    private static final String HOLD = "telpher.cuda.hold.us";
    private static Couple couple;

    private Connection connection;
    private RemoteMemory target;

    @BeforeAll
    static void open() {
        FakeGpu.assumeKernels();
        System.setProperty(HOLD, "60000000");
        couple = couple(TestPath.CUDA_DIRECT, SIZE);
    }

    @AfterAll
    static void close() {
        System.clearProperty(HOLD);
        if (couple != null) {
            couple.close();
        }
    }

    @BeforeEach
    void prepare() {
        connection = couple.here().connection();
        target = target(couple);
        couple.here().fill("gpu", 0, SIZE, 1);
        Outcome.of(connection.write(couple.here().slice("gpu", 0, 64), target)).assertDone(64);
        couple.there().fill("gpu", 0, SIZE, 2);
    }

    private List<Transfer> writes(int count, int bytes) {
        List<Transfer> writes = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            MemorySlice local = couple.here().slice("gpu", (long) i * bytes, bytes);
            writes.add(
                    connection.prepareWrite(
                            local,
                            target.slice((long) i * bytes, bytes),
                            TransferOptions.DEFAULTS));
        }
        return writes;
    }

    private static void assertDone(List<Transfer> transfers, int bytes) {
        transfers.forEach(transfer -> Outcome.of(transfer).assertDone(bytes));
        couple.there().check("gpu", 0, (long) transfers.size() * bytes, 1);
        checkOld((long) transfers.size() * bytes);
    }

    /// What lies behind that is as it was.
    private static void checkOld(long at) {
        couple.there().tell(self -> Content.check(self.segment("gpu"), at, 64, 2, at));
    }

    @Test
    void sixteenSmallWritesTakeOneLaunch() {
        List<Transfer> writes = writes(16, 8);
        long launches = FakeGpu.launches();
        long copies = FakeGpu.copies();
        Transfer.postAll(writes);
        assertThat(FakeGpu.launches() - launches).isEqualTo(1);
        assertThat(FakeGpu.copies()).as("by copy engines").isEqualTo(copies);
        assertDone(writes, 8);
    }

    /// Which are asked, and get no work.
    @Test
    void afterIdleStreamsItIsOneLaunchToo() {
        List<Transfer> writes = writes(16, 8);
        DeviceStream idle =
                new DeviceStream(couple.here().region("gpu").deviceMemory().device(), 1);
        long launches = FakeGpu.launches();
        Transfer.postAll(writes, List.of(idle));
        assertThat(FakeGpu.launches() - launches).isEqualTo(1);
        assertDone(writes, 8);
    }

    @Test
    void aLongListNeedsNoEndToBegin() {
        List<Transfer> writes = writes(250, 64);
        long launches = FakeGpu.launches();
        Transfer.postAll(writes);
        // 100, 100 and 50, of which the last ones may wait until a launch ends.
        assertThat(FakeGpu.launches() - launches).isBetween(2L, 3L);
        assertDone(writes, 64);
        assertThat(FakeGpu.launches() - launches).isEqualTo(3);
    }

    @Test
    void whatCannotBePostedKeepsNoOtherFromIt() {
        List<Transfer> writes = writes(8, 8);
        Transfer receive =
                connection.prepareReceive(
                        7,
                        MemorySlices.of(couple.here().slice("gpu", SIZE - 8, 8)),
                        TransferOptions.DEFAULTS);
        receive.post();
        List<Transfer> list = new ArrayList<>(writes);
        list.add(3, receive);
        list.add(receive);
        long launches = FakeGpu.launches();
        assertThatThrownBy(() -> Transfer.postAll(list))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("pending")
                .satisfies(e -> assertThat(e.getSuppressed()).hasSize(1));
        assertThat(FakeGpu.launches() - launches).isEqualTo(1);
        assertDone(writes, 8);
        assertThat(receive.state()).isEqualTo(TransferState.PENDING);
        receive.cancel();
        Outcome.of(receive);
        Transfer.postAll(List.of());
    }

    @Test
    void aListMayBePostedAgainAndAgainWithoutAllocating() {
        List<Transfer> writes = writes(16, 8);
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        int rounds = 100;
        long allocated = Long.MAX_VALUE;
        // The smallest object has 16 bytes; the measuring itself allocates a few.
        for (int pass = 0; pass < 60 && allocated >= 4L * rounds; pass++) {
            long before = threads.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < rounds; i++) {
                Transfer.postAll(writes);
                for (int k = 0; k < writes.size(); k++) {
                    while (writes.get(k).poll() == TransferState.PENDING) {
                        Thread.onSpinWait();
                    }
                }
            }
            allocated = threads.getCurrentThreadAllocatedBytes() - before;
        }
        assertThat(allocated).as("bytes for %d lists", rounds).isLessThan(4L * rounds);
        assertDone(writes, 8);
    }

    private static final int PIECES = 10_000;
    private static final int PIECE = 64;

    /// Small pieces of two regions of the peer's, the second of which has the last ones.
    private Transfer pieces(RemoteMemory first, RemoteMemory second, int ofSecond) {
        List<RemoteMemory> there = new ArrayList<>();
        for (int i = 0; i < PIECES; i++) {
            RemoteMemory memory = i < PIECES - ofSecond ? first : second;
            there.add(memory.slice((long) i * PIECE, PIECE));
        }
        MemorySlices here =
                MemorySlices.strided(couple.here().region("gpu"), 0, PIECE, PIECE, PIECES);
        return connection.prepareWrite(here, RemoteSlices.of(there), TransferOptions.DEFAULTS);
    }

    @Test
    void theGpuBeginsWhileManyPiecesAreListed() {
        Transfer write = pieces(target, target, 0);
        long launches = FakeGpu.launches();
        FakeGpu.setDelay(100_000);
        try {
            write.post();
            // Two are under way, others gather: the second does not wait for the first one's end.
            assertThat(FakeGpu.launches() - launches).isGreaterThanOrEqualTo(2);
            Outcome.of(write).assertDone(PIECES * PIECE);
        } finally {
            FakeGpu.setDelay(0);
        }
        couple.there().check("gpu", 0, PIECES * PIECE, 1);
        checkOld(PIECES * PIECE);
        assertThat(FakeGpu.launches() - launches).isBetween(3L, 5L);
    }

    @Test
    void whatIsMoreThanOneJobGoesOnInAnother() {
        couple.here().add("large", Kind.TELPHER, LARGE);
        checkParts(CopyQueue.LARGEST);
    }

    @Test
    void jobsOfTheHostAreSmaller() {
        MemoryRegion host = couple.here().endpoint().allocate(LARGE);
        couple.here().keep("large", host, Participant.arena());
        checkParts(CopyQueue.LARGEST_HOST);
    }

    private static final int LARGE = 24 * SIZE;

    /// The same bytes again and again, until they are more than one job takes, whose end is within
    /// a piece.
    private void checkParts(long largest) {
        int count = (int) (largest / LARGE) + 1;
        assertThat(largest % LARGE).isNotZero();
        couple.there().run(self -> self.add("large", Kind.TELPHER, LARGE));
        couple.here().fill("large", 0, LARGE, 3);
        MemorySlice here = couple.here().slice("large", 0, LARGE);
        RemoteMemory there = target(couple, "large");
        long copies = FakeGpu.copies();
        Transfer write =
                connection.write(
                        MemorySlices.of(Collections.nCopies(count, here)),
                        RemoteSlices.of(Collections.nCopies(count, there)),
                        TransferOptions.DEFAULTS);
        Outcome.of(write).assertDone((long) count * LARGE);
        assertThat(FakeGpu.copies() - copies).as("by copy engines").isEqualTo(count + 1);
        couple.there().check("large", 0, LARGE, 3);
        couple.there().tell(self -> self.closeRegion("large"));
        couple.here().closeRegion("large");
    }

    @Test
    void aStepOverMemoryThatIsNotReadyWaitsUntilItIs() {
        List<MemorySlice> here = new ArrayList<>();
        here.add(couple.here().slice("gpu", 0, (PIECES - 100L) * PIECE));
        MemoryRegion fresh = couple.here().endpoint().allocate(100 * PIECE); // not page-locked yet
        here.add(couple.here().keep("fresh", fresh, Participant.arena()).slice(0, 100 * PIECE));
        couple.here().fill("fresh", 0, 100 * PIECE, 3);
        RemoteSlices there = RemoteSlices.strided(target, PIECE, PIECE, PIECES);
        Transfer write = connection.write(MemorySlices.of(here), there, TransferOptions.DEFAULTS);
        Outcome outcome = Outcome.of(write).assertDone(PIECES * PIECE);
        assertThat(outcome.path()).as("frames carry none of it").isEqualTo("cuda-direct");
        couple.there().check("gpu", 0, (PIECES - 100L) * PIECE, 1);
        couple.there()
                .tell(
                        self ->
                                Content.check(
                                        self.segment("gpu"),
                                        (PIECES - 100L) * PIECE,
                                        100 * PIECE,
                                        3,
                                        0));
        checkOld(PIECES * PIECE);
    }

    @Test
    void aStepThatTheDriverRefusesFailsTheTransferWhenTheOthersHaveEnded() {
        Transfer write = pieces(target, target, 0);
        FakeGpu.setDelay(20_000);
        FakeGpu.setFaults("cuLaunchKernel:2:2");
        try {
            write.post();
            Outcome failed = Outcome.of(write);
            assertThat(failed.state()).isEqualTo(TransferState.FAILED);
            assertThat(failed.error()).hasMessageContaining("cuLaunchKernel");
            couple.there().check("gpu", 0, 2000L * PIECE, 1);
        } finally {
            FakeGpu.setDelay(0);
        }
        FakeGpu.setFaults("");
        write.post();
        Outcome.of(write).assertDone(PIECES * PIECE);
        couple.there().check("gpu", 0, PIECES * PIECE, 1);
    }

    @Test
    void aStepIntoAClosedRegionFailsTheTransferWhenTheOthersHaveEnded() {
        couple.there().run(self -> self.add("second", Kind.TELPHER, SIZE));
        RemoteMemory second = couple.there().run(self -> self.region("second").remote());
        Transfer write = pieces(target, second, 100);
        write.post();
        Outcome.of(write).assertDone(PIECES * PIECE); // opens the window
        couple.there().fill("gpu", 0, SIZE, 2);
        couple.there()
                .tell(
                        self -> {
                            long at = (PIECES - 100L) * PIECE;
                            Content.check(self.segment("second"), at, 100 * PIECE, 1, at);
                            self.closeRegion("second");
                        });
        write.post();
        Outcome failed = Outcome.of(write);
        assertThat(failed.error()).isInstanceOf(TelpherException.StaleRegion.class);
        couple.there().check("gpu", 0, 2000L * PIECE, 1);
    }
}

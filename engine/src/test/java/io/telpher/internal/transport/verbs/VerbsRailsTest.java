package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.ConnectionMetrics;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.ffi.verbs.SendRequest;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.transport.verbs.VerbsFaultsTest.Couple;
import io.telpher.internal.transport.verbs.VerbsWindowsTest.Regions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Long one-sided transfers over two rails, on the double, whose devices carry as much as they are
/// allowed to.
@Timeout(120)
@ExtendWith(NothingLeft.class)
class VerbsRailsTest {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final int BYTES = (16 << 20) + 13;
    private static final long PACE = 64 << 10;

    /// A transfer takes seconds, in which a rail is found to be dead.
    private static final long SLOW = 2 << 10;

    /// Bytes that a rail takes at a time.
    private static final long RANGE = 512 << 10;

    /// What is measured may be disturbed by a host that stands still.
    private static final int TRIES = 10;

    private static final FakeVerbs VERBS = FakeVerbs.HERE;

    /// Writes until all devices take part, since the windows of the others are opened behind the
    /// first transfer's back.
    private static Regions opened(Couple couple, int bytes) {
        Regions regions = Regions.of(couple, bytes);
        paceAll(BYTES);
        await(
                "all rails are used",
                () -> {
                    VerbsWindowsTest.assertByNic(regions.write(couple));
                    return VERBS.devices().stream().allMatch(device -> VERBS.carried(device) > 0);
                });
        return regions;
    }

    private static void paceAll(long bytes) {
        VERBS.devices().forEach(device -> VERBS.pace(device, bytes));
    }

    private static void await(String what, BooleanSupplier so) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!so.getAsBoolean()) {
            assertThat(System.nanoTime()).as("in time: %s", what).isLessThan(end);
            LockSupport.parkNanos(1_000_000);
        }
    }

    private static double share(String device) {
        return (double) VERBS.carried(device) / VERBS.carried();
    }

    @ParameterizedTest
    @CsvSource({"1, false, 0.4, 0.6", "1, true, 0.4, 0.6", "2, false, 0.58, 0.75"})
    void eachRailCarriesAsMuchAsItIsFast(int times, boolean read, double least, double most) {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = opened(couple, BYTES);
            double share = 0;
            for (int i = 0; i < TRIES && (share < least || share > most); i++) {
                VERBS.pace("fake0", PACE);
                VERBS.pace("fake1", PACE * times);
                regions.there().segment().fill((byte) i);
                VerbsWindowsTest.assertByNic(read ? regions.read(couple) : regions.write(couple));
                regions.assertSame();
                share = share("fake1");
            }
            assertThat(share).isBetween(least, most);
            assertThat(VERBS.carried())
                    .as("nothing went twice")
                    .isBetween((long) BYTES, BYTES + 4096L);
        }
    }

    /// It would keep the end waiting. It has two ranges of the first write, which show that, and
    /// then takes part in few, to see whether it still is so slow: about 5 writes of 50, and some
    /// more on a busy host, where the other one seems slow at times.
    @Test
    void aRailThatIsMuchSlowerGetsNextToNothingOfWhatIsNotLong() {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = opened(couple, 2 << 20);
            int writes = 5 * TRIES;
            List<Long> carried = new ArrayList<>();
            for (int i = 0; i < writes; i++) {
                VERBS.pace("fake0", PACE);
                VERBS.pace("fake1", PACE * 40);
                VerbsWindowsTest.assertByNic(regions.write(couple));
                regions.assertSame();
                carried.add(VERBS.carried("fake0"));
            }
            assertThat(carried.stream().filter(bytes -> bytes >= RANGE).count())
                    .as("writes that it took part in: %s", carried)
                    .isBetween(2L, writes / 2L);
        }
    }

    /// It was left out of short transfers, where it would have kept the end waiting; the next long
    /// one tries it with one range, and when that has come to its end it is given as much as
    /// others. Which of these a transfer does may be disturbed by a host that stands still, even in
    /// most of ten, but not that a rail which was left out has one range at first.
    @Test
    void aRailThatWasLeftOutHasOneRangeUntilThatHasEnded() {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions brief = opened(couple, 2 << 20);
            Regions lengthy = opened(couple, 2 * BYTES);
            int tried = 0;
            for (int i = 0; i < TRIES && tried == 0; i++) {
                do {
                    writeOverUnequal(couple, brief);
                } while (VERBS.ahead("fake0") > 0);
                writeOverUnequal(couple, lengthy);
                tried += VERBS.ahead("fake0") > 0 ? 1 : 0;
            }
            assertThat(tried).as("it was tried").isPositive();
            assertThat(VERBS.ahead("fake0")).as("by one range").isBetween(RANGE, RANGE + 64);
            List<Long> ahead = new ArrayList<>();
            do {
                writeOverUnequal(couple, lengthy);
                ahead.add(VERBS.ahead("fake0"));
            } while (ahead.size() < 10 * TRIES && ahead.getLast() < 2 * RANGE);
            assertThat(ahead)
                    .as("it takes part, though it leaves the last ranges to the other")
                    .anyMatch(bytes -> bytes >= 2 * RANGE);
        }
    }

    /// The first rail is too slow for a transfer of four ranges, and quick enough for one of many.
    private static void writeOverUnequal(Couple couple, Regions regions) {
        VERBS.pace("fake0", PACE);
        VERBS.pace("fake1", PACE * 8);
        VerbsWindowsTest.assertByNic(regions.write(couple));
    }

    /// What it had under way goes out again over the other one, and nothing else: once the peer has
    /// given it up ([FakeNic] sees to that), for which the other one, all done, has to wait.
    @ParameterizedTest
    @CsvSource({"fake0, false", "fake1, false", "fake0, true"})
    void aRailDiesInTheMiddle(String device, boolean read) throws InterruptedException {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = opened(couple, BYTES);
            (read ? regions.here() : regions.there()).segment().fill((byte) 0);
            Transfer transfer =
                    overAll(PACE, () -> read ? regions.read(couple) : regions.write(couple));
            VERBS.silence(device, true);
            VERBS.quicken(device.equals("fake0") ? "fake1" : "fake0", BYTES);
            VerbsWindowsTest.assertByNic(transfer);
            regions.assertSame();
            assertThat(VERBS.carried())
                    .as("what went twice")
                    .isBetween((long) BYTES, BYTES + 2 * RANGE + 4096);
            assertThat(couple.connection.metrics().lanes()).anyMatch(lane -> !lane.alive());
            VERBS.silence(device, false);
        }
    }

    /// @return a transfer of which all rails have carried some, and not all
    private static Transfer overAll(long pace, Supplier<Transfer> posted)
            throws InterruptedException {
        while (true) {
            paceAll(pace);
            Transfer transfer = posted.get();
            while (transfer.state() == TransferState.PENDING) {
                if (VERBS.devices().stream().allMatch(rail -> VERBS.carried(rail) >= RANGE)) {
                    return transfer;
                }
                Thread.sleep(1);
            }
        }
    }

    /// Of three rails two die in one transfer, each while the others carry it; the last one carries
    /// what both had under way, when the peer has given up both. Nothing arrives after that, in
    /// memory that has another use by then. The transfer would take 11 s if none died, so it is in
    /// its middle when the first one is found to be dead.
    @ParameterizedTest
    @CsvSource({"fake0, fake1, false", "fake2, fake0, false", "fake0, fake1, true"})
    void twoRailsDieOneAfterTheOther(String first, String second, boolean read)
            throws InterruptedException {
        VERBS.addDevice(2);
        int bytes = 4 * BYTES;
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = opened(couple, bytes);
            (read ? regions.here() : regions.there()).segment().fill((byte) 0);
            Transfer transfer =
                    overAll(SLOW, () -> read ? regions.read(couple) : regions.write(couple));
            VERBS.silence(first, true);
            await("the first is dead", () -> !isAlive(couple, first));
            assertThat(VERBS.carried()).as("in the middle").isLessThan(bytes - 8 * RANGE);
            VERBS.silence(second, true);
            VERBS.quicken(third(first, second), bytes);
            VerbsWindowsTest.assertByNic(transfer);
            regions.assertSame();
            assertThat(VERBS.carried())
                    .as("what went twice")
                    .isBetween((long) bytes, bytes + 4 * RANGE + 4096);
            assertThat(isAlive(couple, second)).isFalse();
            assertNothingArrives(read ? regions.here() : regions.there(), first, second);
        }
    }

    /// The second rail dies with what the first had left, which goes out once more then, and
    /// nothing else does. On a host that stands still the first may have next to nothing left, or
    /// be found dead before the others are done, or the third one be given up as well: then it is
    /// tried again.
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aRailDiesWithWhatAnotherHasLeft(boolean read) throws InterruptedException {
        VERBS.addDevice(2);
        String first = "fake0";
        List<String> others = List.of("fake1", "fake2");
        boolean inTime = false;
        for (int i = 0; i < TRIES && !inTime; i++) {
            try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
                Regions regions = opened(couple, BYTES);
                (read ? regions.here() : regions.there()).segment().fill((byte) 0);
                Transfer transfer =
                        overAll(PACE, () -> read ? regions.read(couple) : regions.write(couple));
                VERBS.silence(first, true);
                others.forEach(rail -> VERBS.quicken(rail, BYTES));
                await(
                        "the others are done",
                        () ->
                                transfer.state().isTerminal()
                                        || (VERBS.carried() >= BYTES - 2 * RANGE
                                                && others.stream().allMatch(VERBS::isIdle)));
                VERBS.holdOneSided(true);
                // Proofs of writes are carried, too.
                boolean leftARange = BYTES - VERBS.carried() >= RANGE - 4096;
                paceAll(BYTES);
                inTime = leftARange && isAlive(couple, first);
                if (inTime) {
                    await(
                            "what was left goes out again",
                            () -> others.stream().anyMatch(rail -> VERBS.ahead(rail) >= RANGE));
                    String second = VERBS.ahead("fake1") >= RANGE ? "fake1" : "fake2";
                    VERBS.silence(second, true);
                    VERBS.holdOneSided(false);
                    VerbsWindowsTest.ended(transfer);
                    inTime = !(transfer.error() instanceof TelpherException.PeerLost);
                    if (inTime) {
                        VerbsWindowsTest.assertByNic(transfer);
                        regions.assertSame();
                        assertThat(VERBS.carried())
                                .as("what both have left")
                                .isBetween(1L, 4 * RANGE + 4096);
                        assertThat(isAlive(couple, second)).isFalse();
                    }
                    MemoryRegion target = read ? regions.here() : regions.there();
                    assertNothingArrives(target, first, second);
                }
            } finally {
                VERBS.holdOneSided(false);
                VERBS.silence(first, false);
            }
        }
        assertThat(inTime).as("the first died when the others were done").isTrue();
    }

    private static String third(String first, String second) {
        return VERBS.devices().stream()
                .filter(rail -> !rail.equals(first) && !rail.equals(second))
                .findFirst()
                .orElseThrow();
    }

    private static boolean isAlive(Couple couple, String device) {
        return couple.connection.metrics().lanes().stream()
                .filter(lane -> lane.description().startsWith(device))
                .allMatch(ConnectionMetrics.Lane::alive);
    }

    /// The memory of a transfer that is over gets another use, and dead rails speak again.
    private static void assertNothingArrives(MemoryRegion memory, String... dead) {
        memory.segment().fill((byte) 99);
        for (String device : dead) {
            VERBS.silence(device, false); // what still can arrive arrives before this returns
        }
        assertThat(memory.segment().asSlice(1).mismatch(memory.segment()))
                .isEqualTo(memory.size() - 1);
        assertThat(memory.segment().get(JAVA_BYTE, 0)).isEqualTo((byte) 99);
    }

    /// The transfer fails, and no other; all links live. The others are stopped when the queue pair
    /// of the one has been made anew: there is much time for that, since the rails are slow and the
    /// transfer is long.
    @Test
    void aRequestThatIsRefusedOnOneRailStopsTheOther() {
        int bytes = 4 * BYTES;
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = opened(couple, bytes);
            Regions other = Regions.of(couple, 1000).opened(couple);
            paceAll(SLOW);
            VERBS.failNextRequest(
                    SendRequest.IBV_WR_RDMA_WRITE, WorkCompletion.IBV_WC_REM_ACCESS_ERR);
            Transfer write = regions.write(couple);
            assertThat(VerbsWindowsTest.ended(write).state()).isEqualTo(TransferState.FAILED);
            assertThat(write.error()).hasMessageContaining("remote access error");
            assertThat(VERBS.carried()).as("nothing more was given out").isLessThan(bytes / 2);
            paceAll(bytes);
            VerbsWindowsTest.assertByNic(other.write(couple));
            VerbsWindowsTest.assertByNic(regions.write(couple));
            regions.assertSame();
            VerbsWindowsTest.assertAllLanesLive(couple);
        }
    }

    /// On both rails at once; both are mended, be it one after the other, and carry what comes.
    @Test
    void whatIsCutOffIsCutOffOnAllRails() {
        try (Couple couple = new Couple(VerbsFaultsTest.ALL)) {
            Regions regions = opened(couple, BYTES);
            VERBS.holdOneSided(true);
            Transfer late =
                    couple.connection.write(
                            regions.here().slice(0, BYTES),
                            regions.there().remote(),
                            TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(100)));
            assertThat(VerbsWindowsTest.ended(late).state()).isEqualTo(TransferState.TIMED_OUT);
            VERBS.holdOneSided(false);
            VERBS.pace("fake0", PACE * 4);
            VERBS.pace("fake1", PACE * 4);
            do {
                VerbsWindowsTest.assertDone(regions.write(couple));
                regions.assertSame();
            } while (VERBS.carried("fake0") == 0 || VERBS.carried("fake1") == 0);
            VerbsWindowsTest.assertAllLanesLive(couple);
        }
    }
}

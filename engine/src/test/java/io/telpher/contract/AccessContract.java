package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Access;
import io.telpher.CounterUpdate;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.TransferOptions;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Who may touch what: bounds, keys, rights, stale descriptors, names.
abstract class AccessContract extends Contract {
    private static final int SIZE = 10_000;

    private void checkRefused(RemoteMemory remote, Class<? extends TelpherException> error) {
        assertThat(writeFailure(remote)).as("write to %s", remote).isInstanceOf(error);
        assertThat(readFailure(remote)).as("read of %s", remote).isInstanceOf(error);
    }

    private TelpherException writeFailure(RemoteMemory remote) {
        here.fill("local", 0, 1000, 1);
        return Outcome.refusal(
                () -> connection().write(here.slice("local", 0, remote.length()), remote));
    }

    private TelpherException readFailure(RemoteMemory remote) {
        soil(here, "local", 0, 1000);
        TelpherException error =
                Outcome.refusal(
                        () -> connection().read(here.slice("local", 0, remote.length()), remote));
        verifyUntouched(here, "local", 0, 1000);
        return error;
    }

    private void checkUntouched(String name) {
        peer.tell(self -> verifyUntouched(self, name, 0, SIZE));
    }

    /// What works before must work after whatever went wrong.
    private void checkStillWorks(RemoteMemory good) {
        here.fill("local", 0, 1000, 3);
        here.write("local", 0, 1000, good).assertDone(1000);
        peer.check("good", 0, 1000, 3);
    }

    @Test
    void slicesCannotLeaveTheirMemory() {
        MemoryRegion region = region("local", Kind.TELPHER, SIZE);
        RemoteMemory remote = remote("good", Kind.TELPHER, SIZE).slice(100, 200);
        long[][] ranges = {
            {-1, 1},
            {0, -1},
            {0, SIZE + 1},
            {SIZE, 1},
            {SIZE + 1, 0},
            {1, SIZE},
            {Long.MAX_VALUE, 1},
            {1, Long.MAX_VALUE},
            {Long.MAX_VALUE, Long.MAX_VALUE},
            {Long.MIN_VALUE, Long.MIN_VALUE}
        };
        for (long[] range : ranges) {
            assertThatThrownBy(() -> region.slice(range[0], range[1]))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            assertThatThrownBy(() -> remote.slice(range[0], range[1]))
                    .isInstanceOf(IndexOutOfBoundsException.class);
        }
        assertThatThrownBy(() -> remote.slice(0, 201))
                .isInstanceOf(IndexOutOfBoundsException.class);
        assertThat(remote.slice(200, 0).length()).isZero();
    }

    @Test
    void tokensCannotLeaveTheirMemory() {
        MemoryRegion region = region("local", Kind.TELPHER, SIZE);
        RemoteMemory remote = remote("good", Kind.TELPHER, SIZE).slice(0, SIZE / 2);
        soil("good", 0, SIZE);
        long[][] ranges = {
            {-1, 0, 10},
            {0, -1, 10},
            {0, 0, -1},
            {SIZE, 0, 1},
            {0, SIZE / 2, 1},
            {0, 0, SIZE / 2 + 1},
            {Long.MAX_VALUE, 0, 8},
            {0, Long.MAX_VALUE, 8},
            {0, 0, Long.MAX_VALUE}
        };
        for (long[] range : ranges) {
            assertThatThrownBy(
                            () ->
                                    connection()
                                            .tryWrite(region, range[0], remote, range[1], range[2]))
                    .as("%d %d %d", range[0], range[1], range[2])
                    .isInstanceOfAny(
                            IndexOutOfBoundsException.class, IllegalArgumentException.class);
            assertThatThrownBy(
                            () ->
                                    connection()
                                            .tryRead(region, range[0], remote, range[1], range[2]))
                    .isInstanceOfAny(
                            IndexOutOfBoundsException.class, IllegalArgumentException.class);
        }
        checkUntouched("good");
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aForgedRangeIsRefusedByTheOwner(Kind kind) {
        region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", kind, SIZE);
        soil("good", 0, SIZE);
        long[][] ranges = {
            {SIZE, 1}, {SIZE - 10, 11}, {SIZE + 1, 100}, {Long.MAX_VALUE - 100, 100}, {1L << 40, 8}
        };
        for (long[] range : ranges) {
            checkRefused(
                    forged(good, good.key(), range[0], range[1]),
                    TelpherException.AccessDenied.class);
        }
        checkUntouched("good");
        checkStillWorks(good);
    }

    private static RemoteMemory forged(RemoteMemory memory, long key, long offset, long length) {
        return new RemoteMemory(
                memory.incarnation(),
                memory.region(),
                memory.generation(),
                key,
                offset,
                length,
                Access.READ_WRITE);
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aWrongKeyIsRefused(Kind kind) {
        region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", kind, SIZE);
        soil("good", 0, SIZE);
        checkRefused(forged(good, good.key() ^ 1, 0, 100), TelpherException.AccessDenied.class);
        // Also when the engine knows the region already.
        Outcome.of(connection().read(here.slice("local", 0, 10), good)).assertDone(10);
        checkRefused(forged(good, good.key() ^ 1, 0, 100), TelpherException.AccessDenied.class);
        checkRefused(forged(good, 0, 0, 100), TelpherException.AccessDenied.class);
        checkUntouched("good");
        checkStillWorks(good);
    }

    /// Each piece is let in by its own key, not by its neighbour's.
    @Test
    void aWrongKeyAmongRightOnesIsRefused() {
        MemoryRegion local = region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        soil("good", 0, SIZE);
        MemorySlices pieces = MemorySlices.of(local.slice(0, 10), local.slice(10, 10));
        Outcome.of(
                        connection()
                                .read(
                                        pieces,
                                        RemoteSlices.of(good.slice(0, 10), good.slice(20, 10)),
                                        TransferOptions.DEFAULTS))
                .assertDone(20);
        RemoteMemory forged = forged(good, good.key() ^ 1, 0, 10);
        for (RemoteSlices wrong :
                List.of(
                        RemoteSlices.of(forged, good.slice(20, 10)),
                        RemoteSlices.of(good.slice(20, 10), forged))) {
            assertThat(
                            Outcome.failure(
                                    () ->
                                            connection()
                                                    .write(
                                                            pieces,
                                                            wrong,
                                                            TransferOptions.DEFAULTS)))
                    .isInstanceOf(TelpherException.AccessDenied.class);
        }
        peer.tell(self -> Content.check(self.segment("good"), 0, 10, STALE));
        checkStillWorks(good);
    }

    @Test
    void wrongDescriptorsDoNotDisturbTheRightOne() {
        region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        RemoteMemory forged = forged(good, good.key() + 1, 0, 100);
        RemoteMemory older =
                new RemoteMemory(
                        good.incarnation(),
                        good.region(),
                        good.generation() - 1,
                        good.key(),
                        0,
                        100,
                        Access.READ_WRITE);
        CompletableFuture<Void> attacker =
                CompletableFuture.runAsync(
                        () -> {
                            for (int i = 0; i < Scale.count(200); i++) {
                                RemoteMemory wrong = i % 2 == 0 ? forged : older;
                                assertThat(
                                                Outcome.failure(
                                                        () ->
                                                                connection()
                                                                        .write(
                                                                                here.slice(
                                                                                        "local", 0,
                                                                                        100),
                                                                                wrong)))
                                        .isInstanceOfAny(
                                                TelpherException.AccessDenied.class,
                                                TelpherException.StaleRegion.class);
                            }
                        },
                        task -> new Thread(task, "test-attacker").start());
        while (!attacker.isDone()) {
            here.write("local", 100, 1000, good.slice(1000, 1000)).assertDone(1000);
        }
        Peer.result(attacker);
        checkStillWorks(good);
    }

    @Test
    void aRegionThatNeverWasIsRefused() {
        region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        for (int index : new int[] {good.region() + 1000, Integer.MAX_VALUE}) {
            RemoteMemory odd =
                    new RemoteMemory(good.incarnation(), index, 1, 5, 0, 100, Access.READ_WRITE);
            assertThat(writeFailure(odd))
                    .isInstanceOfAny(
                            TelpherException.StaleRegion.class,
                            TelpherException.AccessDenied.class);
        }
        checkStillWorks(good);
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aDescriptorIsStaleOnceItsRegionIsClosed(Kind kind) {
        region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", kind, SIZE);
        RemoteMemory used = remote("used", kind, SIZE);
        RemoteMemory unused = remote("unused", kind, SIZE);
        here.write("local", 0, 100, used).assertDone(100);
        peer.tell(
                self -> {
                    self.closeRegion("used");
                    self.closeRegion("unused");
                    assertThat(self.region("used").isOpen()).isFalse();
                });
        checkRefused(used.slice(0, 100), TelpherException.StaleRegion.class);
        checkRefused(unused.slice(0, 100), TelpherException.StaleRegion.class);
        checkRefused(unused.slice(50, 0), TelpherException.StaleRegion.class);
        checkStillWorks(good);
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aDescriptorIsStaleWhenItsIndexIsUsedAgain(Kind kind) {
        region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", kind, SIZE);
        RemoteMemory old = remote("old", kind, SIZE);
        here.write("local", 0, 100, old).assertDone(100);
        peer.tell(self -> self.closeRegion("old"));
        RemoteMemory fresh = null;
        for (int i = 0; i < 5000 && fresh == null; i++) {
            String name = "fresh" + i;
            RemoteMemory next = remote(name, kind, SIZE);
            if (next.region() == old.region()) {
                fresh = next;
                soil(name, 0, SIZE);
                assertThat(next.generation()).isNotEqualTo(old.generation());
                checkRefused(old.slice(0, 100), TelpherException.StaleRegion.class);
                checkUntouched(name);
                // A new generation with the old key, and the other way round.
                checkRefused(forged(next, old.key(), 0, 100), TelpherException.AccessDenied.class);
                checkRefused(forged(old, next.key(), 0, 100), TelpherException.StaleRegion.class);
                checkUntouched(name);
                here.write("local", 0, 100, next).assertDone(100);
            } else {
                peer.tell(self -> self.closeRegion(name));
            }
        }
        assertThat(fresh).as("a region with the index of the one that was closed").isNotNull();
        checkStillWorks(good);
    }

    @Test
    void aDescriptorOfAnotherIncarnationIsStale() {
        region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        soil("good", 0, SIZE);
        RemoteMemory other =
                new RemoteMemory(
                        good.incarnation() + 1,
                        good.region(),
                        good.generation(),
                        good.key(),
                        0,
                        100,
                        Access.READ_WRITE);
        assertThatThrownBy(() -> here.write("local", 0, 100, other).assertDone(100))
                .isNotInstanceOf(TelpherException.TimedOut.class)
                .hasMessageMatching("(?s).+");
        checkRefused(other, TelpherException.StaleRegion.class);
        MemorySlice local = here.slice("local", 0, 100);
        TelpherException error =
                Outcome.failure(
                        () ->
                                connection()
                                        .write(
                                                MemorySlices.of(local, local),
                                                RemoteSlices.of(good.slice(0, 100), other),
                                                TransferOptions.DEFAULTS));
        assertThat(error).as("among others").isInstanceOf(TelpherException.StaleRegion.class);
        checkUntouched("good");
        checkStillWorks(good);
    }

    @ParameterizedTest
    @EnumSource
    void rightsAreEnforcedByTheOwner(Access access) {
        region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        for (Kind kind : Kind.MAIN) {
            RemoteMemory honest = remote("limited", kind, SIZE, access);
            soil("limited", 0, SIZE);
            assertThat(honest.access()).isEqualTo(access);
            // What the descriptor says does not count.
            RemoteMemory forged = forged(honest, honest.key(), 0, 1000);
            for (RemoteMemory remote : new RemoteMemory[] {honest.slice(0, 1000), forged}) {
                if (!access.canRead()) {
                    assertThat(readFailure(remote))
                            .isInstanceOf(TelpherException.AccessDenied.class);
                } else {
                    Outcome.of(connection().read(here.slice("local", 0, 1000), remote))
                            .assertDone(1000);
                    Content.check(here.segment("local"), 0, 1000, STALE, 0);
                }
                if (!access.canWrite()) {
                    assertThat(writeFailure(remote))
                            .isInstanceOf(TelpherException.AccessDenied.class);
                    assertThat(counterFailure(good, remote))
                            .isInstanceOf(TelpherException.AccessDenied.class);
                    checkUntouched("limited");
                }
            }
            if (access.canWrite()) {
                here.fill("local", 0, 1000, 8);
                here.write("local", 0, 1000, forged).assertDone(1000);
                peer.check("limited", 0, 1000, 8);
            }
            peer.tell(self -> self.closeRegion("limited"));
        }
        checkStillWorks(good);
    }

    private TelpherException counterFailure(RemoteMemory good, RemoteMemory counter) {
        CounterUpdate update = CounterUpdate.add(counter.slice(8, 8), 1);
        return Outcome.failure(
                () ->
                        connection()
                                .write(
                                        here.slice("local", 0, 10),
                                        good,
                                        TransferOptions.DEFAULTS.withCounter(update)));
    }

    @Test
    void aRegionServesLocallyWhateverPeersMayDo() {
        here.add("local", Kind.TELPHER, SIZE, Access.NONE);
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        here.fill("local", 0, SIZE, 8);
        here.write("local", 0, SIZE, good).assertDone(SIZE);
        peer.check("good", 0, SIZE, 8);
        peer.fill("good", 0, SIZE, 9);
        Outcome.of(connection().read(here.region("local").all(), good)).assertDone(SIZE);
        here.check("local", 0, SIZE, 9);
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aClosedLocalRegionIsStale(Kind kind) {
        region("local", kind, SIZE);
        region("closed", kind, SIZE);
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        soil("good", 0, SIZE);
        here.closeRegion("closed");
        here.region("closed").close();
        assertThat(here.region("closed").isOpen()).isFalse();
        assertThat(Outcome.failure(() -> connection().write(here.slice("closed", 0, 10), good)))
                .isInstanceOf(TelpherException.StaleRegion.class);
        assertThat(Outcome.failure(() -> connection().read(here.slice("closed", 0, 10), good)))
                .isInstanceOf(TelpherException.StaleRegion.class);
        assertThat(Outcome.failure(() -> connection().send(1, here.slice("closed", 0, 10))))
                .isInstanceOf(TelpherException.StaleRegion.class);
        assertThat(Outcome.failure(() -> connection().receive(1, here.slice("closed", 0, 10))))
                .isInstanceOf(TelpherException.StaleRegion.class);
        checkUntouched("good");
        checkStillWorks(good);
        // The failed send and receive used no place in the tag's order.
        peer.tell(
                self -> self.keep("r", self.connection().receive(1, self.slice("good", 0, 1000))));
        Outcome.of(connection().send(1, here.slice("local", 0, 1000))).assertDone(1000);
        peer.outcome("r").assertDone(1000);
    }

    @Test
    void onlyMemoryThatCanBeSharedIsRegistered() {
        assertThatThrownBy(() -> endpoint().register(MemorySegment.ofArray(new byte[100])))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> endpoint().register(ByteBuffer.allocate(100)))
                .isInstanceOf(IllegalArgumentException.class);
        try (Arena confined = Arena.ofConfined()) {
            assertThatThrownBy(() -> endpoint().register(confined.allocate(100)))
                    .isInstanceOf(IllegalArgumentException.class);
        }
        assertThatThrownBy(() -> endpoint().allocate(0))
                .isInstanceOf(IllegalArgumentException.class);
        assertThatThrownBy(() -> endpoint().allocate(-1))
                .isInstanceOf(IllegalArgumentException.class);
        try (MemoryRegion region =
                endpoint().register(MemorySegment.ofBuffer(ByteBuffer.allocateDirect(64)))) {
            assertThat(region.size()).isEqualTo(64);
        }
        try (MemoryRegion region = endpoint().register(Arena.global().allocate(64))) {
            assertThat(region.size()).isEqualTo(64);
        }
    }

    @Test
    void publishedMemoryIsFoundByItsName() {
        region("local", Kind.TELPHER, SIZE);
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        RemoteMemory other = remote("other", Kind.FOREIGN, SIZE);
        peer.tell(self -> self.endpoint().publish("übung 1", self.region("good")));
        assertThat(connection().lookup("übung 1", Duration.ofSeconds(10))).isEqualTo(good);
        // A name can be given again.
        byte[] slice = other.slice(8, 100).toBytes();
        peer.tell(self -> self.endpoint().publish("übung 1", RemoteMemory.ofBytes(slice)));
        assertThat(connection().lookup("übung 1", Duration.ofSeconds(10)))
                .isEqualTo(other.slice(8, 100));
        checkStillWorks(good);
    }

    @Test
    void aLookupWaitsForTheNameAndEnds() {
        String name = "later-" + random.nextInt();
        assertThatThrownBy(() -> connection().lookup(name, Duration.ofMillis(100)))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining(name);
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        CompletableFuture<RemoteMemory> found =
                CompletableFuture.supplyAsync(
                        () -> connection().lookup(name, Duration.ofSeconds(10)),
                        task -> new Thread(task, "test-lookup").start());
        sleep(100);
        assertThat(found).isNotDone();
        peer.tell(self -> self.endpoint().publish(name, self.region("good")));
        assertThat(Peer.result(found)).isEqualTo(good);
    }

    @Test
    void descriptorsTravelAsBytes() {
        RemoteMemory good = remote("good", Kind.TELPHER, SIZE);
        RemoteMemory slice = good.slice(11, 22);
        assertThat(slice.toBytes()).hasSize(RemoteMemory.SIZE).hasSizeLessThanOrEqualTo(64);
        assertThat(RemoteMemory.ofBytes(slice.toBytes())).isEqualTo(slice);
        assertThat(slice.toString()).doesNotContain(Long.toHexString(slice.key()));
    }
}

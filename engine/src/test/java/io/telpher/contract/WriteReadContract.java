package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.RemoteSlices;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.transport.verbs.RdmaNode;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Writes and reads of one range.
abstract class WriteReadContract extends Contract {
    private static final int MIB = 1 << 20;
    private static final byte OURS = 0x77;

    /// Around every limit that an implementation could have.
    static final int[] SIZES = sizes();

    private static int[] sizes() {
        List<Integer> sizes = new ArrayList<>();
        for (int i = 0; i <= 17; i++) {
            sizes.add(i);
        }
        for (int power = 5; power <= 20; power++) {
            int size = 1 << power;
            Collections.addAll(sizes, size - 1, size, size + 1);
        }
        // With a header of 64 bytes in front.
        Collections.addAll(sizes, 4032, 4033, 8128, 8129, 65_472, 65_473, MIB - 64, MIB - 63);
        Collections.addAll(sizes, 3 * MIB + 5, 4 * MIB, 8 * MIB + 1);
        return sizes.stream().mapToInt(i -> i).toArray();
    }

    @ParameterizedTest(name = "{0} to {1}")
    @CsvSource({
        "TELPHER, TELPHER",
        "FOREIGN, FOREIGN",
        "TELPHER, FOREIGN",
        "FOREIGN, TELPHER",
        "BUFFER, FILE",
        "FILE, BUFFER"
    })
    void bytesArriveWhateverTheSize(Kind from, Kind to) {
        int room = 8 * MIB + 4096;
        region("source", from, room);
        RemoteMemory target = remote("target", to, room);
        for (int size : SIZES) {
            writeAndCheck(target, random.nextInt(1000), random.nextInt(1000), size);
            readAndCheck(target, random.nextInt(1000), random.nextInt(1000), size);
        }
    }

    @Test
    void sixtyFourMebibytes() {
        int size = 64 * MIB;
        for (Kind kind : Kind.MAIN) {
            region("source", kind, size + 1000);
            RemoteMemory target = remote("target", kind, size + 1000);
            writeAndCheck(target, 3, 77, size);
            readAndCheck(target, 501, 9, size);
            release();
        }
    }

    @Test
    @Tag(RdmaNode.SLICE)
    void randomRanges() {
        region("source", Kind.TELPHER, MIB);
        RemoteMemory target = remote("target", Kind.TELPHER, MIB);
        for (int i = 0; i < Scale.count(300); i++) {
            int size = Scale.size(random, 0, MIB / 2);
            int at = random.nextInt(MIB - size + 1);
            int to = random.nextInt(MIB - size + 1);
            if (random.nextBoolean()) {
                writeAndCheck(target, at, to, size);
            } else {
                readAndCheck(target, at, to, size);
            }
        }
    }

    private void writeAndCheck(RemoteMemory target, long from, long to, long size) {
        long seed = random.nextLong();
        soil("target", to, size);
        here.fill("source", from, size, seed);
        Outcome outcome =
                Outcome.of(
                        connection()
                                .write(here.slice("source", from, size), target.slice(to, size)));
        outcome.assertDone(size);
        assertThat(outcome.path()).isNotEmpty();
        verify("target", to, size, seed);
    }

    private void readAndCheck(RemoteMemory target, long to, long from, long size) {
        long seed = random.nextLong();
        peer.fill("target", from, size, seed);
        soil(here, "source", to, size);
        Outcome.of(connection().read(here.slice("source", to, size), target.slice(from, size)))
                .assertDone(size);
        verify(here, "source", to, size, seed);
        peer.check("target", from, size, seed);
    }

    @Test
    void thePathIsTheOneThatWasAskedFor() {
        region("source", Kind.TELPHER, 4096);
        RemoteMemory target = remote("target", Kind.TELPHER, 4096);
        Transfer write = connection().write(here.region("source").all(), target);
        Outcome.of(write).assertDone(4096);
        assertThat(write.path()).isEqualTo(setting.path().path());
        Transfer read = connection().read(here.region("source").all(), target);
        Outcome.of(read).assertDone(4096);
        assertThat(read.path()).isEqualTo(setting.path().path());
        assertThat(connection().explain()).contains(setting.path().path());
        assertThat(connection().peer().incarnation()).isEqualTo(target.incarnation());
    }

    @Test
    void manyInFlightToDisjointPlaces() {
        long slot = 100_000;
        int slots = 128;
        MemoryRegion source = region("source", Kind.FOREIGN, slot * slots);
        RemoteMemory target = remote("target", Kind.TELPHER, slot * slots);
        soil("target", 0, slot * slots);
        long seed = random.nextLong();
        here.fill("source", 0, source.size(), seed);
        int[] sizes = random.ints(slots, 0, (int) slot).toArray();
        List<Transfer> transfers = new ArrayList<>();
        for (int i = 0; i < slots; i++) {
            long at = i * slot;
            transfers.add(
                    connection().write(source.slice(at, sizes[i]), target.slice(at, sizes[i])));
        }
        Collections.shuffle(transfers, random);
        transfers.forEach(transfer -> assertThat(Outcome.of(transfer).error()).isNull());
        peer.tell(
                self -> {
                    for (int i = 0; i < slots; i++) {
                        long at = i * slot;
                        Content.check(self.segment("target"), at, sizes[i], seed, at);
                        long rest = slot - sizes[i];
                        at += sizes[i];
                        Content.check(self.segment("target"), at, rest, STALE, at);
                    }
                });
    }

    @Test
    @Tag(RdmaNode.SLICE)
    void bothDirectionsAtTheSameTime() {
        int size = 200_000;
        int rounds = Scale.count(200);
        byte[] mine = region("inbox", Kind.TELPHER, size).remote().toBytes();
        region("source", Kind.TELPHER, size);
        RemoteMemory theirs = remote("inbox", Kind.TELPHER, size);
        remote("source", Kind.TELPHER, size);
        CompletableFuture<Boolean> there =
                peer.begin(self -> writeRounds(self, RemoteMemory.ofBytes(mine), size, rounds));
        writeRounds(here, theirs, size, rounds);
        Peer.result(there);
        here.check("inbox", 0, size, rounds);
        peer.check("inbox", 0, size, rounds);
    }

    private static void writeRounds(Participant self, RemoteMemory target, int size, int rounds) {
        for (int i = 1; i <= rounds; i++) {
            self.fill("source", 0, size, i);
            self.write("source", 0, size, target).assertDone(size);
        }
    }

    @Test
    void theRemoteMemoryMayBeLongerButNotShorter() {
        region("source", Kind.TELPHER, 4096);
        RemoteMemory target = remote("target", Kind.TELPHER, 4096);
        soil("target", 0, 4096);
        here.fill("source", 0, 4096, 9);
        Outcome.of(connection().write(here.slice("source", 0, 10), target)).assertDone(10);
        verify("target", 0, 10, 9);
        assertThatThrownBy(
                        () -> connection().write(here.slice("source", 0, 11), target.slice(0, 10)))
                .isInstanceOfAny(IllegalArgumentException.class, IndexOutOfBoundsException.class);
        assertThatThrownBy(
                        () -> connection().read(here.slice("source", 0, 11), target.slice(4090, 6)))
                .isInstanceOfAny(IllegalArgumentException.class, IndexOutOfBoundsException.class);
        verify("target", 0, 10, 9);
    }

    @Test
    void aRegionOfNothingHarmsNoOther() {
        RemoteMemory around = remote("around", Kind.FOREIGN, 1000);
        byte[] bytes =
                peer.run(
                        self ->
                                self.keep(
                                                "nothing",
                                                self.endpoint()
                                                        .register(
                                                                self.segment("around")
                                                                        .asSlice(500, 0)),
                                                Participant.arena())
                                        .remote()
                                        .toBytes());
        RemoteMemory nothing = RemoteMemory.ofBytes(bytes);
        region("source", Kind.FOREIGN, 1000);
        for (int round = 0; round < 3; round++) {
            Outcome.of(connection().write(here.slice("source", 7, 0), nothing)).assertDone(0);
            Outcome.of(connection().read(here.slice("source", 7, 0), nothing)).assertDone(0);
            here.fill("source", 0, 1000, round);
            here.write("source", 0, 1000, around).assertDone(1000);
            peer.check("around", 0, 1000, round);
            if (round == 1) {
                peer.tell(self -> self.closeRegion("nothing"));
                nothing = around.slice(500, 0);
            }
        }
    }

    @Test
    void nothingIsLegalAnywhere() {
        region("source", Kind.TELPHER, 4096);
        RemoteMemory target = remote("target", Kind.TELPHER, 4096);
        soil("target", 0, 4096);
        for (long at : new long[] {0, 1, 4096}) {
            Outcome.of(connection().write(here.slice("source", at, 0), target.slice(4096 - at, 0)))
                    .assertDone(0);
            Outcome.of(connection().read(here.slice("source", at, 0), target.slice(4096 - at, 0)))
                    .assertDone(0);
        }
        peer.tell(self -> verifyUntouched(self, "target", 0, 4096));
    }

    @Test
    void theSameMemoryRegisteredTwice() {
        remote("first", Kind.FOREIGN, 10_000);
        byte[] again =
                peer.run(
                        self ->
                                self.keep(
                                                "second",
                                                self.endpoint().register(self.segment("first")),
                                                Participant.arena())
                                        .remote()
                                        .toBytes());
        region("source", Kind.FOREIGN, 10_000);
        peer.tell(self -> self.closeRegion("first"));
        here.fill("source", 0, 10_000, 4);
        here.write("source", 0, 10_000, RemoteMemory.ofBytes(again)).assertDone(10_000);
        peer.check("second", 0, 10_000, 4);
    }

    /// Where this side copies by itself the posting thread does, and another one cancels: the copy
    /// ends between two slices. However the bytes travel, none moves after the end.
    @ParameterizedTest(name = "read: {0}")
    @ValueSource(booleans = {false, true})
    void aLongCopyIsStoppedInTheMiddle(boolean read) throws InterruptedException {
        int size = 32 * MIB;
        // What Telpher allocates on paths of GPUs has no segment.
        Kind kind = setting.path().isOnGpus() ? Kind.FOREIGN : Kind.TELPHER;
        MemorySegment local = region("local", kind, size).segment();
        RemoteMemory remote = remote("remote", kind, size);
        MemorySlice all = here.slice("local", 0, size);
        Transfer transfer =
                read
                        ? connection().prepareRead(all, remote, TransferOptions.DEFAULTS)
                        : connection().prepareWrite(all, remote, TransferOptions.DEFAULTS);
        transfer.post(); // which also opens what has to be opened once
        Outcome.of(transfer).assertDone(size);
        int stopped = 0;
        for (int round = 0; round < 200 && stopped < 2; round++) {
            byte before = (byte) (2 * (round % 20));
            byte after = (byte) (before + 1);
            local.fill(read ? before : after);
            peer.tell(self -> self.segment("remote").fill(read ? after : before));
            Thread poster = Thread.ofPlatform().start(transfer::post);
            LockSupport.parkNanos(random.nextInt(5_000_000));
            transfer.cancel();
            poster.join();
            TransferState state = Outcome.of(transfer).state();
            local.fill(OURS);
            assertThat(state).isIn(TransferState.DONE, TransferState.CANCELLED);
            stopped += state == TransferState.CANCELLED ? 1 : 0;
            sleep(5);
            Content.checkAll(local, 0, size, OURS);
            peer.tell(
                    self ->
                            Content.checkEither(
                                    self.segment("remote"), 0, size, read ? after : before, after));
        }
        assertThat(stopped).as("copies that were stopped").isPositive();
    }

    /// Nobody but the copy itself looks at its deadline, on the thread that posts: the next tick of
    /// the progress thread, tens of milliseconds later, would come when all is copied.
    @ParameterizedTest(name = "read: {0}")
    @ValueSource(booleans = {false, true})
    void aLongCopyIsStoppedAtItsDeadline(boolean read) {
        assumeTrue(
                setting.path().oneSided() && !setting.path().isOnGpus(),
                "the peer or a device takes part in copies");
        int size = 4 * MIB;
        MemorySegment local = region("local", Kind.TELPHER, size).segment();
        RemoteMemory remote = remote("remote", Kind.TELPHER, size);
        // 32 MiB, over and over the same memory: nobody copies that in a tenth of a millisecond.
        MemorySlices near = MemorySlices.of(Collections.nCopies(8, here.slice("local", 0, size)));
        RemoteSlices far = RemoteSlices.of(Collections.nCopies(8, remote));
        Transfer transfer = prepare(read, near, far, TransferOptions.DEFAULTS);
        transfer.post(); // which also opens what has to be opened once
        Outcome.of(transfer).assertDone(8L * size);
        TransferOptions soon = TransferOptions.DEFAULTS.withDeadline(Duration.ofNanos(100_000));
        transfer = prepare(read, near, far, soon);
        for (int round = 0; round < 6; round++) {
            byte before = (byte) (2 * round);
            byte after = (byte) (before + 1);
            local.fill(read ? before : after);
            peer.tell(self -> self.segment("remote").fill(read ? after : before));
            transfer.post();
            Outcome outcome = Outcome.of(transfer);
            byte first = local.get(Bytes.BYTE, 0);
            local.fill(OURS);
            assertThat(outcome.state()).as("round %d", round).isEqualTo(TransferState.TIMED_OUT);
            assertThat(outcome.remoteQuiet()).isEqualTo(RemoteQuiet.YES);
            sleep(5);
            Content.checkAll(local, 0, size, OURS);
            if (read) {
                assertThat(first).as("what was read before the deadline").isEqualTo(after);
                peer.tell(self -> Content.checkAll(self.segment("remote"), 0, size, after));
            } else {
                peer.tell(
                        self -> {
                            MemorySegment memory = self.segment("remote");
                            assertThat(memory.get(Bytes.BYTE, 0)).isEqualTo(after);
                            Content.checkEither(memory, 0, size, before, after);
                        });
            }
        }
    }

    private Transfer prepare(
            boolean read, MemorySlices near, RemoteSlices far, TransferOptions options) {
        return read
                ? connection().prepareRead(near, far, options)
                : connection().prepareWrite(near, far, options);
    }

    @Test
    void metricsCountWhatWasDone() {
        region("source", Kind.TELPHER, 100_000);
        RemoteMemory target = remote("target", Kind.TELPHER, 100_000);
        long done = connection().metrics().transfersDone();
        long sent = connection().metrics().bytesSent();
        here.write("source", 0, 100_000, target).assertDone(100_000);
        here.write("source", 0, 50, target).assertDone(50);
        assertThat(connection().metrics().transfersDone() - done).isGreaterThanOrEqualTo(2);
        assertThat(connection().metrics().bytesSent() - sent).isGreaterThanOrEqualTo(100_050);
    }
}

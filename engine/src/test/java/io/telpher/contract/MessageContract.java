package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Sends and receives: matching, order, lengths, cancellation.
abstract class MessageContract extends Contract {
    private static final int MIB = 1 << 20;

    @ParameterizedTest(name = "{0} to {1}")
    @CsvSource({"TELPHER, TELPHER", "FOREIGN, FOREIGN", "TELPHER, FOREIGN", "FOREIGN, TELPHER"})
    void messagesOfEverySizeWhoeverComesFirst(Kind from, Kind to) {
        int room = 8 * MIB + 4096;
        region("source", from, room);
        remote("target", to, room);
        for (int size : WriteReadContract.SIZES) {
            long seed = random.nextLong();
            int at = random.nextInt(500);
            int spare = random.nextInt(3) * 10;
            here.fill("source", at, size, seed);
            soil("target", at, size + spare);
            boolean sendFirst = random.nextBoolean();
            Transfer send = sendFirst ? send(7, at, size) : null;
            peer.tell(self -> receive(self, "receive", 7, at, size + spare));
            if (send == null) {
                send = send(7, at, size);
            }
            Outcome.of(send).assertDone(size);
            peer.outcome("receive").assertDone(size);
            verify("target", at, size, seed);
        }
    }

    private Transfer send(long tag, long at, long size) {
        return connection().send(tag, here.slice("source", at, size));
    }

    private static void receive(Participant self, String name, long tag, long at, long size) {
        self.keep(name, self.connection().receive(tag, self.slice("target", at, size)));
    }

    @Test
    void tagsMatchInPostOrderFromBothSides() {
        int count = Scale.count(400);
        long seed = random.nextLong();
        CompletableFuture<Boolean> there = peer.begin(self -> exchange(self, seed, ~seed, count));
        exchange(here, ~seed, seed, count);
        Peer.result(there);
    }

    private record Message(int tag, int size, long seed) {}

    /// What one side sends, in this order; both sides know it by its seed.
    private static List<Message> messages(long seed, int count) {
        Random random = new Random(seed);
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int size = Scale.size(random, 0, 60_000);
            messages.add(new Message(random.nextInt(5), size, random.nextLong()));
        }
        return messages;
    }

    /// Sends and receives so many messages of five tags, each in an order of its own, and checks
    /// that the k-th receive of each tag got the k-th send.
    private static void exchange(Participant self, long sendSeed, long receiveSeed, int count) {
        List<Message> sends = messages(sendSeed, count);
        List<Deque<Message>> expected = new ArrayList<>();
        for (int tag = 0; tag < 5; tag++) {
            expected.add(new ArrayDeque<>());
        }
        messages(receiveSeed, count).forEach(message -> expected.get(message.tag).add(message));
        self.add("source", Kind.TELPHER, 60_000L * count);
        self.add("target", Kind.FOREIGN, 60_016L * count);
        Random random = new Random(sendSeed ^ 1);
        List<Transfer> sent = new ArrayList<>();
        List<Message> receives = new ArrayList<>();
        List<Transfer> received = new ArrayList<>();
        while (sent.size() < count || received.size() < count) {
            if (received.size() == count || (sent.size() < count && random.nextBoolean())) {
                Message message = sends.get(sent.size());
                long at = 60_000L * sent.size();
                self.fill("source", at, message.size, message.seed);
                MemorySlice slice = self.slice("source", at, message.size);
                sent.add(self.connection().send(message.tag * 1_000_003L - 2, slice));
            } else {
                int tag = random.nextInt(5);
                Message message = expected.get(tag).poll();
                if (message != null) {
                    receives.add(message);
                    long at = 60_016L * received.size();
                    MemorySlice slice = self.slice("target", at, message.size + 16);
                    received.add(self.connection().receive(tag * 1_000_003L - 2, slice));
                }
            }
        }
        for (int i = 0; i < count; i++) {
            Message message = receives.get(i);
            Outcome.of(received.get(i)).assertDone(message.size);
            self.check("target", 60_016L * i, message.size, message.seed);
        }
        for (int i = 0; i < count; i++) {
            Outcome.of(sent.get(i)).assertDone(sends.get(i).size);
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aMessageThatIsTooLongIsTruncatedAtBothEnds(Kind kind) {
        region("source", Kind.TELPHER, 4 * MIB);
        remote("target", kind, 4 * MIB);
        int[][] cases = {{1, 0}, {65, 64}, {5000, 4999}, {100_000, 7}, {3 * MIB, MIB}, {MIB, 0}};
        for (int[] sizes : cases) {
            for (boolean sendFirst : new boolean[] {true, false}) {
                soil("target", 0, 4 * MIB);
                here.fill("source", 0, Math.max(100, sizes[0]), 5);
                Transfer send = sendFirst ? send(1, 0, sizes[0]) : null;
                if (sendFirst) {
                    sleep(random.nextInt(5));
                }
                int capacity = sizes[1];
                peer.tell(self -> receive(self, "receive", 1, MARGIN, capacity));
                if (send == null) {
                    sleep(random.nextInt(5));
                    send = send(1, 0, sizes[0]);
                }
                Outcome sent = Outcome.of(send);
                if (sent.state() == TransferState.DONE) {
                    // A short one that nobody expected was in the peer's hands before it met its
                    // receive.
                    assertThat(sendFirst).isTrue();
                    assertThat(sizes[0]).isLessThan(65_536);
                } else {
                    checkTruncated(sent, sizes[0], capacity);
                }
                checkTruncated(peer.outcome("receive"), sizes[0], capacity);
                peer.tell(self -> verifyMargins(self, "target", MARGIN, capacity));
                // The next pair meets as if nothing had happened.
                peer.tell(self -> receive(self, "receive", 1, 0, 100));
                Outcome.of(send(1, 0, 100)).assertDone(100);
                peer.outcome("receive").assertDone(100);
                peer.check("target", 0, 100, 5);
            }
        }
    }

    private static void checkTruncated(Outcome outcome, long sent, long capacity) {
        TelpherException.Truncated error = outcome.assertError(TelpherException.Truncated.class);
        assertThat(error.sent()).isEqualTo(sent);
        assertThat(error.capacity()).isEqualTo(capacity);
        assertThat(outcome.state()).isEqualTo(TransferState.FAILED);
        assertThat(outcome.remoteQuiet()).isEqualTo(RemoteQuiet.YES);
    }

    @Test
    void gathersAndScatters() {
        region("source", Kind.FOREIGN, MIB);
        remote("target", Kind.TELPHER, MIB);
        for (int total : new int[] {10, 3000, 500_000}) {
            long seed = random.nextLong();
            soil("target", 0, MIB);
            here.fill("source", 100, total, seed);
            int cut = random.nextInt(total);
            MemorySlices parts =
                    MemorySlices.of(
                            here.slice("source", 100, cut),
                            here.slice("source", 0, 0),
                            here.slice("source", 100 + cut, total - cut));
            int other = random.nextInt(total);
            Transfer send = connection().send(2, parts, TransferOptions.DEFAULTS);
            peer.tell(
                    self -> {
                        MemorySlice first = self.slice("target", 520_000, other);
                        MemorySlice second = self.slice("target", 0, total - other);
                        MemorySlice spare = self.slice("target", 510_000, 10);
                        MemorySlices places = MemorySlices.of(first, second, spare);
                        Connection connection = self.connection();
                        self.keep(
                                "receive", connection.receive(2, places, TransferOptions.DEFAULTS));
                    });
            Outcome.of(send).assertDone(total);
            peer.outcome("receive").assertDone(total);
            peer.tell(
                    self -> {
                        Content.check(self.segment("target"), 520_000, other, seed, 0);
                        Content.check(self.segment("target"), 0, total - other, seed, other);
                        Content.check(self.segment("target"), 510_000, 10, STALE, 510_000);
                    });
        }
    }

    /// Every second block of one side meets every third one of the other.
    @Test
    void stridedPiecesMeetStridedPlaces() {
        int piece = 500;
        int count = 300;
        region("source", Kind.FOREIGN, MIB);
        remote("target", Kind.TELPHER, MIB);
        soil("target", 0, MIB);
        for (int i = 0; i < count; i++) {
            here.fill("source", 2L * piece * i, piece, i);
        }
        peer.tell(
                self ->
                        self.keep(
                                "receive",
                                self.connection()
                                        .receive(
                                                4,
                                                MemorySlices.strided(
                                                        self.region("target"),
                                                        0,
                                                        piece,
                                                        3L * piece,
                                                        count),
                                                TransferOptions.DEFAULTS)));
        MemorySlices parts =
                MemorySlices.strided(here.region("source"), 0, piece, 2L * piece, count);
        Outcome.of(connection().send(4, parts, TransferOptions.DEFAULTS))
                .assertDone((long) piece * count);
        peer.outcome("receive").assertDone((long) piece * count);
        peer.tell(
                self -> {
                    for (int i = 0; i < count; i++) {
                        long at = 3L * piece * i;
                        Content.check(self.segment("target"), at, piece, i, 0);
                        Content.check(
                                self.segment("target"), at + piece, 2L * piece, STALE, at + piece);
                    }
                });
    }

    /// Of each side in an order and of lengths of its own.
    @Test
    void aHundredThousandPieces() {
        region("source", Kind.TELPHER, 4 * MIB);
        remote("target", Kind.TELPHER, 4 * MIB);
        soil("target", 0, 4 * MIB);
        // The fake GPU takes them one by one.
        int count = setting.path().isOnGpus() ? 10_000 : 100_000;
        long seed = random.nextLong();
        MemorySlices parts = pieces(here.region("source"), count, 24, 24);
        fill(here.segment("source"), parts, seed);
        peer.tell(
                self -> {
                    MemorySlices places = pieces(self.region("target"), count, 10, 38);
                    Connection connection = self.connection();
                    self.keep("receive", connection.receive(6, places, TransferOptions.DEFAULTS));
                });
        Transfer send = connection().send(6, parts, TransferOptions.DEFAULTS);
        Outcome.of(send).assertDone(parts.totalBytes());
        peer.outcome("receive").assertDone(parts.totalBytes());
        peer.tell(
                self -> {
                    MemorySegment expected = Bytes.off(4 * MIB, STALE);
                    fill(expected, pieces(self.region("target"), count, 10, 38), seed);
                    assertThat(self.segment("target").mismatch(expected)).isEqualTo(-1);
                });
    }

    /// Pieces of two lengths in turn, with gaps between them.
    private static MemorySlices pieces(MemoryRegion region, int count, int even, int odd) {
        long[] offsets = new long[count];
        long[] lengths = new long[count];
        for (int i = 0; i < count; i++) {
            offsets[i] = 41 * ((i + even) * 77_773L % count); // each place once
            lengths[i] = i % 2 == 0 ? even : odd;
        }
        return MemorySlices.of(region, offsets, lengths);
    }

    private static void fill(MemorySegment memory, MemorySlices pieces, long seed) {
        for (int i = 0; i < pieces.count(); i++) {
            long length = pieces.length(i);
            Content.fill(memory, pieces.offset(i), length, seed, pieces.start(i));
        }
    }

    @Test
    void manyMessagesThatNobodyExpectedYet() {
        int count = Scale.count(1500);
        region("source", Kind.TELPHER, 4096L * count);
        remote("target", Kind.TELPHER, 4096L * count);
        List<Transfer> sends = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            here.fill("source", 4096L * i, 4096, i);
            sends.add(send(i % 3, 4096L * i, 1 + i % 4096));
        }
        sleep(50);
        peer.tell(
                self -> {
                    for (int i = 0; i < count; i++) {
                        receive(self, "receive" + i, i % 3, 4096L * i, 4096);
                    }
                    for (int i = 0; i < count; i++) {
                        self.outcome("receive" + i).assertDone(1 + i % 4096);
                        self.check("target", 4096L * i, 1 + i % 4096, i);
                    }
                });
        sends.forEach(transfer -> assertThat(Outcome.of(transfer).error()).isNull());
    }

    @Test
    void largeMessagesThatNobodyExpectedYet() {
        int count = 24;
        region("source", Kind.FOREIGN, (long) MIB * count);
        remote("target", Kind.FOREIGN, (long) MIB * count);
        List<Transfer> sends = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            here.fill("source", (long) MIB * i, MIB, i);
            sends.add(send(9, (long) MIB * i, MIB));
        }
        sleep(50);
        // Nothing else suffers meanwhile.
        peer.tell(self -> receive(self, "other", 10, 0, 10));
        Outcome.of(send(10, 0, 10)).assertDone(10);
        peer.outcome("other").assertDone(10);
        peer.tell(
                self -> {
                    for (int i = 0; i < count; i++) {
                        receive(self, "receive" + i, 9, (long) MIB * i, MIB);
                    }
                    for (int i = 0; i < count; i++) {
                        self.outcome("receive" + i).assertDone(MIB);
                        self.check("target", (long) MIB * i, MIB, i);
                    }
                });
        sends.forEach(transfer -> Outcome.of(transfer).assertDone(MIB));
    }

    @Test
    void aCancelledReceiveLeavesTheTagInOrder() {
        region("target", Kind.FOREIGN, MIB);
        remote("source", Kind.TELPHER, MIB);
        for (int round = 0; round < Scale.count(30); round++) {
            int size = round % 2 == 0 ? 100 : 500_000;
            here.fill("target", 0, MIB, STALE);
            Transfer cancelled = connection().receive(3, here.slice("target", 0, MIB / 2));
            sleep(random.nextInt(3));
            assertThat(cancelled.cancel()).isTrue();
            Outcome outcome = Outcome.of(cancelled);
            assertThat(outcome.state()).isEqualTo(TransferState.CANCELLED);
            assertThat(outcome.remoteQuiet()).isEqualTo(RemoteQuiet.YES);
            assertThat(cancelled.cancel()).isFalse();
            Transfer receive = connection().receive(3, here.slice("target", MIB / 2, MIB / 2));
            long seed = random.nextLong();
            peer.tell(
                    self -> {
                        self.fill("source", 0, size, seed);
                        self.keep("send", self.connection().send(3, self.slice("source", 0, size)));
                    });
            Outcome.of(receive).assertDone(size);
            peer.outcome("send").assertDone(size);
            here.check("target", MIB / 2, size, seed);
            Content.check(here.segment("target"), 0, MIB / 2, STALE, 0);
        }
    }

    /// Its number is spent, and the peer hears of it: the next send meets the next receive,
    /// unless it had begun before.
    @ParameterizedTest
    @ValueSource(ints = {100, 500_000})
    void aReceiveWhoseRegionClosedLeavesTheTagInOrder(int size) {
        region("target", Kind.TELPHER, MIB);
        remote("source", Kind.TELPHER, MIB);
        for (int round = 0; round < Scale.count(4); round++) {
            MemoryRegion closing = here.endpoint().allocate(size);
            Transfer closed = connection().receive(5, closing.all());
            sleep(random.nextInt(3));
            closing.close();
            assertThat(Outcome.of(closed).error()).isInstanceOf(TelpherException.StaleRegion.class);
            here.fill("target", 0, MIB, STALE);
            Transfer receive = connection().receive(5, here.slice("target", 0, size));
            long seed = random.nextLong();
            peer.tell(
                    self -> {
                        self.fill("source", 0, size, seed);
                        self.keep("send", self.connection().send(5, self.slice("source", 0, size)));
                        if (self.outcome("send").state() == TransferState.CANCELLED) {
                            self.keep(
                                    "send",
                                    self.connection().send(5, self.slice("source", 0, size)));
                        }
                    });
            peer.outcome("send").assertDone(size);
            Outcome.of(receive).assertDone(size);
            here.check("target", 0, size, seed);
        }
    }

    @Test
    void cancelRacesWithTheMessage() {
        region("target", Kind.TELPHER, MIB);
        remote("source", Kind.TELPHER, MIB);
        for (int round = 0; round < Scale.count(100); round++) {
            int size = Scale.size(random, 1, 300_000);
            long seed = random.nextLong();
            long tag = 1000L + round;
            Transfer first = connection().receive(tag, here.slice("target", 0, size));
            CompletableFuture<Boolean> sending =
                    peer.begin(
                            self -> {
                                self.fill("source", 0, size, seed);
                                self.keep(
                                        "send",
                                        self.connection().send(tag, self.slice("source", 0, size)));
                            });
            for (int i = random.nextInt(2000); i > 0; i--) {
                Thread.onSpinWait();
            }
            first.cancel();
            Outcome outcome = Outcome.of(first);
            if (outcome.state() == TransferState.DONE) {
                outcome.assertDone(size);
                here.check("target", 0, size, seed);
            } else {
                // The memory is ours again: what is put there now stays.
                here.segment("target").asSlice(0, size).fill((byte) 0x77);
            }
            Peer.result(sending);
            if (outcome.state() != TransferState.DONE) {
                // Either the message was withdrawn as well, or it meets the next receive.
                Transfer second = connection().receive(tag, here.slice("target", MIB / 2, size));
                Outcome sent = peer.outcome("send");
                if (sent.state() != TransferState.DONE) {
                    assertThat(sent.state()).isEqualTo(TransferState.CANCELLED);
                    peer.tell(
                            self ->
                                    Outcome.of(
                                                    self.connection()
                                                            .send(
                                                                    tag,
                                                                    self.slice("source", 0, size)))
                                            .assertDone(size));
                }
                Outcome.of(second).assertDone(size);
                here.check("target", MIB / 2, size, seed);
                Content.checkAll(here.segment("target"), 0, size, (byte) 0x77);
            }
            peer.outcome("send");
        }
    }

    /// Whatever ends it: nobody writes into its memory after that, though the sender may be in the
    /// middle of storing by itself.
    @ParameterizedTest
    @EnumSource(
            value = Kind.class,
            names = {"TELPHER", "FOREIGN"})
    void aReceiveThatHasEndedIsNotWrittenAnyMore(Kind kind) {
        int size = 32 * MIB;
        region("source", Kind.FOREIGN, size);
        remote("target", kind, size);
        for (int round = 0; round < Scale.count(10); round++) {
            long tag = 7_000L + round;
            peer.tell(self -> receive(self, "receive", tag, 0, size));
            CompletableFuture<Boolean> quiet =
                    peer.begin(
                            self -> {
                                if (self.outcome("receive").state() == TransferState.DONE) {
                                    return;
                                }
                                self.segment("target").fill((byte) 0x77);
                                sleep(5);
                                Content.checkAll(self.segment("target"), 0, size, (byte) 0x77);
                            });
            TransferOptions soon =
                    TransferOptions.DEFAULTS.withDeadline(
                            Duration.ofNanos(500_000 + random.nextInt(8_000_000)));
            MemorySlices all = MemorySlices.of(here.region("source").all());
            Transfer send =
                    connection().send(tag, all, round % 2 == 0 ? soon : TransferOptions.DEFAULTS);
            if (round % 2 == 1) {
                for (int i = random.nextInt(20_000); i > 0; i--) {
                    Thread.onSpinWait();
                }
                send.cancel();
            }
            assertThat(Outcome.of(send).state())
                    .isIn(TransferState.DONE, TransferState.TIMED_OUT, TransferState.CANCELLED);
            Peer.result(quiet);
        }
    }

    @Test
    void aSendThatHasNotStartedCanBeWithdrawn() {
        region("source", Kind.TELPHER, 16 * MIB);
        remote("target", Kind.TELPHER, 16 * MIB);
        Transfer withdrawn = send(4, 0, 16 * MIB);
        sleep(20);
        withdrawn.cancel();
        Outcome outcome = Outcome.of(withdrawn);
        assertThat(outcome.state()).isEqualTo(TransferState.CANCELLED);
        here.fill("source", 0, 1000, 6);
        Transfer next = send(4, 0, 1000);
        peer.tell(self -> receive(self, "receive", 4, 0, 16 * MIB));
        // The peer may know of the first message already; then its receive ends like the message.
        if (peer.outcome("receive").state() == TransferState.CANCELLED) {
            peer.tell(self -> receive(self, "receive", 4, 0, 16 * MIB));
        }
        Outcome.of(next).assertDone(1000);
        peer.outcome("receive").assertDone(1000);
        peer.check("target", 0, 1000, 6);
    }

    @Test
    void aReceiveWithoutSenderRunsIntoItsDeadline() {
        region("target", Kind.TELPHER, 1000);
        remote("source", Kind.TELPHER, 1000);
        TransferOptions soon = TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(100));
        MemorySlices all = MemorySlices.of(here.region("target").all());
        Outcome outcome = Outcome.of(connection().receive(6, all, soon));
        assertThat(outcome.state()).isEqualTo(TransferState.TIMED_OUT);
        assertThat(outcome.waited()).isLessThan(Duration.ofMillis(2500).toNanos());
        Transfer receive = connection().receive(6, here.region("target").all());
        peer.tell(
                self -> {
                    self.fill("source", 0, 1000, 3);
                    Outcome.of(self.connection().send(6, self.region("source").all()))
                            .assertDone(1000);
                });
        Outcome.of(receive).assertDone(1000);
        here.check("target", 0, 1000, 3);
    }
}

package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.CounterUpdate;
import io.telpher.MemoryRegion;
import io.telpher.Notification;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Notifications and counters: they come once, in order, and after the bytes.
abstract class NotificationContract extends Contract {
    private static final int MIB = 1 << 20;
    private static final Duration LIMIT = Participant.LIMIT;

    /// From `DONE` until the peer has heard of it, the quickest of many: elsewhere each takes two
    /// seconds.
    private static final Duration AT_ONCE = Duration.ofMillis(100);

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aNotificationComesAfterTheBytesOfItsWrite(Kind kind) {
        region("source", Kind.TELPHER, 4 * MIB);
        RemoteMemory target = remote("target", kind, 4 * MIB);
        int[] bodies = {0, 1, 63, 64, 65, 255, 256, 1000, 4032, 4096, 65_536, MIB, 5 * MIB};
        int[] sizes = {0, 8, 100, 5000, 65_536, 300_000, 4 * MIB - MARGIN};
        long quickest = Long.MAX_VALUE;
        for (int body : bodies) {
            for (int size : sizes) {
                long seed = random.nextLong();
                here.fill("source", 0, size, seed);
                soil("target", 0, size);
                CompletableFuture<Boolean> seen =
                        peer.begin(
                                self -> {
                                    Notification note = self.connection().awaitNotification(LIMIT);
                                    // At once: nothing else tells that the bytes are there.
                                    verify(self, "target", 0, size, seed);
                                    assertThat(note.payload()).hasSize(body);
                                    Content.check(
                                            MemorySegment.ofArray(note.payload()), 0, body, ~seed);
                                });
                TransferOptions options =
                        TransferOptions.DEFAULTS.withNotification(Bytes.off(body, ~seed));
                Outcome.of(
                                connection()
                                        .write(
                                                here.slice("source", 0, size),
                                                target.slice(0, size),
                                                options))
                        .assertDone(size);
                long done = System.nanoTime();
                Peer.result(seen);
                quickest = Math.min(quickest, System.nanoTime() - done);
            }
        }
        assertThat(Duration.ofNanos(quickest)).as("the quickest of all").isLessThan(AT_ONCE);
    }

    @Test
    void notificationsOfOneThreadArriveInOrderAndOnce() {
        int count = Scale.count(3000);
        long seed = random.nextLong();
        CompletableFuture<Boolean> seen =
                peer.begin(
                        self -> {
                            Random dice = new Random(seed);
                            Random style = new Random(seed + 1);
                            for (int i = 0; i < count; i++) {
                                byte[] body = take(self.connection(), style);
                                assertThat(body).hasSize(bodySize(dice));
                                assertThat(ByteBuffer.wrap(body).getInt()).isEqualTo(i);
                                Content.check(
                                        MemorySegment.ofArray(body), 4, body.length - 4, seed + i);
                            }
                            assertThat(self.connection().pollNotification()).isNull();
                        });
        Random dice = new Random(seed);
        List<Transfer> transfers = new ArrayList<>();
        MemorySegment body = Arena.ofAuto().allocate(200_000);
        for (int i = 0; i < count; i++) {
            int size = bodySize(dice);
            body.set(ValueLayout.JAVA_INT_UNALIGNED, 0, Integer.reverseBytes(i));
            Content.fill(body, 4, size - 4, seed + i);
            // The body is read before the method returns.
            transfers.add(connection().notifyPeer(body.asSlice(0, size)));
            if (random.nextInt(20) == 0) {
                Outcome.of(transfers.getLast()).assertDone();
            }
        }
        transfers.forEach(transfer -> assertThat(Outcome.of(transfer).error()).isNull());
        Peer.result(seen);
    }

    /// Takes the next notification in one of the ways that there are.
    private static byte[] take(Connection connection, Random style) {
        return switch (style.nextInt(4)) {
            case 0 -> connection.awaitNotification(LIMIT).payload();
            case 1 -> into(connection, MemorySegment.ofArray(new byte[200_000]));
            case 2 -> {
                try {
                    yield into(connection, Bytes.off(16, 0));
                } catch (IndexOutOfBoundsException e) {
                    yield into(connection, Bytes.off(200_000, 0));
                }
            }
            default -> {
                MemorySegment gone;
                try (Arena arena = Arena.ofShared()) {
                    gone = arena.allocate(200_000);
                }
                assertThatThrownBy(() -> into(connection, gone))
                        .isInstanceOf(IllegalStateException.class);
                yield into(connection, Bytes.off(200_000, 0));
            }
        };
    }

    private static byte[] into(Connection connection, MemorySegment memory) {
        int length = awaitInto(connection, memory);
        return memory.asSlice(0, length).toArray(ValueLayout.JAVA_BYTE);
    }

    private static int bodySize(Random dice) {
        return dice.nextInt(50) == 0 ? Scale.size(dice, 4, 200_000) : Scale.size(dice, 4, 300);
    }

    @Test
    void notificationsGoBothWaysAtTheSameTime() {
        int count = Scale.count(500);
        CompletableFuture<Boolean> there = peer.begin(self -> pingPong(self, count, 0));
        pingPong(here, count, 1);
        Peer.result(there);
    }

    private static void pingPong(Participant self, int count, int first) {
        MemorySegment word = Arena.ofAuto().allocate(8);
        for (int i = 0; i < count; i++) {
            if (i % 2 == first) {
                word.set(ValueLayout.JAVA_LONG, 0, i);
                Outcome.of(self.connection().notifyPeer(word)).assertDone();
            } else {
                byte[] body = self.connection().awaitNotification(LIMIT).payload();
                assertThat(MemorySegment.ofArray(body).get(ValueLayout.JAVA_LONG_UNALIGNED, 0))
                        .isEqualTo(i);
            }
        }
    }

    @Test
    void theFormWithoutAllocationKeepsWhatDoesNotFit() {
        peer.tell(self -> Outcome.of(self.connection().notifyPeer(Bytes.off(100, 4))).assertDone());
        MemorySegment small = Bytes.off(99, 0);
        MemorySegment large = Bytes.off(200, 0);
        assertThatThrownBy(() -> awaitInto(connection(), small))
                .isInstanceOf(IndexOutOfBoundsException.class);
        assertThat(awaitInto(connection(), large)).isEqualTo(100);
        Content.check(large, 0, 100, 4);
        Content.check(large, 100, 100, 0, 100);
        assertThat(connection().pollNotification(large)).isEqualTo(-1);
        assertThat(connection().pollNotification()).isNull();
    }

    private static int awaitInto(Connection connection, MemorySegment memory) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (System.nanoTime() < end) {
            int length = connection.pollNotification(memory);
            if (length >= 0) {
                return length;
            }
        }
        throw new AssertionError("no notification came");
    }

    @Test
    void waitingForANotificationEnds() {
        long start = System.nanoTime();
        assertThatThrownBy(() -> connection().awaitNotification(Duration.ofMillis(100)))
                .isInstanceOf(TelpherException.TimedOut.class);
        assertThat(Duration.ofNanos(System.nanoTime() - start))
                .isBetween(Duration.ofMillis(99), Duration.ofSeconds(2));
    }

    @Test
    void aNotificationAboveTheLimitIsRefused() {
        MemorySegment tooLong = Arena.ofAuto().allocate((16L << 20) + 1);
        assertThatThrownBy(() -> connection().notifyPeer(tooLong))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContainingAll("16777217", "16777216", "maxNotification");
        Outcome.of(connection().notifyPeer(Bytes.off(3, 3))).assertDone();
        byte[] body = peer.run(self -> self.connection().awaitNotification(LIMIT).payload());
        assertThat(body).hasSize(3);
    }

    @Test
    void noNotificationAndNoCounterForAWriteThatFails() {
        MemoryRegion source = region("source", Kind.TELPHER, 1000);
        RemoteMemory closed = remote("closed", Kind.TELPHER, 1000);
        RemoteMemory counter = remote("counter", Kind.TELPHER, 8);
        peer.tell(self -> self.closeRegion("closed"));
        TransferOptions options =
                TransferOptions.DEFAULTS
                        .withNotification(Bytes.off(10, 1))
                        .withCounter(CounterUpdate.add(counter, 1));
        assertThat(Outcome.failure(() -> connection().write(source.all(), closed, options)))
                .isInstanceOf(TelpherException.StaleRegion.class);
        peer.tell(
                self -> {
                    assertThatThrownBy(
                                    () ->
                                            self.connection()
                                                    .awaitNotification(Duration.ofMillis(100)))
                            .isInstanceOf(TelpherException.TimedOut.class);
                    assertThat(Bytes.acquire(self.segment("counter"), 0)).isZero();
                });
    }

    @Test
    void failedWritesDoNotUseUpTheRoomForNotifications() {
        MemoryRegion source = region("source", Kind.TELPHER, 200_000);
        RemoteMemory closed = remote("closed", Kind.TELPHER, 200_000);
        RemoteMemory good = remote("good", Kind.TELPHER, 200_000);
        peer.tell(self -> self.closeRegion("closed"));
        for (int i = 0; i < 100; i++) {
            long size = i % 2 == 0 ? 8 : 150_000;
            MemorySegment body = Bytes.off(i % 10 == 0 ? 100_000 : 4000, i);
            TransferOptions options =
                    i % 3 == 0
                            ? TransferOptions.DEFAULTS.withNotification(body)
                            : TransferOptions.DEFAULTS
                                    .withNotification(body)
                                    .withCounter(CounterUpdate.add(closed.slice(0, 8), 1));
            RemoteMemory target = i % 3 == 2 ? good : closed;
            assertThat(
                            Outcome.failure(
                                    () ->
                                            connection()
                                                    .write(source.slice(0, size), target, options)))
                    .isInstanceOf(TelpherException.StaleRegion.class);
        }
        checkNotifications();
    }

    @Test
    void cancelledNotificationsLeaveTheOthersAlone() {
        for (int i = 0; i < Scale.count(40); i++) {
            Transfer cancelled = connection().notifyPeer(Bytes.off(i % 2 == 0 ? 3 << 20 : 100, 9));
            Transfer next = connection().notifyPeer(Bytes.off(20, i));
            cancelled.cancel();
            Outcome.of(next).assertDone();
            boolean withdrawn = Outcome.of(cancelled).state() == TransferState.CANCELLED;
            long seed = i;
            peer.tell(
                    self -> {
                        byte[] body = self.connection().awaitNotification(LIMIT).payload();
                        if (body.length != 20) {
                            body = self.connection().awaitNotification(LIMIT).payload();
                        } else {
                            assertThat(withdrawn).isTrue();
                        }
                        Content.check(MemorySegment.ofArray(body), 0, 20, seed);
                        assertThat(self.connection().pollNotification()).isNull();
                    });
        }
        checkNotifications();
    }

    /// Checks that notifications of all sizes get through.
    private void checkNotifications() {
        for (int size : new int[] {10, 8000, 100_000, 10, 1 << 20}) {
            Transfer note = connection().notifyPeer(Bytes.off(size, size));
            peer.tell(
                    self -> {
                        byte[] body = self.connection().awaitNotification(LIMIT).payload();
                        assertThat(body).hasSize(size);
                        Content.check(MemorySegment.ofArray(body), 0, size, size);
                    });
            Outcome.of(note).assertDone();
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aCounterIsRaisedAfterTheBytes(Kind kind) {
        int slot = 100_000;
        int count = Scale.count(100);
        MemoryRegion source = region("source", kind, slot);
        RemoteMemory target = remote("target", kind, (long) slot * count);
        RemoteMemory counters = remote("counters", kind, 64);
        long seed = random.nextLong();
        int[] sizes = random.ints(count, 0, slot).map(size -> size & -(size & 7)).toArray();
        peer.tell(self -> Bytes.release(self.segment("counters"), 8, 1000));
        CompletableFuture<Boolean> watcher =
                peer.begin(
                        self -> {
                            MemorySegment words = self.segment("counters");
                            for (int i = 0; i < count; i++) {
                                // Even steps add, odd ones store.
                                long place = i % 2 == 0 ? 8 : 32;
                                long value = i % 2 == 0 ? 1000 + 3 * (i / 2 + 1) : -i;
                                awaitWord(words, place, value);
                                self.check("target", (long) slot * i, sizes[i], seed + i);
                                Outcome.of(self.connection().notifyPeer(Bytes.off(1, 1)))
                                        .assertDone();
                            }
                        });
        long quickest = Long.MAX_VALUE;
        for (int i = 0; i < count; i++) {
            here.fill("source", 0, sizes[i], seed + i);
            CounterUpdate update =
                    i % 2 == 0
                            ? CounterUpdate.add(counters.slice(8, 8), 3)
                            : CounterUpdate.set(counters.slice(32, 16), -i);
            Outcome.of(
                            connection()
                                    .write(
                                            source.slice(0, sizes[i]),
                                            target.slice((long) slot * i, sizes[i]),
                                            TransferOptions.DEFAULTS.withCounter(update)))
                    .assertDone(sizes[i]);
            long done = System.nanoTime();
            connection().awaitNotification(LIMIT);
            quickest = Math.min(quickest, System.nanoTime() - done);
        }
        assertThat(Duration.ofNanos(quickest)).as("the quickest of all").isLessThan(AT_ONCE);
        Peer.result(watcher);
        peer.tell(
                self -> {
                    for (long at : new long[] {0, 16, 24, 40, 48, 56}) {
                        assertThat(Bytes.acquire(self.segment("counters"), at)).isZero();
                    }
                });
    }

    private static void awaitWord(MemorySegment words, long place, long value) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (Bytes.acquire(words, place) != value) {
            if (System.nanoTime() > end) {
                throw new AssertionError(
                        "the counter at %d is %d, not %d"
                                .formatted(place, Bytes.acquire(words, place), value));
            }
            Thread.onSpinWait();
        }
    }

    @Test
    void addsOfManyThreadsAreNeitherLostNorDoubled() {
        int threads = 4;
        int each = Scale.count(500);
        MemoryRegion source = region("source", Kind.TELPHER, 64);
        RemoteMemory target = remote("target", Kind.TELPHER, 64);
        RemoteMemory counter = remote("counter", Kind.TELPHER, 8);
        byte[] mine = region("counter", Kind.TELPHER, 8).remote().toBytes();
        CompletableFuture<Boolean> there =
                peer.begin(
                        self -> {
                            MemoryRegion region = self.region("target");
                            RemoteMemory word = RemoteMemory.ofBytes(mine);
                            for (int i = 0; i < each; i++) {
                                TransferOptions options =
                                        TransferOptions.DEFAULTS.withCounter(
                                                CounterUpdate.add(word, 5));
                                Outcome.of(
                                                self.connection()
                                                        .write(
                                                                region.slice(0, 0),
                                                                word.slice(0, 0),
                                                                options))
                                        .assertDone(0);
                            }
                        });
        List<CompletableFuture<Void>> posters =
                IntStream.range(0, threads)
                        .mapToObj(
                                thread ->
                                        CompletableFuture.runAsync(
                                                () -> {
                                                    for (int i = 0; i < each; i++) {
                                                        addOnce(source, target, counter);
                                                    }
                                                },
                                                task -> new Thread(task, "test-adder").start()))
                        .toList();
        posters.forEach(Peer::result);
        Peer.result(there);
        assertThat(peer.<Long>run(self -> Bytes.acquire(self.segment("counter"), 0)))
                .isEqualTo((long) threads * each);
        assertThat(Bytes.acquire(here.segment("counter"), 0)).isEqualTo(5L * each);
    }

    private void addOnce(MemoryRegion source, RemoteMemory target, RemoteMemory counter) {
        TransferOptions options =
                TransferOptions.DEFAULTS.withCounter(CounterUpdate.add(counter, 1));
        Outcome.of(connection().write(source.all(), target, options)).assertDone(64);
    }

    @Test
    void aCounterAndANotificationOnOneWrite() {
        MemoryRegion source = region("source", Kind.TELPHER, 50_000);
        RemoteMemory target = remote("target", Kind.TELPHER, 50_000);
        RemoteMemory counter = remote("counter", Kind.FOREIGN, 16);
        here.fill("source", 0, 50_000, 12);
        TransferOptions options =
                TransferOptions.DEFAULTS
                        .withNotification(Bytes.off(20, 13))
                        .withCounter(CounterUpdate.set(counter.slice(8, 8), Long.MIN_VALUE));
        Outcome.of(connection().write(source.all(), target, options)).assertDone(50_000);
        peer.tell(
                self -> {
                    Notification note = self.connection().awaitNotification(LIMIT);
                    Content.check(MemorySegment.ofArray(note.payload()), 0, 20, 13);
                    assertThat(Bytes.acquire(self.segment("counter"), 8)).isEqualTo(Long.MIN_VALUE);
                    assertThat(Bytes.acquire(self.segment("counter"), 0)).isZero();
                    self.check("target", 0, 50_000, 12);
                });
    }

    @Test
    void aCounterOfAClosedRegionFailsTheWrite() {
        MemoryRegion source = region("source", Kind.TELPHER, 100);
        RemoteMemory target = remote("target", Kind.TELPHER, 100);
        RemoteMemory counter = remote("counter", Kind.TELPHER, 8);
        peer.tell(self -> self.closeRegion("counter"));
        TransferOptions options =
                TransferOptions.DEFAULTS.withCounter(CounterUpdate.add(counter, 1));
        assertThat(Outcome.failure(() -> connection().write(source.all(), target, options)))
                .isInstanceOf(TelpherException.StaleRegion.class);
    }
}

package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.Priority;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.RemoteSlices;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/// The ways to post and to wait: prepared transfers, callbacks, stages, threads, priorities.
abstract class StyleContract extends Contract {
    private static final Duration LIMIT = Participant.LIMIT;

    @Test
    void aPreparedWriteCanBePostedTenThousandTimes() {
        MemoryRegion source = region("source", Kind.TELPHER, 4096);
        RemoteMemory target = remote("target", Kind.TELPHER, 4096);
        int count = Scale.count(10_000);
        Transfer write =
                connection().prepareWrite(source.slice(1, 1000), target.slice(5, 1000), defaults());
        assertThat(write.state()).isEqualTo(TransferState.IDLE);
        soil("target", 0, 4096);
        for (int i = 1; i <= count; i++) {
            here.fill("source", 0, 1008, i);
            write.post();
            Outcome.of(write).assertDone(1000);
            if (i % 1000 == 1 || i == count) {
                int round = i;
                peer.tell(
                        self -> {
                            Content.check(self.segment("target"), 5, 1000, round, 1);
                            verifyMargins(self, "target", 5, 1000);
                        });
            }
        }
    }

    @Test
    void preparedReadsAndVectorsCanBePostedAgain() {
        MemoryRegion local = region("local", Kind.TELPHER, 65_536);
        RemoteMemory remote = remote("remote", Kind.TELPHER, 65_536);
        Transfer read = connection().prepareRead(local.all(), remote, defaults());
        Transfer write =
                connection()
                        .prepareWrite(
                                MemorySlices.strided(local, 0, 64, 128, 512),
                                RemoteSlices.strided(remote, 128, 256, 256),
                                defaults());
        for (int i = 1; i <= Scale.count(300); i++) {
            long seed = i;
            peer.fill("remote", 0, 65_536, seed);
            read.post();
            Outcome.of(read).assertDone(65_536);
            here.check("local", 0, 65_536, seed);
            here.fill("local", 0, 65_536, -seed);
            write.post();
            Outcome.of(write).assertDone(32_768);
            peer.tell(
                    self -> {
                        for (int k = 0; k < 512; k++) {
                            long at = k / 2 * 256L + k % 2 * 64L;
                            Content.check(self.segment("remote"), at, 64, -seed, k * 128L);
                        }
                    });
        }
    }

    @Test
    void preparedSendsAndReceivesMatchInPostOrder() {
        int count = Scale.count(10_000);
        region("buffer", Kind.TELPHER, 512);
        remote("buffer", Kind.TELPHER, 512);
        CompletableFuture<Boolean> echo =
                peer.begin(
                        self -> {
                            MemorySlices all = MemorySlices.of(self.region("buffer").all());
                            Transfer receive = self.connection().prepareReceive(8, all, defaults());
                            Transfer send = self.connection().prepareSend(9, all, defaults());
                            for (int i = 0; i < count; i++) {
                                receive.post();
                                Outcome.of(receive).assertDone(512);
                                self.check("buffer", 0, 512, i);
                                self.fill("buffer", 0, 512, -i);
                                send.post();
                                Outcome.of(send).assertDone(512);
                            }
                        });
        MemorySlices all = MemorySlices.of(here.region("buffer").all());
        Transfer receive = connection().prepareReceive(9, all, defaults());
        Transfer send = connection().prepareSend(8, all, defaults());
        for (int i = 0; i < count; i++) {
            here.fill("buffer", 0, 512, i);
            send.post();
            Outcome.of(send).assertDone(512);
            receive.post();
            Outcome.of(receive).assertDone(512);
            here.check("buffer", 0, 512, -i);
        }
        Peer.result(echo);
    }

    private static TransferOptions defaults() {
        return TransferOptions.DEFAULTS;
    }

    @Test
    void aPendingTransferCannotBePostedAgain() {
        MemoryRegion local = region("local", Kind.TELPHER, 100);
        Transfer receive = connection().prepareReceive(5, MemorySlices.of(local.all()), defaults());
        receive.post();
        assertThat(receive.state()).isEqualTo(TransferState.PENDING);
        assertThat(receive.remoteQuiet()).isEqualTo(RemoteQuiet.UNKNOWN);
        assertThat(receive.error()).isNull();
        assertThatThrownBy(receive::post).isInstanceOf(IllegalStateException.class);
        receive.cancel();
        assertThat(Outcome.of(receive).state()).isEqualTo(TransferState.CANCELLED);
        receive.post();
        assertThat(receive.state()).isEqualTo(TransferState.PENDING);
        receive.cancel();
        assertThat(Outcome.of(receive).state()).isEqualTo(TransferState.CANCELLED);
    }

    /// Each of a list ends by itself, and messages of one tag go in the order of the list.
    @Test
    void aListIsPostedInItsOrder() {
        int count = 30;
        int most = 70_000;
        MemoryRegion source = region("source", Kind.TELPHER, (long) count * most);
        RemoteMemory target = remote("target", Kind.TELPHER, (long) count * most);
        remote("inbox", Kind.TELPHER, 64L * count);
        here.fill("source", 0, source.size(), 7);
        List<Transfer> list = new ArrayList<>();
        List<Integer> sizes = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int size = i % 3 == 0 ? Scale.size(random, 0, most) : 8;
            long at = (long) i * most;
            list.add(
                    connection()
                            .prepareWrite(
                                    source.slice(at, size), target.slice(at, size), defaults()));
            sizes.add(size);
            list.add(connection().prepareSend(5, MemorySlices.of(source.slice(i, 64)), defaults()));
            sizes.add(64);
        }
        for (int round = 0; round < 3; round++) {
            soil("target", 0, (long) count * most);
            Transfer.postAll(list);
            peer.tell(
                    self -> {
                        for (int i = 0; i < count; i++) {
                            Outcome.of(
                                            self.connection()
                                                    .receive(5, self.slice("inbox", 64L * i, 64)))
                                    .assertDone(64);
                            Content.check(self.segment("inbox"), 64L * i, 64, 7, i);
                        }
                    });
            for (int i = 0; i < list.size(); i++) {
                Outcome.of(list.get(i)).assertDone(sizes.get(i));
            }
            peer.tell(
                    self -> {
                        for (int i = 0; i < count; i++) {
                            long at = (long) i * most;
                            Content.check(self.segment("target"), at, sizes.get(2 * i), 7, at);
                        }
                    });
        }
        assertThatThrownBy(() -> Transfer.postAll(List.of(list.get(0), list.get(1), list.get(1))))
                .isInstanceOf(IllegalStateException.class);
        peer.tell(
                self ->
                        Outcome.of(self.connection().receive(5, self.slice("inbox", 0, 64)))
                                .assertDone(64));
        Outcome.of(list.get(0)).assertDone(sizes.get(0));
        Outcome.of(list.get(1)).assertDone(64);
    }

    @Test
    void waitingForATransferGivesUpAndTheTransferGoesOn() {
        MemoryRegion local = region("local", Kind.TELPHER, 100);
        remote("source", Kind.TELPHER, 100);
        Transfer receive = connection().receive(5, local.all());
        long start = System.nanoTime();
        assertThat(receive.await(Duration.ofMillis(50))).isFalse();
        assertThat(Duration.ofNanos(System.nanoTime() - start))
                .isBetween(Duration.ofMillis(49), Duration.ofSeconds(2));
        assertThat(receive.poll()).isEqualTo(TransferState.PENDING);
        peer.tell(
                self -> {
                    self.fill("source", 0, 100, 6);
                    Outcome.of(self.connection().send(5, self.region("source").all()))
                            .assertDone(100);
                });
        receive.await();
        here.check("local", 0, 100, 6);
    }

    @Test
    void awaitThrowsTheError() {
        MemoryRegion local = region("local", Kind.TELPHER, 100);
        Transfer receive = connection().receive(5, local.all());
        receive.cancel();
        assertThatThrownBy(receive::await).isInstanceOf(TelpherException.Cancelled.class);
    }

    @Test
    void pollingAloneEndsATransfer() {
        MemoryRegion source = region("source", Kind.TELPHER, 2 << 20);
        RemoteMemory target = remote("target", Kind.TELPHER, 2 << 20);
        here.fill("source", 0, 2 << 20, 3);
        Transfer write = connection().write(source.all(), target);
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!write.poll().isTerminal() && System.nanoTime() < end) {
            Thread.onSpinWait();
        }
        assertThat(write.state()).isEqualTo(TransferState.DONE);
        peer.check("target", 0, 2 << 20, 3);
    }

    @Test
    void theEndComesWithoutAnybodyWaitingForIt() throws Exception {
        MemoryRegion source = region("source", Kind.TELPHER, 1 << 20);
        RemoteMemory target = remote("target", Kind.TELPHER, 1 << 20);
        for (int i = 0; i < 30; i++) {
            CountDownLatch ended = new CountDownLatch(1);
            Transfer write = connection().write(source.slice(0, 1 << i % 20), target);
            write.onEnd(transfer -> ended.countDown());
            assertThat(ended.await(10, TimeUnit.SECONDS)).isTrue();
            assertThat(write.state()).isEqualTo(TransferState.DONE);
        }
    }

    @Test
    void callbacksRunOncePerPostingAndMayPost() {
        MemoryRegion source = region("source", Kind.TELPHER, 64);
        RemoteMemory target = remote("target", Kind.TELPHER, 64);
        int rounds = Scale.count(500);
        AtomicInteger runs = new AtomicInteger();
        CompletableFuture<Transfer> finished = new CompletableFuture<>();
        Transfer write = connection().prepareWrite(source.all(), target, defaults());
        write.post();
        write.onEnd(
                new java.util.function.Consumer<>() {
                    @Override
                    public void accept(Transfer transfer) {
                        if (transfer.state() != TransferState.DONE) {
                            finished.completeExceptionally(transfer.error());
                        } else if (runs.incrementAndGet() == rounds) {
                            finished.complete(transfer);
                        } else {
                            transfer.post();
                            transfer.onEnd(this);
                        }
                    }
                });
        assertThat(Peer.result(finished)).isSameAs(write);
        sleep(20);
        assertThat(runs).hasValue(rounds);
        // At once when the transfer has ended already.
        write.onEnd(transfer -> runs.incrementAndGet());
        assertThat(runs).hasValue(rounds + 1);
    }

    @Test
    void stagesCompleteWithTheTransferOrItsError() {
        MemoryRegion source = region("source", Kind.TELPHER, 100_000);
        RemoteMemory target = remote("target", Kind.TELPHER, 100_000);
        here.fill("source", 0, 100_000, 2);
        Transfer write = connection().write(source.all(), target);
        CompletableFuture<Long> moved =
                write.completion().thenApply(Transfer::bytesMoved).toCompletableFuture();
        assertThat(Peer.result(moved)).isEqualTo(100_000);
        peer.check("target", 0, 100_000, 2);
        Transfer receive = connection().receive(5, source.all());
        CompletableFuture<Transfer> stage = receive.completion().toCompletableFuture();
        assertThat(stage).isNotDone();
        receive.cancel();
        assertThatThrownBy(() -> stage.get(10, TimeUnit.SECONDS))
                .isInstanceOf(ExecutionException.class)
                .hasCauseInstanceOf(TelpherException.Cancelled.class);
        assertThat(receive.completion().toCompletableFuture()).isCompletedExceptionally();
    }

    @Test
    void manyThreadsShareAConnection() {
        int threads = 6;
        int rounds = Scale.count(150);
        int room = 70_000;
        region("source", Kind.TELPHER, (long) room * threads);
        region("back", Kind.FOREIGN, (long) room * threads);
        RemoteMemory target = remote("target", Kind.TELPHER, (long) room * threads);
        Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
        AtomicLong seeds = new AtomicLong(random.nextLong());
        List<Thread> posters =
                IntStream.range(0, threads)
                        .mapToObj(
                                i ->
                                        Thread.ofPlatform()
                                                .name("test-poster-" + i)
                                                .start(
                                                        () ->
                                                                roundTrips(
                                                                        i, room, rounds, target,
                                                                        seeds, errors)))
                        .toList();
        posters.forEach(StyleContract::join);
        assertThat(errors).isEmpty();
    }

    private void roundTrips(
            int index,
            int room,
            int rounds,
            RemoteMemory target,
            AtomicLong seeds,
            Queue<Throwable> errors) {
        try {
            java.util.Random dice = new java.util.Random(seeds.get() + index);
            long at = (long) index * room;
            for (int i = 0; i < rounds; i++) {
                int size = Scale.size(dice, 0, room);
                long seed = seeds.incrementAndGet();
                here.fill("source", at, size, seed);
                Outcome.of(
                                connection()
                                        .write(
                                                here.slice("source", at, size),
                                                target.slice(at, size)))
                        .assertDone(size);
                Outcome.of(connection().read(here.slice("back", at, size), target.slice(at, size)))
                        .assertDone(size);
                here.check("back", at, size, seed);
            }
        } catch (Throwable e) {
            errors.add(e);
        }
    }

    private static void join(Thread thread) {
        try {
            assertThat(thread.join(Duration.ofSeconds(90))).as("%s ended", thread).isTrue();
        } catch (InterruptedException e) {
            throw new AssertionError("interrupted", e);
        }
    }

    @Test
    void cancellingSomeLeavesTheOthersAlone() {
        int size = 200_000;
        int count = 90;
        MemoryRegion source = region("source", Kind.FOREIGN, (long) size * count);
        RemoteMemory target = remote("target", Kind.FOREIGN, (long) size * count);
        here.fill("source", 0, source.size(), 6);
        for (boolean read : new boolean[] {false, true}) {
            List<Transfer> transfers = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                long at = (long) size * i;
                transfers.add(
                        read
                                ? connection().read(source.slice(at, size), target.slice(at, size))
                                : connection()
                                        .write(source.slice(at, size), target.slice(at, size)));
            }
            for (int i = 0; i < count; i += 1 + random.nextInt(4)) {
                transfers.get(i).cancel();
            }
            for (int i = 0; i < count; i++) {
                Outcome outcome = Outcome.of(transfers.get(i));
                if (outcome.state() != TransferState.CANCELLED) {
                    outcome.assertDone(size);
                    long at = (long) size * i;
                    peer.tell(self -> Content.check(self.segment("target"), at, size, 6, at));
                    Content.check(source.segment(), at, size, 6, at);
                }
            }
            peer.fill("target", 0, source.size(), 6);
        }
    }

    @Test
    void virtualThreadsMayPostAndWait() {
        MemoryRegion source = region("source", Kind.TELPHER, 4096);
        RemoteMemory target = remote("target", Kind.TELPHER, 4096);
        here.fill("source", 0, 4096, 4);
        List<Thread> threads = new ArrayList<>();
        Queue<Throwable> errors = new ConcurrentLinkedQueue<>();
        for (int i = 0; i < 50; i++) {
            int at = i * 64;
            threads.add(
                    Thread.startVirtualThread(
                            () -> {
                                try {
                                    Outcome.of(
                                                    connection()
                                                            .write(
                                                                    source.slice(at, 64),
                                                                    target.slice(at, 64)))
                                            .assertDone(64);
                                } catch (Throwable e) {
                                    errors.add(e);
                                }
                            }));
        }
        threads.forEach(StyleContract::join);
        assertThat(errors).isEmpty();
        peer.check("target", 0, 50 * 64, 4);
    }

    /// Whatever the path, notifications that the peer has no room for wait; no time decides here.
    @Test
    void aHighOneOvertakesThoseThatWait() {
        int count = 100;
        int sent = 64; // those before it that the peer has room for: 64 KiB of them
        TransferOptions high = defaults().withPriority(Priority.HIGH);
        List<Transfer> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            all.add(connection().notifyPeer(numbered(i), defaults()));
        }
        all.add(connection().notifyPeer(numbered(count), high));
        List<Integer> order = peer.run(self -> takeInOrder(self, count + 1));
        all.forEach(transfer -> Outcome.of(transfer).assertDone());
        assertThat(order.indexOf(count)).as("its place in %s", order).isLessThanOrEqualTo(sent);
        order.remove((Integer) count);
        assertThat(order).as("the others").isEqualTo(IntStream.range(0, count).boxed().toList());
    }

    private static MemorySegment numbered(int number) {
        return Bytes.off(ByteBuffer.allocate(1024).putInt(number).array());
    }

    private static ArrayList<Integer> takeInOrder(Participant self, int count) {
        ArrayList<Integer> numbers = new ArrayList<>();
        while (numbers.size() < count) {
            byte[] body = self.connection().awaitNotification(Participant.LIMIT).payload();
            numbers.add(ByteBuffer.wrap(body).getInt());
        }
        return numbers;
    }

    @Test
    void bothPrioritiesArriveUnderLoad() {
        int size = 4 << 20;
        MemoryRegion source = region("source", Kind.FOREIGN, size);
        RemoteMemory target = remote("target", Kind.FOREIGN, size * 9L);
        here.fill("source", 0, size, 5);
        TransferOptions high = defaults().withPriority(Priority.HIGH);
        List<Transfer> bulk = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            bulk.add(connection().write(source.all(), target.slice((long) size * i, size)));
        }
        for (int i = 0; i < 100; i++) {
            Outcome.of(
                            connection()
                                    .write(
                                            source.slice(i * 8L, 8),
                                            target.slice(8L * size + i * 8L, 8),
                                            high))
                    .assertDone(8);
        }
        bulk.forEach(transfer -> Outcome.of(transfer).assertDone(size));
        peer.tell(
                self -> {
                    for (int i = 0; i < 8; i++) {
                        self.check("target", (long) size * i, size, 5);
                    }
                    self.check("target", 8L * size, 800, 5);
                });
    }
}

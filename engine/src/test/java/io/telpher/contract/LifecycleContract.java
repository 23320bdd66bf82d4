package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntConsumer;
import org.junit.jupiter.api.Test;

/// Opening, closing, and what is left.
@Setting.In({Place.ONE, Place.TWO, Place.NETNS})
abstract class LifecycleContract extends Contract {
    /// How many regions are lent at a time: what one costs is not lost in waiting for threads.
    private static final int LENT = 10;

    private static final Duration LIMIT = Duration.ofMillis(2500);

    /// Nothing that ends early or late may take longer than the drain limit.
    private static void within(Duration limit, Runnable action) {
        long start = System.nanoTime();
        action.run();
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(limit);
    }

    @Test
    void closingAConnectionFailsWhatIsPending() {
        MemoryRegion local = region("local", Kind.TELPHER, 1 << 20);
        RemoteMemory target = remote("target", Kind.TELPHER, 1 << 20);
        peer.tell(
                self ->
                        self.keep(
                                "theirs",
                                self.connection().receive(1, self.region("target").all())));
        List<Transfer> receives =
                List.of(
                        connection().receive(1, local.all()),
                        connection().receive(2, local.slice(0, 0)));
        Transfer large = connection().write(local.all(), target);
        within(LIMIT, connection()::close);
        for (Transfer receive : receives) {
            assertThat(receive.state().isTerminal()).isTrue();
            Outcome.of(receive).assertError(TelpherException.Closed.class);
        }
        assertThat(large.state().isTerminal()).isTrue();
        assertThat(peer.outcome("theirs").error())
                .isInstanceOfAny(TelpherException.Closed.class, TelpherException.PeerLost.class);
        assertThat(connection().isOpen()).isFalse();
        within(LIMIT, connection()::close);
    }

    /// The peer's last words are its confirmations.
    @Test
    void whatThePeerHadTakenWhenItClosedIsDone() {
        for (int round = 0; round < Scale.count(20); round++) {
            int size = Scale.size(random, 1, 1 << 20);
            MemoryRegion local = region("local", Kind.FOREIGN, size);
            RemoteMemory target = remote("target", Kind.FOREIGN, size);
            remote("inbox", Kind.FOREIGN, size);
            TransferOptions options =
                    TransferOptions.DEFAULTS.withNotification(Bytes.off(size % 5000, 1));
            List<Transfer> transfers =
                    List.of(
                            connection().write(local.all(), target, options),
                            connection().send(1, local.all()));
            peer.tell(
                    self -> {
                        MemoryRegion inbox = self.region("inbox");
                        Outcome.of(self.connection().receive(1, inbox.all())).assertDone(size);
                        self.connection().awaitNotification(Participant.LIMIT);
                        self.closeConnection();
                    });
            transfers.forEach(transfer -> Outcome.of(transfer).assertDone(size));
            reconnect();
            release();
        }
    }

    @Test
    void bothSidesCloseInTheMiddleOfEverything() {
        int size = 4 << 20;
        for (int round = 0; round < Scale.count(10); round++) {
            for (String name : new String[] {"source", "inbox", "target"}) {
                region(name, Kind.MAIN[round % 2], size);
                remote(name, Kind.MAIN[round % 2], size);
            }
            byte[] mine = here.region("target").remote().toBytes();
            byte[] theirs = peer.run(self -> self.region("target").remote().toBytes());
            int delay = random.nextInt(3000);
            int later = random.nextInt(3000);
            CompletableFuture<Boolean> there = peer.begin(self -> postAndClose(self, mine, delay));
            postAndClose(here, theirs, later);
            Peer.result(there);
            reconnect();
            release();
        }
    }

    /// Posts everything, goes away after some microseconds, and checks that all has ended.
    private static void postAndClose(Participant self, byte[] target, int delay) {
        RemoteMemory remote = RemoteMemory.ofBytes(target);
        Connection c = self.connection();
        List<Transfer> transfers = new ArrayList<>();
        try {
            transfers.add(c.write(self.region("source").all(), remote));
            transfers.add(c.receive(1, self.region("inbox").all()));
            transfers.add(c.send(1, self.region("source").all()));
            transfers.add(c.read(self.region("source").all(), remote));
            LockSupport.parkNanos(delay * 1000L);
        } catch (TelpherException.PeerLost e) {
            // The other side was quicker.
        }
        within(LIMIT, c::close);
        for (Transfer transfer : transfers) {
            assertThat(transfer.state().isTerminal()).as("%s", transfer).isTrue();
            if (transfer.error() != null) {
                assertThat(transfer.error())
                        .isInstanceOfAny(
                                TelpherException.Closed.class, TelpherException.PeerLost.class);
            }
        }
    }

    @Test
    void whoClosesBesidesWaitsForTheFirst() throws InterruptedException {
        closeTwice(connection()::close);
        reconnect();
        release();
        closeTwice(endpoint()::close);
        here.close();
        peer.tell(Participant::close);
        connect();
    }

    private void closeTwice(Runnable close) throws InterruptedException {
        MemoryRegion local = region("local", Kind.TELPHER, 100);
        Transfer receive = connection().receive(1, local.all());
        CountDownLatch ending = new CountDownLatch(1);
        AtomicBoolean ended = new AtomicBoolean();
        receive.onEnd(
                t -> {
                    ending.countDown();
                    LockSupport.parkNanos(200_000_000);
                    ended.set(true);
                });
        Thread first = Thread.ofPlatform().start(close::run);
        assertThat(ending.await(20, TimeUnit.SECONDS)).isTrue();
        within(LIMIT, close);
        assertThat(ended).isTrue();
        assertThat(first.join(Duration.ofSeconds(20))).isTrue();
        Outcome.of(receive).assertError(TelpherException.Closed.class);
    }

    @Test
    void nothingWorksOnAClosedConnection() {
        MemoryRegion local = region("local", Kind.TELPHER, 100);
        RemoteMemory target = remote("target", Kind.TELPHER, 100);
        soil("target", 0, 100);
        Connection c = connection();
        c.close();
        for (TelpherException error :
                List.of(
                        Outcome.failure(() -> c.write(local.all(), target)),
                        Outcome.failure(() -> c.read(local.all(), target)),
                        Outcome.failure(() -> c.send(1, local.all())),
                        Outcome.failure(() -> c.receive(1, local.all())),
                        Outcome.failure(() -> c.notifyPeer(Bytes.off(1, 1))))) {
            assertThat(error).isInstanceOf(TelpherException.Closed.class);
        }
        assertThat(c.tryWrite(local, 0, target, 0, 1)).isEqualTo(Connection.CLOSED);
        assertThat(c.tryRead(local, 0, target, 0, 1)).isEqualTo(Connection.CLOSED);
        assertThat(c.trySend(1, local, 0, 1)).isEqualTo(Connection.CLOSED);
        assertThat(c.tryReceive(1, local, 0, 1)).isEqualTo(Connection.CLOSED);
        assertThat(c.tryNotify(Bytes.off(1, 1), 0, 1)).isEqualTo(Connection.CLOSED);
        assertThatThrownBy(() -> c.awaitNotification(Duration.ofSeconds(5)))
                .isInstanceOf(TelpherException.Closed.class);
        assertThatThrownBy(() -> c.lookup("name", Duration.ofSeconds(5)))
                .isInstanceOf(TelpherException.Closed.class);
        assertThat(c.poll()).isNotPositive();
        assertThat(c.explain()).isNotNull();
        assertThat(c.metrics()).isNotNull();
        peer.tell(self -> verifyUntouched(self, "target", 0, 100));
    }

    @Test
    void closingWakesWhoeverWaits() {
        MemoryRegion local = region("local", Kind.TELPHER, 100);
        Connection c = connection();
        Transfer receive = c.receive(1, local.all());
        CompletableFuture<Throwable> awaiting = failureOf(receive::await);
        CompletableFuture<Throwable> notified =
                failureOf(() -> c.awaitNotification(Duration.ofSeconds(60)));
        CompletableFuture<Throwable> lookup =
                failureOf(() -> c.lookup("never", Duration.ofSeconds(60)));
        sleep(100);
        c.close();
        assertThat(Peer.result(awaiting)).isInstanceOf(TelpherException.Closed.class);
        assertThat(Peer.result(notified)).isInstanceOf(TelpherException.Closed.class);
        assertThat(Peer.result(lookup)).isInstanceOf(TelpherException.Closed.class);
    }

    private static CompletableFuture<Throwable> failureOf(Runnable action) {
        CompletableFuture<Throwable> failure = new CompletableFuture<>();
        Thread.ofPlatform()
                .daemon()
                .start(
                        () -> {
                            try {
                                action.run();
                                failure.completeExceptionally(new AssertionError("no error"));
                            } catch (TelpherException e) {
                                failure.complete(e);
                            } catch (Throwable e) {
                                failure.completeExceptionally(e);
                            }
                        });
        return failure;
    }

    @Test
    void closingUnderFire() throws InterruptedException {
        for (int round = 0; round < Scale.count(60); round++) {
            List<RemoteMemory> targets = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                targets.add(remote("target" + i, Kind.MAIN[i % 2], 300_000));
            }
            region("source", Kind.TELPHER, 300_000);
            Connection c = connection();
            boolean theirs = round % 4 == 3;
            List<Throwable> errors = new CopyOnWriteArrayList<>();
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                int first = i;
                threads.add(
                        Thread.ofPlatform()
                                .daemon()
                                .name("test-writer-" + i)
                                .start(() -> writeUntilClosed(c, targets, first, theirs, errors)));
            }
            // Sometimes while windows are being opened, sometimes in the middle of copies.
            long end = System.nanoTime() + random.nextInt(round % 2 == 0 ? 300_000 : 5_000_000);
            while (System.nanoTime() < end) {
                Thread.onSpinWait();
            }
            if (theirs) {
                peer.tell(Participant::closeConnection);
            } else {
                c.close();
            }
            for (Thread thread : threads) {
                assertThat(thread.join(Duration.ofSeconds(20))).as("%s ended", thread).isTrue();
            }
            assertThat(errors).isEmpty();
            reconnect();
            release();
        }
    }

    private void writeUntilClosed(
            Connection c,
            List<RemoteMemory> targets,
            int first,
            boolean theirs,
            List<Throwable> errors) {
        try {
            for (int i = first; ; i++) {
                int size = i % 3 == 0 || first == 0 ? 8 : i % 3 == 1 ? 4000 : 300_000;
                RemoteMemory target = targets.get(i % targets.size());
                TelpherException error =
                        Outcome.failureOrNull(() -> c.write(here.slice("source", 0, size), target));
                if (error != null) {
                    // Whoever closes knows that nobody was lost.
                    assertThat(error)
                            .isInstanceOfAny(
                                    TelpherException.Closed.class,
                                    theirs
                                            ? TelpherException.PeerLost.class
                                            : TelpherException.Closed.class);
                    return;
                }
            }
        } catch (Throwable e) {
            errors.add(e);
        }
    }

    @Test
    void aConnectionCanBeMadeAgain() {
        for (int i = 0; i < Scale.count(20); i++) {
            reconnect();
            region("local", Kind.TELPHER, 5000);
            RemoteMemory target = remote("target", Kind.TELPHER, 5000);
            here.fill("local", 0, 5000, i);
            here.write("local", 0, 5000, target).assertDone(5000);
            peer.check("target", 0, 5000, i);
            release();
        }
    }

    @Test
    void anEndpointClosesInTheMiddleOfEverything() {
        MemoryRegion local = region("local", Kind.TELPHER, 16 << 20);
        RemoteMemory target = remote("target", Kind.FOREIGN, 16 << 20);
        CompletableFuture<Throwable> accepting =
                failureOf(() -> endpoint().accept(Duration.ofSeconds(60)));
        List<Transfer> transfers =
                List.of(
                        connection().write(local.all(), target),
                        connection().read(local.all(), target),
                        connection().send(3, local.all()),
                        connection().receive(4, local.all()));
        within(Duration.ofSeconds(5), endpoint()::close);
        transfers.forEach(transfer -> assertThat(transfer.state().isTerminal()).isTrue());
        assertThat(Peer.result(accepting)).isInstanceOf(TelpherException.Closed.class);
        assertThat(local.isOpen()).isFalse();
        within(LIMIT, endpoint()::close);
        assertThatThrownBy(() -> endpoint().allocate(10))
                .isInstanceOf(TelpherException.Closed.class);
        assertThatThrownBy(() -> endpoint().accept(Duration.ofSeconds(5)))
                .isInstanceOf(TelpherException.Closed.class);
        assertThatThrownBy(() -> endpoint().connect(endpoint().address()))
                .isInstanceOf(TelpherException.Closed.class);
        here.close();
        peer.tell(Participant::closeRegions);
        replacePeer();
    }

    @Test
    void acceptEndsInTime() {
        long start = System.nanoTime();
        assertThatThrownBy(() -> endpoint().accept(Duration.ofMillis(50)))
                .isInstanceOf(TelpherException.TimedOut.class);
        assertThat(Duration.ofNanos(System.nanoTime() - start))
                .isBetween(Duration.ofMillis(49), Duration.ofSeconds(2));
    }

    @Test
    void nothingIsLeftAfterManyEndpoints() {
        Resources before = null;
        Resources theirs = null;
        for (int round = 0; round < Scale.count(8); round++) {
            region("local", Kind.TELPHER, 1 << 20);
            RemoteMemory target = remote("target", Kind.TELPHER, 1 << 20);
            here.write("local", 0, 1 << 20, target).assertDone(1 << 20);
            byte[] mine = here.region("local").remote().toBytes();
            peer.tell(
                    self ->
                            self.write("target", 0, 100, RemoteMemory.ofBytes(mine))
                                    .assertDone(100));
            // All orders: connection first, endpoint at once, either side first.
            if (round % 2 == 0) {
                connection().close();
            }
            if (round % 3 == 0) {
                peer.tell(Participant::close);
            }
            here.close();
            peer.tell(Participant::close);
            // The first rounds load classes and start what stays.
            if (round == 2) {
                before = Resources.now();
                theirs = peer.run(self -> Resources.now());
            } else if (round > 2) {
                before.awaitSame();
                Resources last = theirs;
                peer.tell(self -> last.awaitSame());
            }
            connect();
        }
    }

    /// Memory is not free before whoever has mapped it lets go of it, too.
    @Test
    void memoryOfClosedRegionsIsGivenBack() {
        region("local", Kind.TELPHER, 8192);
        // What a link needs for its first window is the link's.
        here.write("local", 0, 8192, remote("first", Kind.TELPHER, 8192)).assertDone(8192);
        peer.tell(self -> self.closeRegion("first"));
        Resources before = Resources.now();
        for (int i = 0; i < 5; i++) {
            String name = "target" + i;
            here.write("local", 0, 8192, remote(name, Kind.TELPHER, 8192)).assertDone(8192);
        }
        peer.tell(Participant::closeRegions);
        before.awaitSame();
    }

    // --- flat cost ------------------------------------------------------------------------------

    /// Runs many rounds; late ones may not cost much more than early ones. The best of several
    /// batches counts, since other work on the machine disturbs single ones, and where all late
    /// ones were slow everything is done once more: what grows would have grown further.
    private static void checkFlat(String what, int rounds, IntConsumer round) {
        double ratio = lateAgainstEarly(rounds, round);
        if (ratio >= 5) {
            ratio = lateAgainstEarly(rounds, round);
        }
        assertThat(ratio).as("%s: late rounds against early ones", what).isLessThan(5);
    }

    private static double lateAgainstEarly(int rounds, IntConsumer round) {
        int batch = Math.max(1, rounds / 20);
        long first = Long.MAX_VALUE;
        long last = Long.MAX_VALUE;
        for (int i = 0; i < 20; i++) {
            long start = System.nanoTime();
            for (int k = 0; k < batch; k++) {
                round.accept(i * batch + k);
            }
            long time = System.nanoTime() - start;
            if (i >= 2 && i < 6) {
                first = Math.min(first, time);
            } else if (i >= 16) {
                last = Math.min(last, time);
            }
        }
        return (double) last / first;
    }

    @Test
    void registeringCostsTheSameEveryTime() {
        MemorySegment memory = Arena.ofAuto().allocate(65_536);
        Resources before = Resources.now();
        checkFlat(
                "register and close",
                Scale.count(10_000),
                i -> endpoint().register(memory.asSlice(i % 100, 65_000)).close());
        checkFlat(
                "allocate and close", Scale.count(10_000), i -> endpoint().allocate(8192).close());
        before.awaitSame();
    }

    @Test
    void regionsThatPeersUsedCostTheSameEveryTime() {
        region("local", Kind.TELPHER, 8192);
        RemoteMemory first = remote("target", Kind.TELPHER, 8192);
        here.write("local", 0, 8192, first).assertDone(8192);
        Resources before = Resources.now();
        CompletableFuture<Boolean> owner = peer.begin(LifecycleContract::lendRegions);
        checkFlat(
                "allocate, write and close",
                Scale.count(10_000) / LENT,
                i -> {
                    for (int k = 0; k < LENT; k++) {
                        here.fill("local", 100L * k, 100, i * LENT + k);
                    }
                    writeAll(takeNote(here));
                    tell(here, ByteBuffer.allocate(4).putInt(i).array());
                });
        takeNote(here);
        tell(here, new byte[0]);
        Peer.result(owner);
        before.awaitSame();
    }

    /// Writes its own bytes into each of the regions that are lent.
    private void writeAll(byte[] descriptors) {
        List<Transfer> writes = new ArrayList<>();
        assertThat(descriptors.length % LENT).as("descriptors of one length").isZero();
        int size = descriptors.length / LENT;
        for (int k = 0; k < LENT; k++) {
            byte[] one = Arrays.copyOfRange(descriptors, k * size, (k + 1) * size);
            MemorySlice source = here.slice("local", 100L * k, 100);
            writes.add(connection().write(source, RemoteMemory.ofBytes(one)));
        }
        writes.forEach(write -> Outcome.of(write).assertDone(100));
    }

    /// Registers some regions, has the other side write, checks and closes, until that has had
    /// enough.
    private static void lendRegions(Participant self) throws IOException {
        byte[] seed;
        do {
            ByteArrayOutputStream descriptors = new ByteArrayOutputStream();
            for (int i = 0; i < LENT; i++) {
                descriptors.write(self.add("lent" + i, Kind.MAIN[i % 2], 8192).remote().toBytes());
            }
            tell(self, descriptors.toByteArray());
            seed = takeNote(self);
            for (int i = 0; i < LENT; i++) {
                if (seed.length > 0) {
                    self.check("lent" + i, 0, 100, ByteBuffer.wrap(seed).getInt() * LENT + i);
                }
                self.drop("lent" + i);
            }
        } while (seed.length > 0);
    }

    private static byte[] takeNote(Participant self) {
        return self.connection().awaitNotification(Participant.LIMIT).payload();
    }

    private static void tell(Participant self, byte[] what) {
        Outcome.of(self.connection().notifyPeer(Bytes.off(what))).assertDone();
    }
}

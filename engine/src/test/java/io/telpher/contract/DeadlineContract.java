package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import io.telpher.internal.transport.verbs.RdmaNode;
import java.lang.foreign.MemorySegment;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/// A peer that does nothing for a while: transfers end in time and touch nothing afterwards, and
/// the connection survives.
@Setting.In({Place.TWO, Place.NETNS})
abstract class DeadlineContract extends Contract {
    private static final int SIZE = 1 << 20;
    private static final byte OURS = 0x77;
    private static final Duration DEADLINE = Duration.ofMillis(250);
    private static final Duration DRAIN = Duration.ofMillis(1000);

    /// For two busy cores.
    private static final Duration SLACK = Duration.ofMillis(1500);

    private static final long WITHIN = DEADLINE.plus(DRAIN).plus(SLACK).toNanos();

    private static final TransferOptions SOON = TransferOptions.DEFAULTS.withDeadline(DEADLINE);

    /// Shorter than most stops in these tests, which it must not notice.
    @Override
    Participant.Tweak tweak() {
        return options -> options.withLiveness(Duration.ofSeconds(1));
    }

    private PeerProcess process() {
        return (PeerProcess) peer;
    }

    @Override
    void release() {
        process().go();
        super.release();
    }

    /// One transfer of each sort, with its own memory.
    private List<Transfer> postEverything(RemoteMemory target, RemoteMemory origin, long tag) {
        MemorySegment body = Bytes.off(5000, 1);
        MemorySlices large = MemorySlices.of(here.slice("sent", 0, SIZE));
        MemorySlices small = MemorySlices.of(here.slice("sent", 0, 64));
        return List.of(
                connection().write(here.slice("written", 0, SIZE), target, SOON),
                connection().read(here.slice("read", 0, SIZE), origin, SOON),
                connection().send(tag, small, SOON),
                connection().send(tag + 1, large, SOON),
                connection()
                        .receive(tag + 2, MemorySlices.of(here.slice("received", 0, SIZE)), SOON),
                connection().notifyPeer(body, SOON));
    }

    private void prepareMemory(long seed) {
        for (String name : new String[] {"written", "sent", "read", "received"}) {
            region(name, Kind.FOREIGN, SIZE);
        }
        here.fill("written", 0, SIZE, seed);
        here.fill("sent", 0, SIZE, seed);
    }

    private void takeMemoryBack() {
        for (String name : new String[] {"written", "sent", "read", "received"}) {
            here.segment(name).fill(OURS);
        }
    }

    private void checkOurs() {
        for (String name : new String[] {"written", "sent", "read", "received"}) {
            Content.checkAll(here.segment(name), 0, SIZE, OURS);
        }
    }

    /// Checks that each byte is either the old or the new one, and none is what was put into the
    /// source after the transfer's end.
    private static void checkOldOrNew(Participant self, String name, long seed) {
        MemorySegment memory = self.segment(name);
        long size = memory.byteSize();
        MemorySegment old = Bytes.off(size, STALE);
        MemorySegment fresh = Bytes.off(size, seed);
        long at = 0;
        while (at < size) {
            long next = Math.max(same(memory, old, at), same(memory, fresh, at));
            if (next == at) {
                throw new AssertionError(
                        "byte %d is %02x".formatted(at, memory.get(Bytes.BYTE, at)));
            }
            at = next;
        }
    }

    /// @return until where both are the same
    private static long same(MemorySegment one, MemorySegment other, long from) {
        long size = one.byteSize();
        long at = MemorySegment.mismatch(one, from, size, other, from, size);
        return at < 0 ? size : from + at;
    }

    /// Checks that both sides can still use the connection.
    private void checkSurvival(RemoteMemory target) {
        assertThat(connection().isOpen()).as("%s", connection().failure()).isTrue();
        long seed = random.nextLong();
        here.fill("written", 0, SIZE, seed);
        here.write("written", 0, SIZE, target).assertDone(SIZE);
        peer.check("target", 0, SIZE, seed);
        byte[] mine = here.region("read").remote().toBytes();
        peer.tell(
                self -> self.write("target", 0, SIZE, RemoteMemory.ofBytes(mine)).assertDone(SIZE));
        here.check("read", 0, SIZE, seed);
    }

    private RemoteMemory addTarget() {
        RemoteMemory target = remote("target", Kind.TELPHER, SIZE);
        peer.fill("target", 0, SIZE, STALE);
        return target;
    }

    @Test
    void deadlinesHoldWhileThePeerStandsStill() {
        for (int round = 0; round < Scale.count(2); round++) {
            long seed = random.nextLong();
            RemoteMemory target = addTarget();
            RemoteMemory origin = remote("origin", Kind.TELPHER, SIZE);
            peer.fill("origin", 0, SIZE, ~seed);
            prepareMemory(seed);
            if (round > 0) {
                // The engine knows both regions already.
                here.write("written", 0, 8, target).assertDone(8);
            }
            process().stop();
            List<Transfer> transfers = postEverything(target, origin, 100L * round);
            long start = System.nanoTime();
            for (int i = 0; i < transfers.size(); i++) {
                Outcome outcome = Outcome.of(transfers.get(i));
                assertThat(System.nanoTime() - start).as("%d: %s", i, outcome).isLessThan(WITHIN);
                boolean needsNobody = i < 2 && setting.path().oneSided();
                if (!needsNobody || outcome.state() != TransferState.DONE) {
                    assertThat(outcome.state()).as("%d", i).isEqualTo(TransferState.TIMED_OUT);
                    // Whatever asked the peer and got no answer leaves the far side in doubt. (What
                    // waits for a window has not asked, if the machine is slow.)
                    if ((i == 0 && !needsNobody) || i == 4) {
                        assertThat(outcome.remoteQuiet())
                                .as("%d", i)
                                .isEqualTo(RemoteQuiet.UNKNOWN);
                    }
                } else if (i == 1) {
                    here.check("read", 0, SIZE, ~seed);
                }
            }
            takeMemoryBack();
            process().go();
            sleep(300);
            checkOurs();
            peer.tell(self -> checkOldOrNew(self, "target", seed));
            checkSurvival(target);
            super.release();
            drainNotifications();
        }
    }

    private void drainNotifications() {
        peer.tell(
                self -> {
                    while (self.connection().pollNotification() != null) {
                        // The notification may or may not have made it.
                    }
                });
    }

    /// Large ones are in the middle of a frame when the peer stops, on every lane.
    @Test
    void largeTransfersLetGoOfTheirMemoryInTheMiddle() {
        int size = 32 << 20;
        for (int round = 0; round < Scale.count(4); round++) {
            Kind near = Kind.MAIN[round % 2];
            Kind far = Kind.MAIN[(round + 1) / 2 % 2];
            long tag = 200L + 2L * round;
            long seed = random.nextLong();
            String[] names = {"written", "sent", "read", "received"};
            for (String name : names) {
                region(name, near, size);
                here.fill(name, 0, size, seed);
            }
            RemoteMemory target = remote("target", far, size);
            RemoteMemory origin = remote("origin", far, size);
            remote("inbox", far, size);
            peer.tell(
                    self -> {
                        for (String name : new String[] {"target", "origin", "inbox"}) {
                            self.fill(name, 0, size, STALE);
                        }
                        self.connection().receive(tag, self.region("inbox").all());
                        self.connection().send(tag + 1, self.region("origin").all());
                    });
            TransferOptions soon = TransferOptions.DEFAULTS.withDeadline(DEADLINE);
            List<Transfer> transfers =
                    List.of(
                            connection().write(here.slice("written", 0, size), target, soon),
                            connection().read(here.slice("read", 0, size), origin, soon),
                            connection()
                                    .send(tag, MemorySlices.of(here.region("sent").all()), soon),
                            connection()
                                    .receive(
                                            tag + 1,
                                            MemorySlices.of(here.region("received").all()),
                                            soon));
            sleep(random.nextInt(6));
            process().stop();
            List<Outcome> outcomes = transfers.stream().map(Outcome::of).toList();
            assertThat(outcomes)
                    .extracting(Outcome::state)
                    .isSubsetOf(TransferState.DONE, TransferState.TIMED_OUT);
            for (String name : names) {
                here.segment(name).fill(OURS);
            }
            process().go();
            sleep(300);
            for (String name : names) {
                // A peer that stood still while it stored a message by itself cannot be stopped
                // from finishing its copy when it goes on: a known issue.
                if (name.equals("received")
                        && isReachable(near)
                        && outcomes.getLast().state() != TransferState.DONE) {
                    assertThat(outcomes.getLast().remoteQuiet()).isEqualTo(RemoteQuiet.UNKNOWN);
                } else {
                    Content.checkAll(here.segment(name), 0, size, OURS);
                }
            }
            peer.tell(self -> checkOldOrNew(self, "target", seed));
            peer.tell(self -> checkOldOrNew(self, "inbox", seed));
            assertThat(connection().isOpen()).as("%s", connection().failure()).isTrue();
            super.release();
            reconnect(); // the next peer to be stopped is the one that dialled, or was dialled
        }
    }

    /// The peer could not be asked whether its message had begun: it finds out by itself, and its
    /// next one meets the next receive.
    @Test
    void aMessageForAReceiveThatLostItsRegionIsTakenBack() {
        region("target", Kind.TELPHER, SIZE);
        remote("source", Kind.TELPHER, SIZE);
        for (int round = 0; round < Scale.count(3); round++) {
            long tag = 400L + round;
            long seed = random.nextLong();
            MemoryRegion closing = here.endpoint().allocate(SIZE);
            Transfer lost = connection().receive(tag, closing.all());
            peer.fill("source", 0, SIZE, seed);
            CompletableFuture<Boolean> sending =
                    peer.begin(
                            self -> {
                                sleep(100); // it ends while the process stands still
                                self.keep(
                                        "send",
                                        self.connection().send(tag, self.region("source").all()));
                                if (self.outcome("send").state() == TransferState.CANCELLED) {
                                    self.keep(
                                            "send",
                                            self.connection()
                                                    .send(tag, self.region("source").all()));
                                }
                            });
            sleep(50);
            process().stop();
            closing.close();
            Outcome outcome = Outcome.of(lost);
            here.fill("target", 0, SIZE, STALE);
            boolean isNext = outcome.state() != TransferState.DONE; // it was sent before the stop
            Transfer receive =
                    isNext ? connection().receive(tag, here.slice("target", 0, SIZE)) : lost;
            process().go();
            Peer.result(sending);
            peer.outcome("send").assertDone(SIZE);
            Outcome.of(receive).assertDone(SIZE);
            if (isNext) {
                outcome.assertError(TelpherException.StaleRegion.class);
                here.check("target", 0, SIZE, seed);
            }
        }
    }

    /// Whether the other side can store into such memory by itself.
    private boolean isReachable(Kind kind) {
        return setting.path() == TestPath.CMA
                || (kind == Kind.TELPHER
                        && (setting.path() == TestPath.MAPPED
                                || setting.path() == TestPath.CUDA_CUMEM));
    }

    @Test
    void cancellingWorksWhileThePeerStandsStill() {
        long seed = random.nextLong();
        RemoteMemory target = addTarget();
        RemoteMemory origin = remote("origin", Kind.TELPHER, SIZE);
        peer.fill("origin", 0, SIZE, ~seed);
        prepareMemory(seed);
        process().stop();
        MemorySlices large = MemorySlices.of(here.slice("sent", 0, SIZE));
        List<Transfer> transfers =
                List.of(
                        connection().write(here.slice("written", 0, SIZE), target),
                        connection().read(here.slice("read", 0, SIZE), origin),
                        connection().send(31, large, TransferOptions.DEFAULTS),
                        connection().receive(32, here.slice("received", 0, SIZE)));
        sleep(50);
        long start = System.nanoTime();
        transfers.forEach(Transfer::cancel);
        for (int i = 0; i < transfers.size(); i++) {
            Outcome outcome = Outcome.of(transfers.get(i));
            assertThat(System.nanoTime() - start).as("%s", outcome).isLessThan(WITHIN);
            if (i >= 2 || !setting.path().oneSided()) {
                assertThat(outcome.state()).as("%d", i).isEqualTo(TransferState.CANCELLED);
            }
        }
        takeMemoryBack();
        process().go();
        sleep(300);
        checkOurs();
        peer.tell(self -> checkOldOrNew(self, "target", seed));
        checkSurvival(target);
    }

    @Test
    void cancellingIsAcknowledgedByAPeerThatRuns() {
        prepareMemory(1);
        RemoteMemory target = addTarget();
        for (int i = 0; i < Scale.count(50); i++) {
            here.fill("written", 0, SIZE, 1);
            Transfer write = connection().write(here.slice("written", 0, SIZE), target);
            write.cancel();
            Outcome outcome = Outcome.of(write);
            if (outcome.state() != TransferState.DONE) {
                assertThat(outcome.state()).isEqualTo(TransferState.CANCELLED);
                assertThat(outcome.remoteQuiet()).isEqualTo(RemoteQuiet.YES);
                // The far side is quiet now: what its owner puts there stays.
                here.segment("written").fill(OURS);
                peer.tell(self -> self.segment("target").fill((byte) 0x11));
                sleep(2);
                peer.tell(self -> Content.checkAll(self.segment("target"), 0, SIZE, (byte) 0x11));
            }
        }
        checkSurvival(target);
    }

    @Test
    void manyPendingTransfersAllEnd() {
        prepareMemory(5);
        RemoteMemory target = addTarget();
        process().stop();
        List<Transfer> transfers = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            long at = i * 3000L;
            transfers.add(
                    connection()
                            .write(here.slice("written", at, 3000), target.slice(at, 3000), SOON));
            transfers.add(
                    connection()
                            .receive(
                                    40 + i % 3,
                                    MemorySlices.of(here.slice("received", at, 3000)),
                                    SOON));
        }
        long start = System.nanoTime();
        for (Transfer transfer : transfers) {
            Outcome outcome = Outcome.of(transfer);
            assertThat(outcome.state()).isIn(TransferState.TIMED_OUT, TransferState.DONE);
        }
        assertThat(System.nanoTime() - start).isLessThan(WITHIN);
        process().go();
        // What was on its way may still arrive: that is what `UNKNOWN` says.
        sleep(500);
        checkSurvival(target);
    }

    /// Nobody waits here: the progress thread alone has lanes that take nothing, and confirmations
    /// that it cannot send.
    @Test
    void theProgressThreadSleepsWhileLanesAreFull() throws InterruptedException {
        prepareMemory(3);
        RemoteMemory target = remote("target", Kind.FOREIGN, SIZE);
        byte[] mine = here.region("received").remote().toBytes();
        int size = 60_000;
        CompletableFuture<Boolean> theirs =
                peer.begin(
                        self -> {
                            long end = System.nanoTime() + DEADLINE.toNanos();
                            while (System.nanoTime() < end) {
                                self.write("target", 0, size, RemoteMemory.ofBytes(mine))
                                        .assertDone(size);
                            }
                        });
        sleep(50);
        process().stop();
        CountDownLatch ended = new CountDownLatch(300);
        for (int i = 0; i < 300; i++) {
            connection()
                    .write(here.slice("written", 0, size), target)
                    .onEnd(transfer -> ended.countDown());
        }
        sleep(200);
        long before = progressCpu();
        sleep(500);
        assertThat(progressCpu() - before).as("ns of CPU in 500 ms").isLessThan(250_000_000);
        process().go();
        assertThat(ended.await(20, TimeUnit.SECONDS)).isTrue();
        Peer.result(theirs);
        checkSurvival(target);
    }

    /// @return nanoseconds that the progress thread of this process has used
    private static long progressCpu() {
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        return Thread.getAllStackTraces().keySet().stream()
                .filter(thread -> thread.getName().equals("telpher-progress"))
                .mapToLong(thread -> threads.getThreadCpuTime(thread.threadId()))
                .sum();
    }

    @Test
    @Tag(RdmaNode.SLICE)
    void aStopLongerThanTheLivenessLimitIsNoDeath() {
        prepareMemory(7);
        RemoteMemory target = addTarget();
        process().stop();
        Transfer receive = connection().receive(50, here.slice("received", 0, 100));
        Transfer write = connection().write(here.slice("written", 0, SIZE), target);
        sleep(2500);
        assertThat(connection().isOpen()).as("%s", connection().failure()).isTrue();
        process().go();
        Outcome.of(write).assertDone(SIZE);
        peer.check("target", 0, SIZE, 7);
        peer.tell(
                self ->
                        Outcome.of(self.connection().send(50, self.slice("target", 0, 100)))
                                .assertDone(100));
        Outcome.of(receive).assertDone(100);
        here.check("received", 0, 100, 7);
        checkSurvival(target);
    }

    @Test
    void whoWasStoppedDoesNotBlameTheOther() {
        prepareMemory(9);
        RemoteMemory target = addTarget();
        byte[] mine = here.region("received").remote().toBytes();
        CompletableFuture<Integer> series =
                peer.start(
                        self -> {
                            int writes = 0;
                            long end = System.nanoTime() + Duration.ofMillis(3500).toNanos();
                            while (System.nanoTime() < end) {
                                int size = 1 + writes % 50_000;
                                self.write("target", 0, size, RemoteMemory.ofBytes(mine))
                                        .assertDone(size);
                                writes++;
                            }
                            return writes;
                        });
        for (int i = 0; i < 3; i++) {
            sleep(100 + random.nextInt(100));
            process().stop();
            sleep(i == 0 ? 1800 : 200);
            process().go();
        }
        assertThat(Peer.result(series)).isPositive();
        checkSurvival(target);
    }

    @Test
    void aRegionClosesWhileItsWriterStandsStill() {
        prepareMemory(9);
        RemoteMemory target = addTarget();
        int size = 32 << 20;
        for (Kind kind : Kind.MAIN) {
            MemoryRegion region = region("inbox", kind, size);
            byte[] mine = region.remote().toBytes();
            peer.add("large", Kind.FOREIGN, size);
            CompletableFuture<String> writer =
                    peer.start(
                            self -> {
                                RemoteMemory inbox = RemoteMemory.ofBytes(mine);
                                while (true) {
                                    Outcome outcome = self.write("large", 0, size, inbox);
                                    if (outcome.state() != TransferState.DONE) {
                                        return outcome.error().getClass().getSimpleName();
                                    }
                                }
                            });
            sleep(50 + random.nextInt(50));
            process().stop();
            long start = System.nanoTime();
            boolean closed = true;
            try {
                region.close();
            } catch (TelpherException.RegionBusy e) {
                // Only another process's system call cannot be stopped; the memory stays then.
                assertThat(setting.path()).isEqualTo(TestPath.CMA);
                closed = false;
            }
            assertThat(System.nanoTime() - start).isLessThan(DRAIN.plus(SLACK).toNanos());
            assertThat(region.isOpen()).isFalse();
            if (closed && kind == Kind.FOREIGN) {
                here.segment("inbox").fill(OURS);
            }
            process().go();
            String error = Peer.result(writer);
            assertThat(error).isIn("StaleRegion", "TimedOut");
            if (closed && kind == Kind.FOREIGN) {
                sleep(200);
                Content.checkAll(here.segment("inbox"), 0, size, OURS);
            }
            here.closeRegion("inbox");
            peer.tell(self -> self.closeRegion("large"));
        }
        checkSurvival(target);
    }

    @Test
    void blockingCallsEndWhileThePeerStandsStill() {
        prepareMemory(9);
        addTarget();
        process().stop();
        long start = System.nanoTime();
        assertThatThrownBy(() -> connection().lookup("nothing", DEADLINE))
                .isInstanceOf(TelpherException.TimedOut.class);
        assertThat(System.nanoTime() - start).isLessThan(WITHIN);
        Transfer receive = connection().receive(60, here.slice("received", 0, 100));
        start = System.nanoTime();
        connection().close();
        assertThat(System.nanoTime() - start).isLessThan(DRAIN.plus(SLACK).toNanos());
        Outcome.of(receive).assertError(TelpherException.Closed.class);
        process().go();
        long end = System.nanoTime() + Duration.ofSeconds(5).toNanos();
        while (peer.run(self -> self.connection().isOpen()) && System.nanoTime() < end) {
            sleep(10);
        }
        assertThat(peer.<Boolean>run(self -> self.connection().isOpen())).isFalse();
    }
}

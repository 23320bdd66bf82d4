package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import io.telpher.internal.memory.Lendable;
import io.telpher.internal.transport.verbs.RdmaNode;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// A peer that does nothing for a while is not dead, and keeps nothing of this side's.
abstract class StandstillContract extends StoppedPeerContract {
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

    /// @param lent whether the memory is used by its address when the region is closed
    @ParameterizedTest
    @CsvSource({"TELPHER, false", "TELPHER, true", "FOREIGN, false"})
    void aRegionClosesWhileItsWriterStandsStill(Kind kind, boolean lent) {
        prepareMemory(9);
        RemoteMemory target = addTarget();
        int size = 32 << 20;
        boolean stays = lent || kind == Kind.FOREIGN;
        for (int round = 0; round < Scale.count(lent ? 3 : 1); round++) {
            MemoryRegion region = region("inbox", kind, size);
            if (lent) {
                ((Lendable) region).lend();
            }
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
                // Another process's system call cannot be stopped, nor its stores into memory that
                // this one goes on using: the memory stays then.
                assertThat(setting.path() == TestPath.CMA || (lent && setting.path().oneSided()))
                        .as("%s", e.getMessage())
                        .isTrue();
                closed = false;
            }
            assertThat(System.nanoTime() - start).isLessThan(DRAIN.plus(SLACK).toNanos());
            assertThat(region.isOpen()).isFalse();
            if (closed && stays) {
                here.segment("inbox").fill(OURS);
            }
            process().go();
            String error = Peer.result(writer);
            assertThat(error).isIn("StaleRegion", "TimedOut");
            if (closed && stays) {
                sleep(200);
                Content.checkAll(here.segment("inbox"), 0, size, OURS);
            }
            here.closeRegion("inbox");
            if (lent) {
                here.segment("inbox").fill(OURS);
                ((Lendable) region).giveBack();
            }
            peer.tell(self -> self.closeRegion("large"));
        }
        checkSurvival(target);
    }
}

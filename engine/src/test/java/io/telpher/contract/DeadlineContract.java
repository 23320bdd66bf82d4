package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.EndpointAddress;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/// While a peer does nothing, transfers end in time and touch nothing afterwards.
abstract class DeadlineContract extends StoppedPeerContract {
    /// Most bytes between two looks of a peer that stores by itself.
    private static final int SLICE = 4 << 20;

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
                    // The memory of a receive is this side's: the peer is kept out.
                    if ((i == 0 && !needsNobody) || i == 4) {
                        assertThat(outcome.remoteQuiet())
                                .as("%d", i)
                                .isEqualTo(i == 4 ? RemoteQuiet.YES : RemoteQuiet.UNKNOWN);
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
                // A peer that stood still in the middle of a slice finishes that one.
                if (name.equals("received")
                        && isReachable(near)
                        && outcomes.getLast().remoteQuiet() == RemoteQuiet.UNKNOWN) {
                    assertThat(outcomes.getLast().state()).isEqualTo(TransferState.TIMED_OUT);
                    if (!setting.path().isOnGpus()) {
                        assertThat(Content.others(here.segment(name), OURS))
                                .isLessThanOrEqualTo(SLICE);
                    }
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

    /// The kernel connects to a process that stands still: it is the handshake that nobody answers.
    @Test
    void aConnectEndsWhileThePeerStandsStill() {
        EndpointAddress address =
                EndpointAddress.ofBytes(peer.run(self -> self.endpoint().address().toBytes()));
        try (Participant other = new Participant()) {
            other.open(options());
            process().stop();
            long start = System.nanoTime();
            assertThatThrownBy(() -> other.endpoint().connect(address, DEADLINE))
                    .isInstanceOf(TelpherException.TimedOut.class);
            assertThat(Duration.ofNanos(System.nanoTime() - start))
                    .isBetween(DEADLINE, DEADLINE.plus(SLACK));
            process().go();
            CompletableFuture<byte[]> accepted =
                    peer.start(
                            self -> {
                                try (Connection made = self.endpoint().accept(Participant.LIMIT)) {
                                    return made.awaitNotification(Participant.LIMIT).payload();
                                }
                            });
            byte[] body = {1, 2, 3};
            Connection made = other.endpoint().connect(address, Participant.LIMIT);
            Outcome.of(made.notifyPeer(Bytes.off(body))).assertDone();
            assertThat(Peer.result(accepted)).isEqualTo(body);
        }
    }
}

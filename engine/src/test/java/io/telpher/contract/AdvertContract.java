package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.Connection;
import io.telpher.MemoryRegion;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteQuiet;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import io.telpher.TransferState;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Receives that end while their sender is about to store into their memory, or does: what their
/// owner puts there afterwards stays.
@Setting.In({Place.ONE, Place.TWO})
abstract class AdvertContract extends Contract {
    private static final int SIZE = 16 << 20;

    /// Most bytes between two looks of a sender.
    private static final int SLICE = 4 << 20;

    private static final byte OURS = 0x77;
    private static final TransferOptions SOON =
            TransferOptions.DEFAULTS.withDeadline(Duration.ofMillis(200));

    /// The region of all tests: a receive that is ended, the one after it, and what the peer writes
    /// to meanwhile.
    private MemoryRegion inbox;

    private static final int NEXT = SIZE;
    private static final int WRITTEN = 2 * SIZE;
    private static final int WRITE = 64 << 10;

    @BeforeEach
    void wantOwnStores() {
        assumeTrue(setting.path() != TestPath.VERBS, "what a NIC writes cannot be taken back");
    }

    @Override
    void release() {
        if (peer instanceof PeerProcess process) {
            process.go();
        }
        super.release();
    }

    private void makeInbox(Kind kind) {
        inbox = region("inbox", kind, WRITTEN + WRITE);
        here.segment("inbox").fill((byte) 0);
        remote("outbox", Kind.FOREIGN, SIZE);
        peer.fill("outbox", 0, SIZE, 5);
    }

    /// The peer sends until a message is taken, and writes beside it all the while.
    ///
    /// @return how many sends that took
    private CompletableFuture<Integer> sendUntilTaken(long tag) {
        byte[] mine = inbox.remote().slice(WRITTEN, WRITE).toBytes();
        return peer.start(
                self -> {
                    RemoteMemory beside = RemoteMemory.ofBytes(mine);
                    for (int sends = 1; ; sends++) {
                        Transfer send = self.connection().send(tag, self.region("outbox").all());
                        do {
                            self.write("outbox", 0, WRITE, beside).assertDone(WRITE);
                        } while (!send.state().isTerminal());
                        if (Outcome.of(send).state() == TransferState.DONE) {
                            return sends;
                        }
                        Outcome.of(send).assertError(TelpherException.Cancelled.class);
                    }
                });
    }

    private MemorySegment ended() {
        return here.segment("inbox").asSlice(0, SIZE);
    }

    /// Waits until the peer is in the middle of storing, or has stored, or a while.
    private void awaitBytes() {
        long at = random.nextInt(SIZE / 2);
        MemorySegment bytes = ended();
        long end = System.nanoTime() + 100_000_000;
        while (bytes.get(Bytes.BYTE, at) == 0 && System.nanoTime() < end) {
            Thread.onSpinWait();
        }
    }

    /// Puts the owner's bytes where a receive has ended.
    ///
    /// @return how many of them may be overwritten
    private int takeBack(Outcome outcome) {
        ended().fill(OURS);
        if (outcome.remoteQuiet() == RemoteQuiet.YES) {
            return 0;
        }
        // What a GPU has been given goes on when its process is stopped.
        return setting.path().isOnGpus() ? SIZE : SLICE;
    }

    private void checkOurs(int most) {
        assertThat(Content.others(ended(), OURS))
                .as("bytes of the owner's that are gone")
                .isLessThanOrEqualTo(most);
    }

    private void checkNext(CompletableFuture<Integer> sending, Transfer next) {
        Outcome.of(next).assertDone(SIZE);
        assertThat(Peer.result(sending)).isPositive();
        here.check("inbox", NEXT, SIZE, 5);
        here.check("inbox", WRITTEN, WRITE, 5);
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aCancelledReceiveIsItsOwnersAtOnce(Kind kind) {
        makeInbox(kind);
        for (int round = 0; round < Scale.count(6); round++) {
            here.segment("inbox").fill((byte) 0);
            Transfer receive = connection().receive(1, inbox.slice(0, SIZE));
            Transfer next = connection().receive(1, inbox.slice(NEXT, SIZE));
            CompletableFuture<Integer> sending = sendUntilTaken(1);
            if (round % 4 > 0) {
                awaitBytes();
            }
            receive.cancel();
            Outcome outcome = Outcome.of(receive);
            if (outcome.state() == TransferState.DONE) {
                Peer.result(sending);
                next.cancel();
                assertThat(Outcome.of(next).state()).isEqualTo(TransferState.CANCELLED);
                continue;
            }
            assertThat(outcome.state()).isEqualTo(TransferState.CANCELLED);
            assertThat(outcome.remoteQuiet()).isEqualTo(RemoteQuiet.YES);
            int most = takeBack(outcome);
            checkNext(sending, next);
            checkOurs(most);
        }
    }

    /// A prepared receive is posted again while the message that met its first posting is taken
    /// back.
    @Test
    void aPreparedReceiveIsCancelledAndPostedAgain() {
        makeInbox(Kind.TELPHER);
        Transfer receive =
                connection()
                        .prepareReceive(
                                2, MemorySlices.of(inbox.slice(0, SIZE)), TransferOptions.DEFAULTS);
        for (int round = 0; round < Scale.count(6); round++) {
            here.segment("inbox").fill((byte) 0);
            receive.post();
            CompletableFuture<Integer> sending = sendUntilTaken(2);
            awaitBytes();
            receive.cancel();
            if (Outcome.of(receive).state() != TransferState.DONE) {
                receive.post();
                Outcome.of(receive).assertDone(SIZE);
            }
            Peer.result(sending);
            here.check("inbox", 0, SIZE, 5);
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aReceiveThatEndsWithItsConnectionIsItsOwners(Kind kind) {
        for (int round = 0; round < Scale.count(2); round++) {
            makeInbox(kind);
            Transfer receive = connection().receive(3, inbox.slice(0, SIZE));
            CompletableFuture<Boolean> sending =
                    peer.begin(
                            self -> {
                                Transfer send =
                                        self.connection().send(3, self.region("outbox").all());
                                Outcome unused = Outcome.of(send);
                            });
            awaitBytes();
            boolean stop = round % 2 == 1 && peer instanceof PeerProcess;
            if (stop) {
                ((PeerProcess) peer).stop();
            }
            connection().close();
            Outcome outcome = Outcome.of(receive);
            int most = outcome.state() == TransferState.DONE ? SIZE : takeBack(outcome);
            if (!stop && outcome.state() != TransferState.DONE) {
                outcome.assertError(TelpherException.Closed.class);
                assertThat(outcome.remoteQuiet()).isEqualTo(RemoteQuiet.YES);
            }
            if (stop) {
                ((PeerProcess) peer).go();
            }
            Peer.result(sending);
            checkOurs(most);
            release();
            reconnect();
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void aReceiveWhoseSenderStandsStillIsItsOwners(Kind kind) {
        assumeTrue(peer instanceof PeerProcess, "only another process can be stopped");
        PeerProcess process = (PeerProcess) peer;
        makeInbox(kind);
        RemoteMemory mine = inbox.remote().slice(WRITTEN, WRITE);
        for (int round = 0; round < Scale.count(3); round++) {
            boolean before = round % 3 == 0;
            here.segment("inbox").fill((byte) 0);
            CompletableFuture<Integer> sending = sendUntilTaken(4);
            if (before) {
                sleep(20);
                process.stop();
            }
            Transfer receive = connection().receive(4, MemorySlices.of(inbox.slice(0, SIZE)), SOON);
            if (!before) {
                awaitBytes();
                process.stop();
            }
            Outcome outcome = Outcome.of(receive);
            if (outcome.state() == TransferState.DONE) {
                process.go();
                Peer.result(sending);
                continue;
            }
            assertThat(outcome.state()).isEqualTo(TransferState.TIMED_OUT);
            if (before) {
                assertThat(outcome.remoteQuiet()).isEqualTo(RemoteQuiet.YES);
            }
            int most = takeBack(outcome);
            Transfer next = connection().receive(4, inbox.slice(NEXT, SIZE));
            process.go();
            checkNext(sending, next);
            checkOurs(most);
            // The region is the same as ever for everybody else.
            here.segment("inbox").asSlice(WRITTEN, WRITE).fill((byte) 0);
            try (Participant other = new Participant()) {
                other.open(options());
                other.add("source", Kind.TELPHER, WRITE);
                other.fill("source", 0, WRITE, 6);
                CompletableFuture<Connection> accepted =
                        CompletableFuture.supplyAsync(
                                () -> endpoint().accept(Duration.ofSeconds(20)));
                other.connect(endpoint().address().toBytes());
                other.write("source", 0, WRITE, mine).assertDone(WRITE);
                here.check("inbox", WRITTEN, WRITE, 6);
                accepted.join().close();
            }
        }
    }
}

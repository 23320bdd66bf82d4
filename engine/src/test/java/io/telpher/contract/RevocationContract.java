package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferState;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Regions that are closed while somebody uses them: afterwards the memory is its owner's alone.
@Setting.In({Place.ONE, Place.TWO, Place.NETNS})
abstract class RevocationContract extends Contract {
    private static final int SIZE = 16 << 20;
    private static final byte OURS = 0x77;
    private static final long QUIET = Duration.ofMillis(300).toMillis();

    /// Closes a peer's region after a while and, where the memory still exists, looks after it.
    private CompletableFuture<Boolean> closeLater(String name, Kind kind) {
        int delay = random.nextInt(30);
        return peer.begin(
                self -> {
                    sleep(delay);
                    self.closeRegion(name);
                    if (kind != Kind.TELPHER) {
                        self.segment(name).fill(OURS);
                        sleep(QUIET);
                        Content.checkAll(self.segment(name), 0, SIZE, OURS);
                    }
                });
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN", "FILE"})
    void theOwnerClosesDuringWrites(Kind kind) {
        MemoryRegion source = region("source", Kind.TELPHER, SIZE);
        here.fill("source", 0, SIZE, 1);
        for (int round = 0; round < Scale.count(3); round++) {
            String name = "target" + round;
            RemoteMemory target = remote(name, kind, SIZE);
            CompletableFuture<Boolean> closed = closeLater(name, kind);
            List<Transfer> transfers = new ArrayList<>();
            int step = round % 2 == 0 ? SIZE : 50_000;
            TelpherException error = null;
            while (error == null) {
                transfers.add(connection().write(source.slice(0, step), target.slice(0, step)));
                if (transfers.size() == 4) {
                    error = firstError(transfers);
                    transfers.clear();
                }
            }
            assertThat(error).isInstanceOf(TelpherException.StaleRegion.class);
            Peer.result(closed);
            assertThat(connection().isOpen()).isTrue();
        }
    }

    /// Waits for all; all errors are alike.
    private static TelpherException firstError(List<Transfer> transfers) {
        TelpherException error = null;
        for (Transfer transfer : transfers) {
            Outcome outcome = Outcome.of(transfer);
            if (outcome.state() != TransferState.DONE) {
                error = outcome.assertError(TelpherException.StaleRegion.class);
            }
        }
        return error;
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN", "FILE"})
    void theOwnerClosesDuringReads(Kind kind) {
        region("local", Kind.FOREIGN, SIZE);
        for (int round = 0; round < Scale.count(3); round++) {
            String name = "origin" + round;
            RemoteMemory origin = remote(name, kind, SIZE);
            peer.fill(name, 0, SIZE, 5);
            CompletableFuture<Boolean> closed = closeLater(name, kind);
            int step = round % 2 == 0 ? SIZE : 50_000;
            while (true) {
                Outcome outcome =
                        Outcome.of(
                                connection()
                                        .read(here.slice("local", 0, step), origin.slice(0, step)));
                if (outcome.state() != TransferState.DONE) {
                    outcome.assertError(TelpherException.StaleRegion.class);
                    break;
                }
                // Nothing that the owner wrote after the close.
                here.check("local", 0, step, 5);
            }
            here.segment("local").fill(OURS);
            Peer.result(closed);
            Content.checkAll(here.segment("local"), 0, SIZE, OURS);
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"TELPHER", "FOREIGN"})
    void theInitiatorClosesItsOwnRegionDuringWrites(Kind kind) {
        RemoteMemory target = remote("target", Kind.TELPHER, SIZE);
        for (int round = 0; round < Scale.count(6); round++) {
            String name = "source" + round;
            region(name, kind, SIZE);
            here.fill(name, 0, SIZE, round + 1);
            peer.fill("target", 0, SIZE, STALE);
            List<Transfer> transfers = new ArrayList<>();
            int pieces = 8;
            int step = SIZE / pieces;
            for (int i = 0; i < pieces; i++) {
                long at = (long) i * step;
                transfers.add(
                        connection().write(here.slice(name, at, step), target.slice(at, step)));
            }
            here.closeRegion(name);
            if (kind == Kind.FOREIGN) {
                here.segment(name).fill(OURS);
            }
            for (int i = 0; i < pieces; i++) {
                assertThat(transfers.get(i).state().isTerminal())
                        .as("transfers have ended when close returns")
                        .isTrue();
                Outcome outcome = Outcome.of(transfers.get(i));
                long at = (long) i * step;
                if (outcome.state() == TransferState.DONE) {
                    long seed = round + 1L;
                    peer.tell(self -> Content.check(self.segment("target"), at, step, seed, at));
                } else {
                    outcome.assertError(TelpherException.StaleRegion.class);
                }
            }
            peer.tell(
                    self -> {
                        for (int i = 0; i < SIZE; i += 64) {
                            long at = i;
                            boolean ours = true;
                            for (int k = 0; k < 8; k++) {
                                ours &= self.segment("target").get(Bytes.BYTE, at + k) == OURS;
                            }
                            assertThat(ours).as("bytes from after the end at %d", at).isFalse();
                        }
                    });
        }
        assertThat(connection().isOpen()).isTrue();
    }

    @Test
    void theInitiatorClosesItsOwnRegionDuringReads() {
        RemoteMemory origin = remote("origin", Kind.TELPHER, SIZE);
        peer.fill("origin", 0, SIZE, 3);
        for (int round = 0; round < Scale.count(6); round++) {
            String name = "local" + round;
            region(name, Kind.FOREIGN, SIZE);
            Transfer read = connection().read(here.region(name).all(), origin);
            here.closeRegion(name);
            assertThat(read.state().isTerminal()).isTrue();
            Outcome outcome = Outcome.of(read);
            if (outcome.state() == TransferState.DONE) {
                here.check(name, 0, SIZE, 3);
            } else {
                outcome.assertError(TelpherException.StaleRegion.class);
            }
            here.segment(name).fill(OURS);
            sleep(50);
            Content.checkAll(here.segment(name), 0, SIZE, OURS);
        }
    }

    @Test
    void aRegionWithPendingReceivesCloses() {
        for (int round = 0; round < Scale.count(6); round++) {
            String name = "inbox" + round;
            long tag = 70L + round;
            region(name, Kind.FOREIGN, SIZE);
            peer.add("source" + round, Kind.TELPHER, SIZE);
            Transfer receive = connection().receive(tag, here.region(name).all());
            boolean started = round % 2 == 0;
            CompletableFuture<Boolean> sending =
                    started ? peer.begin(self -> send(self, name, tag)) : null;
            sleep(random.nextInt(4));
            here.closeRegion(name);
            assertThat(receive.state().isTerminal()).isTrue();
            here.segment(name).fill(OURS);
            Outcome outcome = Outcome.of(receive);
            if (sending == null) {
                sending = peer.begin(self -> send(self, name, tag));
            }
            sleep(100);
            if (outcome.state() != TransferState.DONE) {
                outcome.assertError(TelpherException.StaleRegion.class);
            }
            Content.checkAll(here.segment(name), 0, SIZE, OURS);
            Peer.result(sending);
            peer.tell(self -> self.transfer("send" + tag).cancel());
            peer.tell(self -> Outcome.of(self.transfer("send" + tag)));
        }
        assertThat(connection().isOpen()).isTrue();
    }

    private static void send(Participant self, String name, long tag) {
        MemoryRegion source = self.region(name.replace("inbox", "source"));
        self.keep("send" + tag, self.connection().send(tag, source.all()));
    }

    @Test
    void closingTwiceAndFromManyThreadsIsHarmless() throws InterruptedException {
        RemoteMemory target = remote("target", Kind.TELPHER, SIZE);
        MemoryRegion source = region("source", Kind.FOREIGN, SIZE);
        Transfer write = connection().write(source.all(), target);
        List<Thread> threads = new ArrayList<>();
        List<Throwable> errors = new java.util.concurrent.CopyOnWriteArrayList<>();
        for (int i = 0; i < 4; i++) {
            threads.add(
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        try {
                                            source.close();
                                        } catch (Throwable e) {
                                            errors.add(e);
                                        }
                                    }));
        }
        for (Thread thread : threads) {
            assertThat(thread.join(Duration.ofSeconds(20))).isTrue();
        }
        assertThat(errors).isEmpty();
        assertThat(write.state().isTerminal()).isTrue();
        source.close();
        assertThat(source.isOpen()).isFalse();
    }
}

package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.EndpointAddress;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// TCP between hosts that have several links, when links fail and packets are lost.
class NetnsTest extends TwoHosts {
    /// Waits until a link carries lanes again.
    private static void awaitLanes(Participant self, String subnet) {
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        while (self.connection().metrics().lanes().stream()
                .noneMatch(lane -> lane.alive() && lane.description().contains(subnet))) {
            assertThat(System.nanoTime()).as(self.connection().explain()).isLessThan(end);
            Contract.sleep(20);
        }
    }

    /// Waits until a link has carried some of a write, which goes on for seconds then.
    private static void awaitBytes(Participant self, String subnet) {
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        while (sent(self, subnet) < 1 << 20) {
            assertThat(System.nanoTime()).as(self.connection().explain()).isLessThan(end);
            Contract.sleep(1);
        }
    }

    /// The write was on both links: the lane of the one that failed must have been given up.
    private void checkDead(String subnet) {
        a.tell(
                self ->
                        assertThat(self.connection().metrics().lanes())
                                .as(self.connection().explain())
                                .anyMatch(
                                        lane ->
                                                !lane.alive()
                                                        && lane.description().contains(subnet)));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void oneLinkIsTakenDownAndComesBack(int down) {
        String device = "v" + down;
        String subnet = "10.99." + down + ".";
        byte[] target =
                writeWhile(subnet, () -> hosts.run("a", "ip", "link", "set", device, "down"));
        hosts.run("a", "ip", "link", "set", device, "up");
        checkSmallWrite();
        a.tell(self -> awaitLanes(self, subnet));
        long before = a.run(self -> sent(self, subnet));
        int again = 32 << 20;
        Peer.result(startWrite(target, again)).assertDone(again);
        long after = a.run(self -> sent(self, subnet));
        assertThat(after - before).as("bytes over the link that is back").isGreaterThan(again / 5);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void eitherLinkTurnsBlack(int black) {
        byte[] unused =
                writeWhile(
                        "10.99." + black + ".",
                        () -> {
                            hosts.drop("a", "v" + black);
                            hosts.drop("b", "v" + black);
                        });
    }

    /// Writes over two links, of which one fails in the middle: that costs a lane, no more.
    ///
    /// @param subnet of the one that fails
    /// @return the target
    private byte[] writeWhile(String subnet, Runnable failure) {
        prepareTwoLinks();
        limit("250mbit", "250mbit");
        connect(TCP);
        int size = 256 << 20;
        byte[] target = target(size);
        CompletableFuture<Outcome> write = startWrite(target, size);
        a.tell(self -> awaitBytes(self, subnet));
        failure.run();
        Peer.result(write).assertDone(size);
        b.check("target", 0, size, 4);
        checkDead(subnet);
        checkSmallWrite();
        return target;
    }

    @Test
    void nothingIsWrittenTwiceIntoMemoryThatWasUsedAgain() {
        prepareTwoLinks();
        limit("500mbit", "500mbit");
        connect(TCP);
        int slot = 4 << 20;
        int slots = 48;
        byte[] target = target((long) slot * slots);
        // The owner takes each slot for itself as soon as it hears that the slot's write is done.
        CompletableFuture<Boolean> owner =
                b.begin(
                        self -> {
                            for (int i = 0; i < slots; i++) {
                                byte[] body =
                                        self.connection()
                                                .awaitNotification(Duration.ofSeconds(60))
                                                .payload();
                                long at = slot * (long) body[0];
                                Content.check(self.segment("target"), at, slot, 4, at);
                                self.segment("target").asSlice(at, slot).fill((byte) 0x77);
                            }
                        });
        CompletableFuture<Boolean> writer =
                a.begin(self -> writeSlots(self, RemoteMemory.ofBytes(target), slot, slots));
        Contract.sleep(400);
        hosts.drop("a", "v1");
        hosts.drop("b", "v1");
        Contract.sleep(1500);
        // What the sockets still hold may arrive now.
        hosts.dropNothing("a");
        hosts.dropNothing("b");
        Peer.result(writer);
        Peer.result(owner);
        Contract.sleep(2000);
        checkDead("10.99.1."); // what it held was sent again
        b.tell(
                self ->
                        Content.checkAll(
                                self.segment("target"), 0, (long) slot * slots, (byte) 0x77));
        checkSmallWrite();
    }

    /// Writes slot by slot, four in flight, and tells the owner by a message of its own.
    private static void writeSlots(Participant self, RemoteMemory target, int slot, int slots) {
        Deque<Transfer> flight = new ArrayDeque<>();
        int told = 0;
        for (int i = 0; told < slots; i++) {
            if (i < slots) {
                long at = (long) i * slot;
                flight.add(
                        self.connection()
                                .write(self.slice("source", at, slot), target.slice(at, slot)));
            }
            if (flight.size() == 4 || i >= slots) {
                Outcome.of(flight.remove(), Duration.ofSeconds(60)).assertDone(slot);
                byte[] body = {(byte) told++};
                Outcome.of(self.connection().notifyPeer(Bytes.off(body))).assertDone();
            }
        }
    }

    @Test
    void bothLinksTurnBlack() {
        prepareTwoLinks();
        limit("1gbit", "1gbit");
        connect(TCP);
        int size = 256 << 20;
        byte[] target = target(size);
        CompletableFuture<Outcome> write = startWrite(target, size);
        CompletableFuture<Outcome> receive =
                b.start(
                        self ->
                                Outcome.of(
                                        self.connection().receive(1, self.slice("target", 0, 0))));
        Contract.sleep(300);
        for (String device : List.of("v0", "v1")) {
            hosts.drop("a", device);
            hosts.drop("b", device);
        }
        long start = System.nanoTime();
        Outcome outcome = Peer.result(write);
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(LIVENESS.plusSeconds(3));
        outcome.assertError(TelpherException.PeerLost.class);
        assertThat(outcome.error()).hasMessageContaining("tcp");
        // The side that only listens must find out as well.
        Peer.result(receive).assertError(TelpherException.PeerLost.class);
        assertThat(Duration.ofNanos(System.nanoTime() - start))
                .isLessThan(LIVENESS.multipliedBy(2).plusSeconds(4));
        hosts.dropNothing("a");
        hosts.dropNothing("b");
        byte[] address = b.run(self -> self.endpoint().address().toBytes());
        CompletableFuture<Boolean> accepted = b.begin(Participant::accept);
        a.tell(self -> self.connect(address));
        Peer.result(accepted);
        checkSmallWrite();
    }

    @Test
    void lostPacketsOnlyCostTime() {
        prepareTwoLinks();
        connect(TCP);
        for (String device : List.of("v0", "v1")) {
            hosts.lose("a", device, "0.01");
            hosts.lose("b", device, "0.01");
        }
        int size = 32 << 20;
        byte[] target = target(size);
        Peer.result(startWrite(target, size)).assertDone(size);
        b.check("target", 0, size, 4);
        a.tell(
                self -> {
                    self.segment("source").fill((byte) 0);
                    Outcome.of(
                                    self.connection()
                                            .read(
                                                    self.region("source").all(),
                                                    RemoteMemory.ofBytes(target)))
                            .assertDone(size);
                    self.check("source", 0, size, 4);
                });
        notifyOften();
    }

    private void notifyOften() {
        int count = 500;
        CompletableFuture<Boolean> seen =
                b.begin(
                        self -> {
                            for (int i = 0; i < count; i++) {
                                byte[] body =
                                        self.connection()
                                                .awaitNotification(Duration.ofSeconds(30))
                                                .payload();
                                assertThat(
                                                MemorySegment.ofArray(body)
                                                        .get(ValueLayout.JAVA_INT_UNALIGNED, 0))
                                        .isEqualTo(i);
                            }
                        });
        a.tell(
                self -> {
                    MemorySegment word = Arena.ofAuto().allocate(4);
                    for (int i = 0; i < count; i++) {
                        word.set(ValueLayout.JAVA_INT, 0, i);
                        Outcome.of(self.connection().notifyPeer(word)).assertDone();
                    }
                });
        Peer.result(seen);
    }

    @Test
    void diallingIntoABlackHoleEndsByTheDeadline() {
        prepareTwoLinks();
        a.tell(self -> self.open(TCP));
        byte[] address = b.run(self -> self.open(TCP));
        hosts.drop("b", "v0");
        hosts.drop("b", "v1");
        String result =
                a.run(
                        self -> {
                            long start = System.nanoTime();
                            try {
                                self.endpoint()
                                        .connect(
                                                EndpointAddress.ofBytes(address),
                                                Duration.ofSeconds(1));
                                return "connected";
                            } catch (TelpherException.TimedOut e) {
                                long millis = (System.nanoTime() - start) / 1_000_000;
                                return millis > 950 && millis < 2500 ? "in time" : millis + " ms";
                            }
                        });
        assertThat(result).isEqualTo("in time");
        // One way is enough.
        hosts.dropNothing("b");
        hosts.drop("b", "v0");
        CompletableFuture<Boolean> accepted = b.begin(Participant::accept);
        a.tell(self -> self.connect(address));
        Peer.result(accepted);
        checkSmallWrite();
        assertThat(a.<String>run(self -> self.connection().explain())).contains("10.99.1.");
    }
}

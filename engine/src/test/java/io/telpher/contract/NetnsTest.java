package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.EndpointAddress;
import io.telpher.MemorySlice;
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
import java.util.function.IntConsumer;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// TCP between hosts that have several links, when links fail and packets are lost.
class NetnsTest extends TwoHosts {
    private static final int SLOT = 4 << 20;

    /// What an owner puts into a slot of memory that it takes for another use.
    private static final byte TAKEN = 0x77;

    private static final Duration LIMIT = Duration.ofSeconds(60);

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

    /// Writes over two links, of which one fails in the middle: that costs a lane, no more. So do
    /// reads and messages that are under way at the same time.
    ///
    /// @param subnet of the one that fails
    /// @return the target
    private byte[] writeWhile(String subnet, Runnable failure) {
        prepareTwoLinks();
        limit("250mbit", "250mbit");
        connect(TCP);
        int size = 192 << 20;
        byte[] target = target(size);
        CompletableFuture<Outcome> write = startWrite(target, size);
        Runnable others = startOthers(16);
        a.tell(self -> awaitBytes(self, subnet));
        b.tell(self -> awaitBytes(self, subnet)); // that are read
        failure.run();
        Peer.result(write).assertDone(size);
        b.check("target", 0, size, 4);
        others.run();
        checkDead(subnet);
        checkSmallWrite();
        return target;
    }

    @Test
    void nothingIsWrittenTwiceIntoMemoryThatWasUsedAgain() {
        prepareTwoLinks();
        limit("500mbit", "500mbit");
        connect(TCP);
        int slots = 36;
        byte[] target = target((long) SLOT * slots);
        // The owner takes each slot for itself as soon as it hears that the slot's write is done.
        CompletableFuture<Boolean> owner =
                b.begin(
                        self -> {
                            for (int i = 0; i < slots; i++) {
                                byte[] body = self.connection().awaitNotification(LIMIT).payload();
                                take(self, "target", body[0], 4);
                            }
                        });
        CompletableFuture<Boolean> writer =
                a.begin(self -> writeSlots(self, RemoteMemory.ofBytes(target), slots));
        Runnable others = startOthers(12);
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
        others.run();
        checkDead("10.99.1."); // what it held was sent again
        b.tell(self -> checkTaken(self, "target"));
        checkSmallWrite();
    }

    /// Writes slot by slot, and tells the owner by a message of its own.
    private static void writeSlots(Participant self, RemoteMemory target, int slots) {
        inTurn(
                slots,
                i -> self.connection().write(slot(self, "source", i), there(target, i)),
                i -> {
                    byte[] body = {(byte) i};
                    Outcome.of(self.connection().notifyPeer(Bytes.off(body))).assertDone();
                });
    }

    /// Starts to send messages to `b`, and to read from there, slot by slot. Whoever gets a slot's
    /// bytes takes the slot for another use at once.
    ///
    /// @return waits until all is done, and checks that nothing was written afterwards
    private Runnable startOthers(int slots) {
        long size = (long) SLOT * slots;
        byte[] origin = b.add("origin", Kind.FOREIGN, size).toBytes();
        b.fill("origin", 0, size, 5);
        b.add("received", Kind.FOREIGN, size);
        a.add("read", Kind.FOREIGN, size);
        List<CompletableFuture<Boolean>> all =
                List.of(
                        b.begin(self -> receiveSlots(self, slots)),
                        a.begin(self -> sendSlots(self, slots)),
                        a.begin(self -> readSlots(self, RemoteMemory.ofBytes(origin), slots)));
        return () -> {
            all.forEach(Peer::result);
            a.tell(self -> checkTaken(self, "read"));
            b.tell(self -> checkTaken(self, "received"));
        };
    }

    private static void receiveSlots(Participant self, int slots) {
        inTurn(
                slots,
                i -> self.connection().receive(7, slot(self, "received", i)),
                i -> take(self, "received", i, 4));
    }

    private static void sendSlots(Participant self, int slots) {
        inTurn(slots, i -> self.connection().send(7, slot(self, "source", i)), i -> {});
    }

    private static void readSlots(Participant self, RemoteMemory origin, int slots) {
        inTurn(
                slots,
                i -> self.connection().read(slot(self, "read", i), there(origin, i)),
                i -> take(self, "read", i, 5));
    }

    private static MemorySlice slot(Participant self, String name, int slot) {
        return self.slice(name, (long) slot * SLOT, SLOT);
    }

    private static RemoteMemory there(RemoteMemory memory, int slot) {
        return memory.slice((long) slot * SLOT, SLOT);
    }

    /// Carries out a transfer for each slot, four in flight.
    private static void inTurn(int slots, IntFunction<Transfer> post, IntConsumer done) {
        Deque<Transfer> flight = new ArrayDeque<>();
        for (int i = 0; i < slots + 4; i++) {
            if (i >= 4) {
                Outcome.of(flight.remove(), LIMIT).assertDone(SLOT);
                done.accept(i - 4);
            }
            if (i < slots) {
                flight.add(post.apply(i));
            }
        }
    }

    private static void take(Participant self, String name, int slot, long seed) {
        long at = (long) slot * SLOT;
        Content.check(self.segment(name), at, SLOT, seed, at);
        self.segment(name).asSlice(at, SLOT).fill(TAKEN);
    }

    private static void checkTaken(Participant self, String name) {
        Content.checkAll(self.segment(name), 0, self.segment(name).byteSize(), TAKEN);
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
        // The other family would be another way.
        for (String link : List.of("v0", "v1")) {
            hosts.run("b", "ip", "-6", "address", "flush", "dev", link);
            hosts.drop("b", link);
        }
        byte[] address = b.run(self -> self.open(TCP));
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

package io.telpher.contract;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.EndpointAddress;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// TCP between hosts that have several links: striping, links that fail, packets that are lost.
/// Each host is a network namespace.
class NetnsTest {
    private static final String SUBNET = "10.99.%d";
    private static final byte[] SECRET = "0123456789abcdef".getBytes(US_ASCII);
    private static final Duration LIVENESS = Duration.ofSeconds(2);
    private static final Participant.Tweak TCP =
            o ->
                    TestPath.TCP
                            .restrict(o)
                            .withLiveness(LIVENESS)
                            .withSecret(SECRET)
                            .withDeadline(Duration.ofSeconds(60));

    @TempDir Path folder;

    private Namespaces hosts;
    private PeerProcess a;
    private PeerProcess b;

    @AfterEach
    void close() {
        try {
            for (PeerProcess process : new PeerProcess[] {a, b}) {
                if (process != null && process.isAlive()) {
                    process.kill();
                }
            }
        } finally {
            if (hosts != null) {
                hosts.close();
            }
        }
    }

    /// Two hosts with two links.
    private void prepareTwoLinks() {
        assumeTrue(Namespaces.missing() == null, Namespaces.missing());
        hosts = Namespaces.create("a", "b");
        hosts.link("a", "b", SUBNET.formatted(0));
        hosts.link("a", "b", SUBNET.formatted(1));
        a = PeerProcess.start(hosts.exec("a"));
        b = PeerProcess.start(hosts.exec("b"));
    }

    private void limit(String... rates) {
        for (int i = 0; i < rates.length; i++) {
            hosts.limit("a", "v" + i, rates[i]);
            hosts.limit("b", "v" + i, rates[i]);
        }
    }

    private void connect(Participant.Tweak options) {
        a.tell(self -> self.open(options));
        byte[] address = b.run(self -> self.open(options));
        CompletableFuture<Boolean> accepted = b.begin(Participant::accept);
        a.tell(self -> self.connect(address));
        Peer.result(accepted);
    }

    private byte[] target(long size) {
        a.tell(
                self -> {
                    self.add("source", Kind.FOREIGN, size);
                    self.fill("source", 0, size, 4);
                });
        return b.add("target", Kind.FOREIGN, size).toBytes();
    }

    private CompletableFuture<Outcome> startWrite(byte[] target, long size) {
        return a.start(self -> self.write("source", 0, size, RemoteMemory.ofBytes(target)));
    }

    private static long sent(Participant self, String subnet) {
        return self.connection().metrics().lanes().stream()
                .filter(lane -> lane.description().contains(subnet))
                .mapToLong(ConnectionMetrics.Lane::bytesSent)
                .sum();
    }

    private void checkSmallWrite() {
        long id = System.nanoTime();
        String name = "small" + id;
        byte[] target = b.add(name, Kind.TELPHER, 100).toBytes();
        a.tell(
                self -> {
                    self.add(name, Kind.TELPHER, 100);
                    self.fill(name, 0, 100, id);
                    self.write(name, 0, 100, RemoteMemory.ofBytes(target)).assertDone(100);
                });
        b.check(name, 0, 100, id);
    }

    @Test
    void stripingUsesBothLinks() {
        prepareTwoLinks();
        limit("1gbit", "1gbit");
        connect(TCP);
        int size = 128 << 20;
        byte[] target = target(size);
        long first = a.run(self -> sent(self, "10.99.0."));
        long second = a.run(self -> sent(self, "10.99.1."));
        Peer.result(startWrite(target, size)).assertDone(size);
        b.check("target", 0, size, 4);
        first = a.<Long>run(self -> sent(self, "10.99.0.")) - first;
        second = a.<Long>run(self -> sent(self, "10.99.1.")) - second;
        assertThat(first).as("bytes over the first link").isGreaterThan(size / 5);
        assertThat(second).as("bytes over the second link").isGreaterThan(size / 5);
        assertThat(a.<String>run(self -> self.connection().explain()))
                .contains("10.99.0.", "10.99.1.");
    }

    /// Waits until a link carries lanes again.
    private static void awaitLanes(Participant self, String subnet) {
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        while (self.connection().metrics().lanes().stream()
                .noneMatch(lane -> lane.alive() && lane.description().contains(subnet))) {
            assertThat(System.nanoTime()).as(self.connection().explain()).isLessThan(end);
            Contract.sleep(20);
        }
    }

    @Test
    void oneLinkIsTakenDownAndComesBack() {
        prepareTwoLinks();
        limit("1gbit", "1gbit");
        connect(TCP);
        int size = 256 << 20;
        byte[] target = target(size);
        CompletableFuture<Outcome> write = startWrite(target, size);
        Contract.sleep(300);
        hosts.run("a", "ip", "link", "set", "v0", "down");
        Peer.result(write).assertDone(size);
        b.check("target", 0, size, 4);
        checkSmallWrite();
        hosts.run("a", "ip", "link", "set", "v0", "up");
        checkSmallWrite();
        a.tell(self -> awaitLanes(self, "10.99.0."));
        long before = a.run(self -> sent(self, "10.99.0."));
        int again = 32 << 20;
        Peer.result(startWrite(target, again)).assertDone(again);
        long after = a.run(self -> sent(self, "10.99.0."));
        assertThat(after - before).as("bytes over the link that is back").isGreaterThan(again / 5);
    }

    @Test
    void eitherLinkTurnsBlack() {
        for (int black = 0; black < 2; black++) {
            prepareTwoLinks();
            limit("1gbit", "1gbit");
            connect(TCP);
            int size = 256 << 20;
            byte[] target = target(size);
            CompletableFuture<Outcome> write = startWrite(target, size);
            Contract.sleep(300);
            hosts.drop("a", "v" + black);
            hosts.drop("b", "v" + black);
            Peer.result(write).assertDone(size);
            b.check("target", 0, size, 4);
            checkSmallWrite();
            close();
        }
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

    @Test
    void hostsWithoutACommonSubnetAreToldSo() {
        assumeTrue(Namespaces.missing() == null, Namespaces.missing());
        hosts = Namespaces.create("a", "m", "b");
        hosts.link("a", "m", SUBNET.formatted(0));
        hosts.link("m", "b", SUBNET.formatted(1));
        // A link-local address could be a neighbour's: only a time-out tells that it is not.
        hosts.run("a", "ip", "-6", "address", "flush", "dev", "v0");
        a = PeerProcess.start(hosts.exec("a"));
        b = PeerProcess.start(hosts.exec("b"));
        a.tell(self -> self.open(TCP));
        byte[] address = b.run(self -> self.open(TCP));
        String error =
                a.run(
                        self -> {
                            long start = System.nanoTime();
                            try {
                                self.connect(address);
                                return "connected";
                            } catch (TelpherException.ConnectFailed e) {
                                assertThat(Duration.ofNanos(System.nanoTime() - start))
                                        .isLessThan(Duration.ofSeconds(3));
                                return e.getMessage();
                            }
                        });
        assertThat(error).contains("10.99.1.");
    }

    @Test
    void onlyTheInterfacesThatWereAskedFor() {
        for (String choice : List.of("v1", "10.99.1.0/24")) {
            prepareTwoLinks();
            connect(o -> TCP.apply(o).withInterfaces(List.of(choice)));
            int size = 16 << 20;
            Peer.result(startWrite(target(size), size)).assertDone(size);
            b.check("target", 0, size, 4);
            assertThat(a.<Long>run(self -> sent(self, "10.99.0."))).isZero();
            assertThat(a.<Long>run(self -> sent(self, "10.99.1."))).isGreaterThanOrEqualTo(size);
            close();
        }
    }

    @Test
    void aLinkThatSpeaksOnlyIpv6() {
        assumeTrue(Namespaces.missing() == null, Namespaces.missing());
        hosts = Namespaces.create("a", "b");
        String device = hosts.link("a", "b", SUBNET.formatted(0));
        for (String name : List.of("a", "b")) {
            hosts.run(name, "ip", "-4", "address", "flush", "dev", device);
            String last = name.equals("a") ? "1" : "2";
            hosts.run(
                    name, "ip", "address", "add", "fe80::" + last + "/64", "dev", device, "nodad");
        }
        a = PeerProcess.start(hosts.exec("a"));
        b = PeerProcess.start(hosts.exec("b"));
        connect(TCP);
        checkSmallWrite();
        a.tell(Participant::close);
        b.tell(Participant::close);
        int port = 4711;
        a.tell(self -> self.open(TCP));
        b.tell(self -> self.open(o -> TCP.apply(o).withPort(port)));
        CompletableFuture<Boolean> accepted = b.begin(Participant::accept);
        a.tell(
                self ->
                        self.connect(
                                EndpointAddress.of("fe80::2%" + device, port, SECRET).toBytes()));
        Peer.result(accepted);
        checkSmallWrite();
    }

    @Test
    void containersThatShareAFolderShareMemory() {
        prepareTwoLinks();
        String sockets = folder.toString();
        connect(o -> o.withSocketDirectory(sockets).withTransports(List.of("shm")));
        checkSmallWrite();
        b.add("target", Kind.TELPHER, 10_000);
        byte[] target = b.run(self -> self.region("target").remote().toBytes());
        String path =
                a.run(
                        self -> {
                            MemoryRegion source = self.add("source", Kind.TELPHER, 10_000);
                            Transfer write =
                                    self.connection()
                                            .write(
                                                    source.all(),
                                                    RemoteMemory.ofBytes(target),
                                                    TransferOptions.DEFAULTS);
                            Outcome.of(write).assertDone(10_000);
                            return write.path();
                        });
        assertThat(path).isEqualTo("mapped");
    }

    @Test
    void containersThatShareNothingUseTcpAndSaySo() {
        prepareTwoLinks();
        connect(o -> o);
        checkSmallWrite();
        String explained = a.run(self -> explain(self.connection()));
        assertThat(explained).contains("tcp").contains("shm");
    }

    private static String explain(Connection connection) {
        return connection.explain();
    }
}

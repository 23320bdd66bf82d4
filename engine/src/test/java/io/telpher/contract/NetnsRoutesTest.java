package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.Connection;
import io.telpher.ConnectionMetrics;
import io.telpher.EndpointAddress;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.TransferOptions;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Which ways connections take between hosts, and how they share several links.
class NetnsRoutesTest extends TwoHosts {
    @TempDir Path folder;

    /// Each rail carries about what its rate allows.
    ///
    /// @param least of 100 bytes how many the first link carries at least
    @ParameterizedTest
    @CsvSource({"1gbit, 1gbit, 20, 80", "400mbit, 800mbit, 15, 43"})
    void stripingUsesBothLinks(String one, String other, int least, int most) {
        prepareTwoLinks();
        limit(one, other);
        connect(TCP);
        int size = 128 << 20;
        byte[] target = target(size);
        long first = a.run(self -> sent(self, "10.99.0."));
        long second = a.run(self -> sent(self, "10.99.1."));
        Peer.result(startWrite(target, size)).assertDone(size);
        b.check("target", 0, size, 4);
        first = a.<Long>run(self -> sent(self, "10.99.0.")) - first;
        second = a.<Long>run(self -> sent(self, "10.99.1.")) - second;
        assertThat(first + second).as("bytes over both links").isGreaterThanOrEqualTo(size);
        assertThat(100 * first / (first + second))
                .as("per cent over the first link: %d bytes, %d over the second", first, second)
                .isBetween((long) least, (long) most);
        assertThat(a.<String>run(self -> self.connection().explain()))
                .contains("10.99.0.", "10.99.1.");
    }

    @Test
    void aMachineWithoutAnyCardUsesLoopback() {
        assumeTrue(Namespaces.missing() == null, Namespaces.missing());
        hosts = Namespaces.create("a");
        a = PeerProcess.start(hosts.exec("a"));
        b = PeerProcess.start(hosts.exec("a"));
        connect(TCP);
        checkSmallWrite();
        String explained = a.run(self -> self.connection().explain());
        assertThat(explained).contains("(lo)").doesNotContain("eth0");
        assertThat(hosts.run("a", "ip", "-brief", "link").lines()).as("loopback only").hasSize(1);
    }

    /// Two pairs of addresses could have eight lanes each.
    @Test
    void noMoreSocketsThanAllowed() {
        int most = 5;
        prepareTwoLinks();
        connect(o -> TCP.apply(o).withLanes(8).withMaxSockets(most));
        byte[] target = target(32 << 20);
        awaitSockets(most);
        CompletableFuture<Outcome> write = startWrite(target, 32 << 20);
        do {
            assertThat(sockets("a")).hasSizeLessThanOrEqualTo(most);
            assertThat(sockets("b")).hasSizeLessThanOrEqualTo(most);
        } while (!write.isDone());
        Peer.result(write).assertDone(32 << 20);
        b.check("target", 0, 32 << 20, 4);
    }

    private static long lanes(Participant self) {
        return self.connection().metrics().lanes().stream()
                .filter(ConnectionMetrics.Lane::alive)
                .count();
    }

    /// Waits until both hosts have so many lanes, each a socket, and no other sockets.
    private void awaitSockets(long count) {
        awaitEqual(() -> a.run(NetnsRoutesTest::lanes), count);
        awaitEqual(() -> b.run(NetnsRoutesTest::lanes), count);
        awaitEqual(() -> (long) sockets("a").size(), count);
        awaitEqual(() -> (long) sockets("b").size(), count);
    }

    private static void awaitEqual(Callable<Long> value, long wanted) {
        await().atMost(Participant.LIMIT)
                .pollDelay(Duration.ZERO)
                .pollInterval(Duration.ofMillis(20))
                .until(value, Predicate.isEqual(wanted));
    }

    /// @return a host's established TCP sockets, all of which lead to its only neighbour
    private List<String> sockets(String host) {
        return hosts.run(host, "cat", "/proc/net/tcp", "/proc/net/tcp6")
                .lines()
                .filter(line -> line.matches(" *[0-9]+: \\S+ \\S+ 01 .*"))
                .toList();
    }

    @Test
    void bothHostsDialAtTheSameTime() {
        prepareTwoLinks();
        byte[] addressOfA = a.run(self -> self.open(TCP));
        byte[] addressOfB = b.run(self -> self.open(TCP));
        Random random = Scale.random("netns dial");
        for (int round = 0; round < Scale.count(10); round++) {
            int late = random.nextInt(-2000, 2000);
            CompletableFuture<Boolean> there = a.begin(self -> dial(self, addressOfB, late));
            CompletableFuture<Boolean> back = b.begin(self -> dial(self, addressOfA, -late));
            Peer.result(there);
            Peer.result(back);
            // Two ends of one connection, and there is no other.
            for (PeerProcess from : new PeerProcess[] {a, b}) {
                byte id = (byte) round;
                from.tell(self -> notifyPeer(self, id));
                PeerProcess to = from == a ? b : a;
                assertThat(to.<byte[]>run(NetnsRoutesTest::awaitNotification)).containsExactly(id);
            }
            for (PeerProcess side : new PeerProcess[] {a, b}) {
                side.tell(
                        self ->
                                ConnectTest.checkNothingToAccept(
                                        self.endpoint(), self.connection()));
            }
            // The attempt that yielded leaves nothing: control, and a lane on each link.
            awaitSockets(3);
            a.tell(Participant::closeConnection);
            b.tell(Participant::closeConnection);
        }
    }

    private static void dial(Participant self, byte[] address, int micros) {
        LockSupport.parkNanos(1000L * Math.max(0, micros));
        self.connect(address);
    }

    private static void notifyPeer(Participant self, byte id) {
        byte[] body = {id};
        Outcome.of(self.connection().notifyPeer(Bytes.off(body))).assertDone();
    }

    private static byte[] awaitNotification(Participant self) {
        return self.connection().awaitNotification(Participant.LIMIT).payload();
    }

    @Test
    void hostsWithoutACommonSubnetAreToldSo() {
        assumeTrue(Namespaces.missing() == null, Namespaces.missing());
        hosts = Namespaces.create("a", "m", "b");
        hosts.link("a", "m", SUBNET.formatted(0));
        hosts.link("m", "b", SUBNET.formatted(1));
        // A link-local address could be a neighbour's: only a time-out tells that it is not.
        hosts.run("a", "ip", "-6", "address", "flush", "dev", "v0");
        startOneEach();
        a.tell(self -> self.open(TCP));
        byte[] address = b.run(self -> self.open(TCP));
        String error = refusal(address, Participant.LIMIT, Duration.ofSeconds(3));
        assertThat(error).contains("10.99.1.");
    }

    /// The interfaces of the first link are up, and what arrives by it is dropped. The routed way
    /// leads by a third host, the other family by the same link.
    @Test
    void aDeadSharedSubnetLeavesTheOtherWays() {
        prepareDetour();
        hosts.run("m", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward");
        hosts.run("b", "ip", "route", "add", "10.99.1.0/24", "via", "10.99.2.1");
        for (String name : List.of("a", "b")) {
            hosts.drop(name, "v0");
            hosts.run(name, "ip", "-6", "address", "flush", "dev", "v0");
        }
        startOneEach();
        checkConnectsBy("routed -> 10.99.2.2:");

        hosts.drop("b", "v2");
        for (String name : List.of("a", "b")) {
            String address = name.equals("a") ? "fd00:99::1/64" : "fd00:99::2/64";
            hosts.run(name, "ip", "address", "add", address, "dev", "v0", "nodad");
        }
        checkConnectsBy("fd00:99::1 (v0) -> [fd00:99::2]:");
    }

    /// By the shared subnet the host says that nobody listens; the routed way leads to a host that
    /// drops what it gets, which only the end of the time tells.
    @Test
    void thatNobodyListensIsToldLongBeforeTheDeadline() {
        prepareDetour();
        startOneEach();
        a.tell(self -> self.open(TCP));
        byte[] gone = b.run(self -> self.open(TCP));
        b.tell(Participant::close);
        String error = refusal(gone, Duration.ofSeconds(60), Duration.ofSeconds(30));
        assertThat(error).contains("routed -> 10.99.2.2:", "no connection when the time");
    }

    /// @return what the first host is told, in less than `atMost`, when it connects in vain
    private String refusal(byte[] address, Duration deadline, Duration atMost) {
        return a.run(
                self -> {
                    long start = System.nanoTime();
                    try {
                        self.endpoint().connect(EndpointAddress.ofBytes(address), deadline);
                        return "connected";
                    } catch (TelpherException.ConnectFailed e) {
                        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(atMost);
                        return e.getMessage();
                    }
                });
    }

    /// Two hosts with a link, and a third one by which the second has another address.
    private void prepareDetour() {
        assumeTrue(Namespaces.missing() == null, Namespaces.missing());
        hosts = Namespaces.create("a", "m", "b");
        hosts.link("a", "b", SUBNET.formatted(0));
        hosts.link("a", "m", SUBNET.formatted(1));
        hosts.link("m", "b", SUBNET.formatted(2));
        hosts.run("a", "ip", "route", "add", "10.99.2.0/24", "via", "10.99.1.2");
    }

    private void checkConnectsBy(String way) {
        a.tell(self -> self.open(TCP));
        byte[] address = b.run(self -> self.open(TCP));
        CompletableFuture<Boolean> accepted = b.begin(Participant::accept);
        String explained =
                a.run(
                        self -> {
                            self.use(
                                    self.endpoint()
                                            .connect(
                                                    EndpointAddress.ofBytes(address),
                                                    Duration.ofSeconds(8)));
                            return self.connection().explain();
                        });
        Peer.result(accepted);
        checkSmallWrite();
        assertThat(explained)
                .containsPattern(
                        Pattern.quote(way)
                                + "\\d+ \\(v\\d\\): chosen, since nobody has answered in \\d+ ms by"
                                + ".*10\\.99\\.0\\.1 \\(v0\\) -> 10\\.99\\.0\\.2:\\d+ \\(v0\\)");
        a.tell(Participant::close);
        b.tell(Participant::close);
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
        startOneEach();
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
        assertThat(explained)
                .containsPattern("lane 0 \\(tcp .*\\): in use")
                .containsPattern(
                        "shm.*: rejected, other network namespace and no shared socket folder; set"
                                + " the option 'socketDirectory'");
    }

    private static String explain(Connection connection) {
        return connection.explain();
    }
}

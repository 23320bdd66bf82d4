package io.telpher.contract;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.internal.wire.AddressCodec;
import io.telpher.spi.PeerAddress;
import java.io.IOException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// How connections come to be, and how they do not.
class ConnectTest {
    private static final byte[] SECRET = "a secret of 24 bytes ...".getBytes(US_ASCII);

    private static <T> CompletableFuture<T> async(java.util.concurrent.Callable<T> task) {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread.ofPlatform()
                .daemon()
                .start(
                        () -> {
                            try {
                                result.complete(task.call());
                            } catch (Throwable e) {
                                result.completeExceptionally(e);
                            }
                        });
        return result;
    }

    private static void checkTime(long start, Duration limit) {
        assertThat(Duration.ofNanos(System.nanoTime() - start)).isLessThan(limit);
    }

    @ParameterizedTest
    @EnumSource(mode = EnumSource.Mode.MATCH_NONE, names = "CUDA_.*")
    void nobodyIsThere(TestPath path) {
        try (Couple couple = Couple.open(path)) {
            byte[] address = couple.address();
            couple.there().close();
            long start = System.nanoTime();
            TelpherException.ConnectFailed error =
                    catchThrowableOfType(
                            TelpherException.ConnectFailed.class,
                            () -> couple.here().connect(address));
            assertThat(error).isNotNull();
            assertThat(error.attempts())
                    .isNotEmpty()
                    .noneMatch(attempt -> attempt.matches(".*(\\S+:\\d+)\\b.*\\b\\1\\b.*"));
            checkTime(start, Duration.ofSeconds(3));
        }
    }

    @Test
    void aPortWithoutListenerIsNamed() {
        int port = Ports.free();
        try (Endpoint endpoint = Endpoint.open(EndpointOptions.DEFAULTS)) {
            long start = System.nanoTime();
            assertThatThrownBy(
                            () -> endpoint.connect(EndpointAddress.of("127.0.0.1", port, SECRET)))
                    .isInstanceOf(TelpherException.ConnectFailed.class)
                    .hasMessageContaining("127.0.0.1")
                    .hasMessageContaining(Integer.toString(port));
            checkTime(start, Duration.ofSeconds(3));
        }
    }

    @Test
    void aHostWithoutAddressIsNamed() {
        try (Endpoint endpoint = Endpoint.open(EndpointOptions.DEFAULTS)) {
            long start = System.nanoTime();
            assertThatThrownBy(
                            () ->
                                    endpoint.connect(
                                            EndpointAddress.of("no-such-host.invalid", 5, SECRET),
                                            Duration.ofSeconds(5)))
                    .isInstanceOfAny(
                            TelpherException.ConnectFailed.class, TelpherException.TimedOut.class)
                    .hasMessageContaining("no-such-host.invalid");
            checkTime(start, Duration.ofSeconds(7));
        }
    }

    @Test
    void aListenerThatNeverAnswersRunsIntoTheDeadline() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                Endpoint endpoint = Endpoint.open(EndpointOptions.DEFAULTS)) {
            EndpointAddress address =
                    EndpointAddress.of("127.0.0.1", silent.getLocalPort(), SECRET);
            long start = System.nanoTime();
            assertThatThrownBy(() -> endpoint.connect(address, Duration.ofMillis(500)))
                    .isInstanceOf(TelpherException.TimedOut.class)
                    .hasMessageContaining("127.0.0.1:" + silent.getLocalPort())
                    .hasMessageContaining("receiving, after 0 of");
            assertThat(Duration.ofNanos(System.nanoTime() - start))
                    .isBetween(Duration.ofMillis(490), Duration.ofMillis(2500));
        }
    }

    /// The peer's attempt comes through while this side's own runs into the handshake's limit.
    @Test
    void anAttemptThatFailsAfterItWasServedGivesThePeersConnection() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                Endpoint first = Endpoint.open(EndpointOptions.DEFAULTS);
                Endpoint second = Endpoint.open(EndpointOptions.DEFAULTS)) {
            // Of two attempts that of the lower incarnation counts: the peer's shall.
            boolean rising =
                    Long.compareUnsigned(
                                    first.address().incarnation(), second.address().incarnation())
                            < 0;
            Endpoint one = rising ? second : first;
            Endpoint other = rising ? first : second;
            EndpointAddress misleading = atPort(other.address(), silent.getLocalPort());
            CompletableFuture<Connection> connect =
                    async(() -> one.connect(misleading, Duration.ofSeconds(60)));
            try (Socket dialled = silent.accept()) {
                Connection back = other.connect(one.address());
                assertThat(dialled.isConnected()).isTrue();
                Connection there = Peer.result(connect);
                checkSame(there, back, 1);
                checkNothingToAccept(one, there);
            }
        }
    }

    /// The peer's attempt counts, and hangs for ever: this side's must not wait for it as long.
    @Test
    void anAttemptThatYieldedToOneThatHangsIsMadeAgain() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                Endpoint first = Endpoint.open(EndpointOptions.DEFAULTS);
                Endpoint second = Endpoint.open(EndpointOptions.DEFAULTS)) {
            boolean rising =
                    Long.compareUnsigned(
                                    first.address().incarnation(), second.address().incarnation())
                            < 0;
            Endpoint hanging = rising ? first : second;
            Endpoint yielding = rising ? second : first;
            EndpointAddress misleading = atPort(yielding.address(), silent.getLocalPort());
            CompletableFuture<Connection> hangs =
                    async(() -> hanging.connect(misleading, Duration.ofSeconds(60)));
            try (Socket dialled = silent.accept()) {
                assertThat(dialled.isConnected()).isTrue();
                Connection there = yielding.connect(hanging.address(), Duration.ofSeconds(50));
                assertThat(there.isOpen()).isTrue();
                assertThat(hangs)
                        .failsWithin(Duration.ofSeconds(20))
                        .withThrowableThat()
                        .withCauseInstanceOf(TelpherException.ConnectFailed.class);
                checkSame(hanging.accept(Duration.ofSeconds(20)), there, 1);
            }
        }
    }

    /// An endpoint's address with another port on this host in place of its own ways.
    private static EndpointAddress atPort(EndpointAddress address, int port) {
        AddressCodec.Address real = AddressCodec.decode(address.toBytes());
        AddressCodec.Address nowhere = AddressCodec.Address.ofHost("127.0.0.1", port, SECRET);
        return EndpointAddress.ofBytes(
                AddressCodec.encode(
                        new AddressCodec.Address(
                                SECRET,
                                new PeerAddress(
                                        real.incarnation(),
                                        real.peer().host(),
                                        nowhere.locators()))));
    }

    @Test
    void hostAndPortAreEnoughWithTheSecret() throws IOException {
        List<String> hosts = new ArrayList<>(List.of("127.0.0.1", "localhost"));
        for (InetAddress address : addresses()) {
            hosts.add(address.getHostAddress());
        }
        for (String host : hosts) {
            int port = Ports.free();
            try (Couple couple =
                    Couple.open(
                            TestPath.TCP::restrict,
                            o -> TestPath.TCP.restrict(o).withPort(port).withSecret(SECRET))) {
                couple.connect(EndpointAddress.of(host, port, SECRET).toBytes()).checkWorks();
                assertThat(couple.here().connection().peer().incarnation())
                        .as("learned from the peer reached by %s", host)
                        .isEqualTo(couple.there().participant().endpoint().address().incarnation());
            }
        }
    }

    /// All addresses of this host; of link-local ones those that a connection can be made to.
    private static List<InetAddress> addresses() throws IOException {
        List<InetAddress> addresses = new ArrayList<>();
        for (NetworkInterface device : NetworkInterface.networkInterfaces().toList()) {
            if (device.isUp()) {
                addresses.addAll(device.inetAddresses().toList());
            }
        }
        return addresses;
    }

    @Test
    void aLinkLocalAddressNeedsItsScope() throws IOException {
        List<InetAddress> scoped =
                addresses().stream()
                        .filter(a -> a instanceof Inet6Address && a.isLinkLocalAddress())
                        .toList();
        assumeTrue(!scoped.isEmpty(), "this host has no link-local IPv6 address");
        assertThat(scoped.getFirst().getHostAddress()).contains("%");
        int port = Ports.free();
        try (Couple couple =
                Couple.open(
                        TestPath.TCP::restrict,
                        o -> TestPath.TCP.restrict(o).withPort(port).withSecret(SECRET))) {
            String host = scoped.getFirst().getHostAddress();
            couple.connect(EndpointAddress.of(host, port, SECRET).toBytes()).checkWorks();
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"SELF", "MAPPED", "RING", "TCP"})
    void bothSidesDialAtTheSameTime(TestPath path) throws Exception {
        int rounds = Scale.count(200);
        java.util.Random random = Scale.random("dial" + path);
        try (Couple couple = Couple.open(path)) {
            Endpoint a = couple.here().endpoint();
            Endpoint b = couple.there().participant().endpoint();
            for (int round = 0; round < rounds; round++) {
                CyclicBarrier barrier = new CyclicBarrier(2);
                int[] delay = random.ints(2, 0, 200).toArray();
                CompletableFuture<Connection> first = async(() -> dial(a, b, barrier, delay[0]));
                CompletableFuture<Connection> second = async(() -> dial(b, a, barrier, delay[1]));
                Connection there = Peer.result(first);
                Connection back = Peer.result(second);
                checkSame(there, back, round);
                checkNothingToAccept(a, there);
                checkNothingToAccept(b, back);
                there.close();
                back.close();
            }
        }
    }

    private static Connection dial(Endpoint from, Endpoint to, CyclicBarrier barrier, int delay)
            throws Exception {
        EndpointAddress address = to.address();
        barrier.await();
        for (int i = 0; i < delay; i++) {
            Thread.onSpinWait();
        }
        return from.connect(address, Duration.ofSeconds(20));
    }

    /// Checks that two connections are two ends of one.
    private static void checkSame(Connection one, Connection other, int round) {
        byte[] body = {(byte) round, 17};
        Outcome.of(one.notifyPeer(Bytes.off(body))).assertDone();
        assertThat(other.awaitNotification(Duration.ofSeconds(10)).payload()).isEqualTo(body);
        Outcome.of(other.notifyPeer(Bytes.off(body))).assertDone();
        assertThat(one.awaitNotification(Duration.ofSeconds(10)).payload()).isEqualTo(body);
    }

    /// A connection that both sides dialled may also be handed out by accept, but there is no
    /// second one.
    static void checkNothingToAccept(Endpoint endpoint, Connection known) {
        try {
            assertThat(endpoint.accept(Duration.ofMillis(1))).isSameAs(known);
        } catch (TelpherException.TimedOut e) {
            return;
        }
        assertThatThrownBy(() -> endpoint.accept(Duration.ofMillis(1)))
                .isInstanceOf(TelpherException.TimedOut.class);
    }

    @Test
    void manyDialOneAtTheSameTime() {
        int count = 16;
        byte[] address;
        try (Couple couple = Couple.open(o -> o)) {
            address = couple.address();
            List<CompletableFuture<Participant>> dialling = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                dialling.add(
                        async(
                                () -> {
                                    Participant one = new Participant();
                                    one.open(o -> o);
                                    one.connect(address);
                                    return one;
                                }));
            }
            for (int i = 0; i < count; i++) {
                couple.there().tell(Participant::accept);
            }
            List<Participant> all = dialling.stream().map(Peer::result).toList();
            for (Participant one : all) {
                Couple.checkWorks(one, couple.there());
            }
            all.forEach(Participant::close);
        }
    }

    @Test
    void addressesTravelAsBytesAndTextAndKeepTheirSecret() {
        try (Endpoint endpoint = Endpoint.open(EndpointOptions.DEFAULTS.withSecret(SECRET))) {
            EndpointAddress address = endpoint.address();
            assertThat(EndpointAddress.ofBytes(address.toBytes())).isEqualTo(address);
            assertThat(EndpointAddress.parse(address.text())).isEqualTo(address);
            assertThat(address.incarnation()).isNotZero();
            String secret = new String(SECRET, US_ASCII);
            for (Object shown : new Object[] {address, endpoint, endpoint.options()}) {
                assertThat(shown.toString())
                        .doesNotContain(secret, HexFormat.of().formatHex(SECRET));
            }
            byte[] bytes = address.toBytes();
            for (int length = 0; length < bytes.length; length++) {
                byte[] cut = Arrays.copyOf(bytes, length);
                assertThatThrownBy(() -> EndpointAddress.ofBytes(cut))
                        .isInstanceOf(IllegalArgumentException.class);
            }
        }
    }

    @Test
    void namesThatNoTransportKnowsAreRefused() {
        EndpointOptions options = EndpointOptions.DEFAULTS;
        assertThatThrownBy(() -> Endpoint.open(options.withTransports(List.of("shm", "tpc"))))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("there is no transport 'tpc'; those there are: shm, tcp, verbs");
        assertThatThrownBy(() -> Endpoint.open(options.withPaths(List.of("mappd"))))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageStartingWith("there is no path 'mappd'; those there are: cma, cuda-")
                .hasMessageEndingWith(", mapped, self, shm-ring, tcp, verbs, verbs-ring");
    }

    @Test
    void pathsLeaveOutTheTransportsThatHaveNoneOfThem() {
        EndpointOptions mapped = EndpointOptions.DEFAULTS.withPaths(List.of("mapped"));
        assertThatThrownBy(() -> Endpoint.open(mapped.withTransports(List.of("tcp"))))
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("tcp: the option 'paths' names none of its paths: tcp");
        try (Couple couple =
                Couple.open(o -> o.withPaths(List.of("mapped")), TestPath.TCP::restrict)) {
            assertThatThrownBy(() -> couple.here().connect(couple.address()))
                    .isInstanceOf(TelpherException.ConnectFailed.class)
                    .hasMessageContaining("tcp: the option 'paths' names none of its paths: tcp");
        }
    }

    @Test
    void endpointsThatShareNoTransportSaySo() {
        try (Participant tcp = new Participant();
                Participant shm = new Participant()) {
            tcp.open(o -> TestPath.TCP.restrict(o));
            byte[] address = shm.open(o -> TestPath.RING.restrict(o));
            assertThatThrownBy(() -> tcp.connect(address))
                    .isInstanceOf(TelpherException.ConnectFailed.class);
        }
    }

    @Test
    void everyIncarnationIsNew() {
        List<Long> incarnations =
                Stream.generate(
                                () -> {
                                    try (Endpoint endpoint =
                                            Endpoint.open(EndpointOptions.DEFAULTS)) {
                                        return endpoint.address().incarnation();
                                    }
                                })
                        .limit(20)
                        .toList();
        assertThat(incarnations).doesNotHaveDuplicates();
    }
}

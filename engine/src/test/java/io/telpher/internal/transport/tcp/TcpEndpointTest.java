package io.telpher.internal.transport.tcp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.EndpointOptions;
import io.telpher.TelpherException;
import io.telpher.spi.Availability;
import io.telpher.spi.Channel;
import io.telpher.spi.Deadline;
import io.telpher.spi.HostIdentity;
import io.telpher.spi.Lane;
import io.telpher.spi.Link;
import io.telpher.spi.Locator;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import io.telpher.spi.Role;
import io.telpher.spi.Route;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class TcpEndpointTest {
    private final List<AutoCloseable> toClose = new ArrayList<>();

    @AfterEach
    void closeAll() throws Exception {
        for (AutoCloseable closeable : toClose.reversed()) {
            closeable.close();
        }
    }

    private static Deadline soon() {
        return Deadline.in(Duration.ofSeconds(10));
    }

    private FakeContext context(EndpointOptions options) {
        FakeContext context = new FakeContext(options);
        toClose.add(context);
        return context;
    }

    private TcpEndpoint endpoint(FakeContext context) {
        TcpEndpoint endpoint = (TcpEndpoint) new TcpTransport().open(context);
        toClose.add(endpoint);
        return endpoint;
    }

    private static PeerAddress address(TcpEndpoint endpoint, HostIdentity host) {
        return new PeerAddress(1, host, endpoint.locators());
    }

    private static HostIdentity here() throws IOException {
        return new HostIdentity(
                Files.readString(Path.of("/proc/sys/kernel/random/boot_id")).strip(),
                1,
                1,
                (Long) Files.getAttribute(Path.of("/proc/self/ns/net"), "unix:ino"));
    }

    private static PeerAddress byName(String text) {
        Locator locator = new Locator("tcp-host", text.getBytes(StandardCharsets.UTF_8), text);
        return new PeerAddress(0, HostIdentity.UNKNOWN, List.of(locator));
    }

    private static int port(TcpEndpoint endpoint) {
        return NetAddress.decode(endpoint.locators().getFirst().data()).port();
    }

    private static List<Route> possible(List<Route> routes) {
        return routes.stream().filter(r -> r.rejected() == null).toList();
    }

    @Test
    void isAvailable() {
        assertThat(new TcpTransport().probe()).isInstanceOf(Availability.Available.class);
    }

    @Test
    void onOneHostLoopbackAloneIsUsed() throws Exception {
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS));
        TcpEndpoint b = endpoint(context(EndpointOptions.DEFAULTS));
        List<Route> routes = a.routes(address(b, here()));
        assertThat(possible(routes)).hasSize(1);
        assertThat(routes.getFirst().text())
                .isEqualTo("127.0.0.1 (lo) -> 127.0.0.1:" + port(b) + " (lo)");
        assertThat(routes).hasSizeGreaterThan(1);
        assertThat(routes.getLast().rejected()).contains("loopback");
    }

    @Test
    void channelsCarryBytesAndBecomeLanes() throws Exception {
        FakeContext contextB = context(EndpointOptions.DEFAULTS);
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS));
        TcpEndpoint b = endpoint(contextB);
        PeerAddress peer = address(b, here());
        Channel ca = a.dial(a.routes(peer).getFirst(), soon());
        Channel cb = contextB.next();
        byte[] hello = "hello".getBytes(StandardCharsets.UTF_8);
        ca.send(hello, soon());
        assertThat(cb.receive(5, soon())).isEqualTo(hello);
        assertThat(cb.receive(0, soon())).isEmpty();
        // More than the sockets hold, so both directions wait for each other.
        byte[] much = Frames.payload(7, 20 << 20);
        Thread sender = Thread.ofPlatform().start(() -> cb.send(much, soon()));
        assertThat(ca.receive(much.length, soon())).isEqualTo(much);
        sender.join();

        assertThatThrownBy(() -> ca.receive(1, Deadline.in(Duration.ofMillis(50))))
                .isInstanceOf(TelpherException.TimedOut.class)
                .hasMessageContaining("0 of 1 bytes");

        Link la = a.link(ca, Role.INITIATOR, peer, soon());
        Link lb = b.link(cb, Role.ACCEPTOR, peer, soon());
        ca.close();
        cb.close();
        assertThat(la.windows()).isNull();
        try (Arena arena = Arena.ofConfined()) {
            int sent =
                    la.lane().send(Frames.header(arena, 9, 0), 0, MemorySegment.NULL, 0, 0, null);
            assertThat(sent).isEqualTo(Lane.OK);
            assertThat(la.lane().flush()).isEqualTo(Lane.OK);
            long[] number = new long[1];
            Receiver receiver =
                    new Receiver() {
                        @Override
                        public boolean begin(MemorySegment h, long at, Placement placement) {
                            number[0] = Frames.number(h, at);
                            return true;
                        }

                        @Override
                        public void end(
                                MemorySegment h,
                                long at,
                                MemorySegment payload,
                                long payloadAt,
                                Placement placement) {}
                    };
            int polled = 0;
            while (polled == 0) {
                polled = lb.lane().poll(receiver, 8);
            }
            assertThat(polled).isEqualTo(1);
            assertThat(number[0]).isEqualTo(9);
        } finally {
            la.lane().close();
            lb.lane().close();
        }
    }

    @Test
    void aClosedChannelSaysSoOnBothSides() throws Exception {
        FakeContext contextB = context(EndpointOptions.DEFAULTS);
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS));
        TcpEndpoint b = endpoint(contextB);
        Channel ca = a.dial(a.routes(address(b, here())).getFirst(), soon());
        Channel cb = contextB.next();
        cb.close();
        cb.close();
        assertThatThrownBy(() -> ca.receive(3, soon()))
                .isInstanceOf(TelpherException.PeerLost.class)
                .hasMessageContaining("0 of 3");
        assertThatThrownBy(() -> cb.send(new byte[1], soon()))
                .isInstanceOf(TelpherException.Closed.class);
        ca.close();
    }

    @Test
    void closingAChannelEndsACallThatWaits() throws Exception {
        FakeContext contextB = context(EndpointOptions.DEFAULTS);
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS));
        TcpEndpoint b = endpoint(contextB);
        Channel ca = a.dial(a.routes(address(b, here())).getFirst(), soon());
        contextB.next().text();
        Thread closer =
                Thread.ofPlatform()
                        .start(
                                () -> {
                                    sleep(100);
                                    ca.close();
                                });
        long began = System.nanoTime();
        assertThatThrownBy(() -> ca.receive(3, soon())).isInstanceOf(TelpherException.Closed.class);
        assertThat(System.nanoTime() - began).isLessThan(5_000_000_000L);
        closer.join();
    }

    private static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Test
    void aHostAndPortIsDialledByName() throws Exception {
        FakeContext contextB = context(EndpointOptions.DEFAULTS);
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS.withLanes(3)));
        TcpEndpoint b = endpoint(contextB);
        List<String> hosts = new ArrayList<>(List.of("localhost", "127.0.0.1"));
        if (hasInet6()) {
            hosts.add("[::1]");
        }
        for (String host : hosts) {
            List<Route> routes = a.routes(byName(host + ":" + port(b)));
            assertThat(routes).hasSize(1);
            assertThat(routes.getFirst().lanes()).isEqualTo(3);
            a.dial(routes.getFirst(), soon()).close();
            contextB.next().close();
        }
    }

    private static boolean hasInet6() {
        return Interfaces.enumerate().stream().anyMatch(c -> c.address().inet6());
    }

    @Test
    void wrongHostsAndPortsAreNamed() {
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS));
        assertThat(a.routes(byName("nowhere")).getFirst().rejected()).contains("host:port");
        assertThat(a.routes(byName("nowhere:0")).getFirst().rejected()).contains("host:port");
        Route unknown = a.routes(byName("no-such-host.invalid:1")).getFirst();
        assertThatThrownBy(() -> a.dial(unknown, soon()))
                .isInstanceOf(TelpherException.ConnectFailed.class)
                .hasMessageContaining("no-such-host.invalid");
    }

    @Test
    void anUnreadableLocatorIsRejectedAndTheOthersWork() throws Exception {
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS));
        List<Locator> locators = new ArrayList<>(a.locators());
        locators.add(0, new Locator("tcp", new byte[] {1, 4, 8}, "broken"));
        List<Route> routes = a.routes(new PeerAddress(1, here(), locators));
        assertThat(possible(routes)).hasSize(1);
        assertThat(routes.getLast().rejected()).contains("cut short");
    }

    @Test
    void aRefusedConnectionNamesAddressAndReason() throws Exception {
        int port;
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = socket.getLocalPort();
        }
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS));
        Route route = a.routes(byName("127.0.0.1:" + port)).getFirst();
        assertThatThrownBy(() -> a.dial(route, soon()))
                .isInstanceOf(TelpherException.ConnectFailed.class)
                .hasMessageContaining("127.0.0.1:" + port)
                .hasMessageContaining("ECONNREFUSED");
    }

    @Test
    void aSocketThatMeetsItselfIsNoConnection() {
        // Dialling a free port of the ephemeral range from that same port connects to itself.
        InetSocketAddress self =
                new InetSocketAddress(InetAddress.getLoopbackAddress(), freeEphemeralPort());
        assertThatThrownBy(
                        () ->
                                TcpDialer.dial(
                                        "itself",
                                        List.of(new TcpDialer.Attempt(self, self, null, "itself")),
                                        soon()))
                .isInstanceOf(TelpherException.ConnectFailed.class)
                .hasMessageContaining("ECONNREFUSED");
    }

    private static int freeEphemeralPort() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void whereNoAddressAnswersEachIsNamedOnce() {
        InetSocketAddress nobody =
                new InetSocketAddress(InetAddress.getLoopbackAddress(), freeEphemeralPort());
        assertThatThrownBy(
                        () ->
                                TcpDialer.dial(
                                        "both",
                                        List.of(
                                                new TcpDialer.Attempt(nobody, null, null, "one"),
                                                new TcpDialer.Attempt(nobody, null, null, "other")),
                                        soon()))
                .isInstanceOf(TelpherException.ConnectFailed.class)
                .hasMessageMatching("both: [^:]*: one: ECONNREFUSED[^:]*; other: ECONNREFUSED.*");
    }

    @Test
    void theFirstAddressThatAnswersWins() throws Exception {
        FakeContext contextB = context(EndpointOptions.DEFAULTS);
        TcpEndpoint b = endpoint(contextB);
        InetSocketAddress good = new InetSocketAddress(InetAddress.getLoopbackAddress(), port(b));
        InetSocketAddress refused =
                new InetSocketAddress(InetAddress.getLoopbackAddress(), freeEphemeralPort());
        int fd =
                TcpDialer.dial(
                        "both",
                        List.of(
                                new TcpDialer.Attempt(refused, null, null, "refused"),
                                new TcpDialer.Attempt(good, null, null, "good")),
                        soon());
        new TcpChannel(fd).close();
        contextB.next().close();
    }

    @Test
    void aPortInUseIsAnErrorWithARemedy() throws Exception {
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS));
        FakeContext second = context(EndpointOptions.DEFAULTS.withPort(port(a)));
        assertThatThrownBy(() -> new TcpTransport().open(second))
                .isInstanceOf(TelpherException.NativeFailure.class)
                .hasMessageContaining("EADDRINUSE")
                .hasMessageContaining("choose another port");
    }

    @Test
    void aPortCanBeUsedAgainAtOnce() throws Exception {
        FakeContext first = context(EndpointOptions.DEFAULTS);
        TcpEndpoint a = endpoint(first);
        int port = port(a);
        Channel dialled = a.dial(a.routes(byName("127.0.0.1:" + port)).getFirst(), soon());
        first.next().close();
        dialled.close();
        a.close();
        TcpEndpoint again = endpoint(context(EndpointOptions.DEFAULTS.withPort(port)));
        assertThat(port(again)).isEqualTo(port);
    }

    @Test
    void chosenInterfacesHaveListenersOfTheirOwn() throws Exception {
        FakeContext contextB =
                context(EndpointOptions.DEFAULTS.withInterfaces(List.of("127.0.0.0/8")));
        TcpEndpoint b = endpoint(contextB);
        assertThat(b.locators()).hasSize(1);
        TcpEndpoint a = endpoint(context(EndpointOptions.DEFAULTS.withInterfaces(List.of("=lo"))));
        a.dial(possible(a.routes(address(b, here()))).getFirst(), soon()).close();
        contextB.next().close();
        assertThatThrownBy(
                        () ->
                                new TcpTransport()
                                        .open(
                                                context(
                                                        EndpointOptions.DEFAULTS.withInterfaces(
                                                                List.of("=nosuch")))))
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("=nosuch")
                .hasMessageContaining("127.0.0.1");
    }

    @Test
    void linkLocalAddressesWorkWithTheirScope() throws Exception {
        NetAddress linkLocal =
                Interfaces.enumerate().stream()
                        .map(Interfaces.Candidate::address)
                        .filter(n -> n.inet6() && n.linkLocal())
                        .findFirst()
                        .orElse(null);
        assumeTrue(linkLocal != null, "no interface has an IPv6 link-local address");
        String choice = NetAddress.text(linkLocal.ip());
        EndpointOptions options = EndpointOptions.DEFAULTS.withInterfaces(List.of(choice));
        FakeContext contextB = context(options);
        TcpEndpoint a = endpoint(context(options));
        TcpEndpoint b = endpoint(contextB);
        Route route = possible(a.routes(address(b, here()))).getFirst();
        Channel channel = a.dial(route, soon());
        assertThat(channel.text()).contains(choice + "%");
        contextB.next().close();
        channel.close();

        String name = NetworkInterface.getByIndex(linkLocal.scope()).getName();
        Route named = a.routes(byName("[" + choice + "%" + name + "]:" + port(b))).getFirst();
        a.dial(named, soon()).close();
        contextB.next().close();
    }

    @Test
    void aSilentStrangerCostsOneDescriptor() throws Exception {
        FakeContext context = context(EndpointOptions.DEFAULTS);
        TcpEndpoint endpoint = endpoint(context);
        long before = descriptors();
        List<Socket> strangers = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            strangers.add(new Socket(InetAddress.getLoopbackAddress(), port(endpoint)));
        }
        List<Channel> taken = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            taken.add(context.next());
        }
        assertThat(descriptors() - before).isLessThanOrEqualTo(40);
        assertThatThrownBy(() -> taken.getFirst().receive(1, Deadline.in(Duration.ofMillis(20))))
                .isInstanceOf(TelpherException.TimedOut.class);
        taken.forEach(Channel::close);
        for (Socket stranger : strangers) {
            stranger.close();
        }
        assertThat(descriptors() - before).isLessThanOrEqualTo(0);
    }

    static long descriptors() throws IOException {
        try (Stream<Path> fds = Files.list(Path.of("/proc/self/fd"))) {
            return fds.count();
        }
    }

    @Test
    void withoutDescriptorsConnectionsAreDropped() throws Exception {
        String java = ProcessHandle.current().info().command().orElseThrow();
        String command =
                "ulimit -n 100 && exec "
                        + java
                        + " -Xshare:auto --enable-native-access=ALL-UNNAMED -cp '"
                        + System.getProperty("java.class.path")
                        + "' "
                        + DescriptorLimit.class.getName();
        Process process = new ProcessBuilder("sh", "-c", command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(output).isZero();
    }

    @Test
    void theSystemsInterfacesAreAllFound() throws Exception {
        List<String> names =
                Interfaces.enumerate().stream().map(c -> c.address().nic()).distinct().toList();
        for (NetworkInterface nic : Collections.list(NetworkInterface.getNetworkInterfaces())) {
            if (nic.isUp() && nic.inetAddresses().findAny().isPresent()) {
                assertThat(names).contains(nic.getName());
            }
        }
    }
}

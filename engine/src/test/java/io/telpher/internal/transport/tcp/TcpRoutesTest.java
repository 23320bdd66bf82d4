package io.telpher.internal.transport.tcp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.transport.tcp.Interfaces.Candidate;
import io.telpher.internal.transport.tcp.Interfaces.Kind;
import io.telpher.internal.transport.tcp.TcpRoutes.Budget;
import io.telpher.internal.transport.tcp.TcpRoutes.Proximity;
import io.telpher.spi.Route;
import java.net.InetAddress;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TcpRoutesTest {
    private static final Budget BUDGET = new Budget(0, 15);

    /// `10.0.0.1/24 eth0 1000`: address, interface, speed; the index is the name's last digit.
    private static NetAddress local(String text) {
        String[] parts = text.split("[/ ]");
        char last = parts[2].charAt(parts[2].length() - 1);
        return new NetAddress(
                InetAddress.ofLiteral(parts[0]),
                Integer.parseInt(parts[1]),
                parts[2],
                Character.isDigit(last) ? last - '0' + 2 : 1,
                parts.length > 3 ? Integer.parseInt(parts[3]) : 0,
                0);
    }

    private static NetAddress remote(String text) {
        return NetAddress.decode(local(text).withPort(4711).encode());
    }

    private static List<NetAddress> locals(String... texts) {
        return List.of(texts).stream().map(TcpRoutesTest::local).toList();
    }

    private static List<NetAddress> remotes(String... texts) {
        return List.of(texts).stream().map(TcpRoutesTest::remote).toList();
    }

    private static List<Route> plan(List<NetAddress> local, List<NetAddress> remote) {
        return TcpRoutes.plan(local, remote, Proximity.ELSEWHERE, BUDGET);
    }

    private static List<String> possible(List<Route> routes) {
        return routes.stream()
                .filter(r -> r.rejected() == null && r.later() == null)
                .map(r -> r.text() + " x" + r.lanes())
                .toList();
    }

    private static List<String> later(List<Route> routes) {
        return routes.stream()
                .filter(r -> r.later() != null)
                .peek(r -> assertThat(r.lanes()).isZero())
                .map(r -> r.text() + ": " + r.later())
                .toList();
    }

    private static List<String> rejected(List<Route> routes) {
        return routes.stream()
                .filter(r -> r.rejected() != null)
                .map(r -> r.text() + ": " + r.rejected())
                .toList();
    }

    private static TcpTarget.Address target(Route route) {
        return (TcpTarget.Address) route.target();
    }

    @Test
    void locatorsSurviveTheirEncoding() {
        for (String text :
                List.of("10.0.0.1/24 eth0 25000", "fd00::1/64 mlx5_bond_0", "fe80::1/64 eth1 7")) {
            NetAddress address = local(text).withPort(65_535);
            NetAddress decoded = NetAddress.decode(address.encode());
            assertThat(decoded)
                    .isEqualTo(
                            new NetAddress(
                                    address.ip(),
                                    address.prefix(),
                                    address.nic(),
                                    0,
                                    address.speed(),
                                    65_535));
        }
    }

    @Test
    void locatorsThatAreCutOrWrongAreRefused() {
        byte[] good = local("fd00::1/64 eth0").withPort(1).encode();
        for (int length = 0; length < good.length; length++) {
            byte[] cut = java.util.Arrays.copyOf(good, length);
            assertThatThrownBy(() -> NetAddress.decode(cut))
                    .isInstanceOf(IllegalArgumentException.class);
        }
        byte[] longer = java.util.Arrays.copyOf(good, good.length + 9);
        assertThat(NetAddress.decode(longer).nic()).isEqualTo("eth0");
        byte[] prefix = good.clone();
        prefix[2] = (byte) 129;
        assertThatThrownBy(() -> NetAddress.decode(prefix))
                .isInstanceOf(IllegalArgumentException.class);
        byte[] port = local("10.0.0.1/8 eth0").encode();
        assertThatThrownBy(() -> NetAddress.decode(port)).hasMessageContaining("without a port");
    }

    @ParameterizedTest
    @CsvSource({
        "fd00:0:0:0:0:0:0:2, fd00::2",
        "0:0:0:0:0:0:0:1, ::1",
        "0:0:0:0:0:0:0:0, ::",
        "2001:db8:0:1:0:0:0:1, 2001:db8:0:1::1",
        "1:0:3:4:5:6:7:8, 1:0:3:4:5:6:7:8",
        "fe80:0:0:0:1:0:0:0, fe80::1:0:0:0",
        "10.0.0.1, 10.0.0.1",
    })
    void addressesAreWrittenShort(String given, String text) {
        InetAddress ip = InetAddress.ofLiteral(given);
        String found = NetAddress.text(ip);
        assertThat(InetAddress.ofLiteral(found)).isEqualTo(ip);
        assertThat(found).isEqualTo(text);
    }

    @Test
    void everySharedSubnetIsARoute() {
        List<Route> routes =
                plan(
                        locals("10.0.1.1/24 eth0 10000", "10.0.2.1/24 eth1 100000"),
                        remotes("10.0.1.2/24 eth0 10000", "10.0.2.2/24 eth1 100000"));
        assertThat(possible(routes))
                .containsExactly(
                        "10.0.2.1 (eth1) -> 10.0.2.2:4711 (eth1) x4",
                        "10.0.1.1 (eth0) -> 10.0.1.2:4711 (eth0) x1");
        assertThat(target(routes.getFirst()).local()).isNotNull();
        assertThat(target(routes.getFirst()).device()).isNull();
        assertThat(rejected(routes)).isEmpty();
    }

    @Test
    void inAMeshOfThreeEachPairUsesItsOwnCable() {
        List<NetAddress> a = locals("10.0.1.1/30 p0 200000", "10.0.3.1/30 p1 200000");
        List<NetAddress> b = locals("10.0.1.2/30 p0 200000", "10.0.2.1/30 p1 200000");
        List<NetAddress> c = remotes("10.0.2.2/30 p0 200000", "10.0.3.2/30 p1 200000");
        assertThat(possible(plan(a, c))).containsExactly("10.0.3.1 (p1) -> 10.0.3.2:4711 (p1) x4");
        assertThat(rejected(plan(a, c))).isEmpty();
        assertThat(later(plan(a, c)))
                .containsExactly(
                        "routed -> 10.0.2.2:4711 (p0): no local address in 10.0.2.2/30 (p0), and an"
                                + " address on a shared subnet exists");
        assertThat(possible(plan(b, c))).containsExactly("10.0.2.1 (p1) -> 10.0.2.2:4711 (p0) x4");
    }

    @Test
    void bothPrefixesMustAgree() {
        List<Route> routes = plan(locals("10.0.1.1/8 eth0"), remotes("10.0.2.2/24 eth0"));
        assertThat(possible(routes)).containsExactly("routed -> 10.0.2.2:4711 (eth0) x1");
        assertThat(target(routes.getFirst()).local()).isNull();
        routes = plan(locals("10.0.2.1/16 eth0"), remotes("10.0.2.2/24 eth0"));
        assertThat(possible(routes)).containsExactly("10.0.2.1 (eth0) -> 10.0.2.2:4711 (eth0) x1");
    }

    @Test
    void aPairOfInterfacesIsOneRoute() {
        List<Route> routes =
                plan(
                        locals("fd00::1/64 eth0", "10.0.0.1/24 eth0", "10.0.0.11/24 eth0"),
                        remotes("fd00::2/64 eth0", "10.0.0.2/24 eth0"));
        assertThat(possible(routes)).containsExactly("10.0.0.1 (eth0) -> 10.0.0.2:4711 (eth0) x1");
        assertThat(later(routes))
                .hasSize(2)
                .allMatch(r -> r.contains("the same interfaces as 10.0.0.1 (eth0)"));
    }

    @Test
    void whatNeedsNoSharedSubnetIsForLater() {
        List<Route> routes =
                plan(
                        locals("10.0.0.1/24 eth0", "192.168.0.1/24 eth1", "fe80::1/64 eth0"),
                        remotes(
                                "127.0.0.1/8 lo",
                                "10.0.0.2/24 eth0",
                                "10.9.0.2/24 eth1",
                                "fd00::2/64 eth0",
                                "fe80::2/64 eth0"));
        assertThat(possible(routes)).containsExactly("10.0.0.1 (eth0) -> 10.0.0.2:4711 (eth0) x1");
        assertThat(later(routes))
                .containsExactly(
                        "routed -> 10.9.0.2:4711 (eth1): no local address in 10.9.0.2/24 (eth1),"
                                + " and an address on a shared subnet exists",
                        "fe80::1 (eth0) -> [fe80::2]:4711 (eth0): link-local, and an address on a"
                                + " shared subnet exists");
        assertThat(rejected(routes))
                .containsExactly(
                        "127.0.0.1:4711 (lo): loopback of another host or network namespace",
                        "[fd00::2]:4711 (eth0): no local IPv6 address");
    }

    @Test
    void onOneSwitchInterfacesOfOneNameComeFirstAndAreTiedToTheirDevice() {
        List<Route> routes =
                plan(
                        locals("10.0.0.1/16 eth0 10000", "10.0.0.3/16 eth1 10000"),
                        remotes("10.0.0.2/16 eth0 10000", "10.0.0.4/16 eth1 10000"));
        assertThat(possible(routes))
                .containsExactly(
                        "10.0.0.1 (eth0) -> 10.0.0.2:4711 (eth0) x1",
                        "10.0.0.3 (eth1) -> 10.0.0.4:4711 (eth1) x1",
                        "10.0.0.1 (eth0) -> 10.0.0.4:4711 (eth1) x1",
                        "10.0.0.3 (eth1) -> 10.0.0.2:4711 (eth0) x1");
        assertThat(routes.stream().map(r -> target(r).device()).toList())
                .containsExactly("eth0", "eth1", "eth0", "eth1");
    }

    @Test
    void withoutASharedSubnetTheFirstRoutedAddressGetsTheLanes() {
        List<Route> routes =
                plan(
                        locals("127.0.0.1/8 lo", "192.168.0.1/24 eth0"),
                        remotes(
                                "127.0.0.1/8 lo",
                                "10.9.0.2/24 eth0 10000",
                                "10.8.0.2/24 eth1 25000",
                                "fd00::2/64 eth0",
                                "fe80::2/64 eth0"));
        assertThat(possible(routes))
                .containsExactly(
                        "routed -> 10.8.0.2:4711 (eth1) x2", "routed -> 10.9.0.2:4711 (eth0) x0");
        assertThat(rejected(routes))
                .containsExactly(
                        "127.0.0.1:4711 (lo): loopback of another host or network namespace",
                        "[fd00::2]:4711 (eth0): no local IPv6 address");
    }

    @Test
    void inet6AloneWorks() {
        assertThat(
                        possible(
                                plan(
                                        locals("fd00:1::1/64 eth0 40000", "fe80::1/64 eth0 40000"),
                                        remotes(
                                                "fd00:1::2/64 eth3 40000",
                                                "fe80::2/64 eth3 40000"))))
                .containsExactly("fd00:1::1 (eth0) -> [fd00:1::2]:4711 (eth3) x2");
    }

    @Test
    void linkLocalAddressesAreTheLastResort() {
        List<Route> routes =
                plan(
                        locals("fe80::1/64 eth0", "fe80::11/64 eth1"),
                        remotes("fe80::2/64 eth1", "fe80::22/64 eth2"));
        assertThat(possible(routes))
                .containsExactly(
                        "fe80::11 (eth1) -> [fe80::2]:4711 (eth1) x1",
                        "fe80::1 (eth0) -> [fe80::2]:4711 (eth1) x0",
                        "fe80::1 (eth0) -> [fe80::22]:4711 (eth2) x0",
                        "fe80::11 (eth1) -> [fe80::22]:4711 (eth2) x0");
        NetAddress local = target(routes.getFirst()).local();
        assertThat(local).isNotNull();
        assertThat(local.scope()).isEqualTo(3);
    }

    @Test
    void anAddressThatBothHostsHaveLeadsNowhere() {
        List<Route> routes =
                plan(
                        locals("172.17.0.1/16 docker0", "10.0.0.1/24 eth0"),
                        remotes("172.17.0.1/16 docker0", "10.0.0.2/24 eth0"));
        assertThat(possible(routes)).containsExactly("10.0.0.1 (eth0) -> 10.0.0.2:4711 (eth0) x1");
        assertThat(rejected(routes)).hasSize(1).first().asString().contains("both hosts");
        assertThat(
                        possible(
                                plan(
                                        locals("172.17.0.1/16 docker0"),
                                        remotes("172.17.0.1/16 docker0"))))
                .isEmpty();
    }

    @Test
    void inOneNamespaceLoopbackAloneIsUsed() {
        List<String> all = List.of("::1/128 lo", "127.0.0.1/8 lo", "10.0.0.1/24 eth0 1000");
        List<Route> routes =
                TcpRoutes.plan(
                        locals(all.toArray(String[]::new)),
                        remotes(all.toArray(String[]::new)),
                        Proximity.SAME_NAMESPACE,
                        BUDGET);
        assertThat(possible(routes)).containsExactly("127.0.0.1 (lo) -> 127.0.0.1:4711 (lo) x1");
        assertThat(rejected(routes)).hasSize(2);
    }

    @Test
    void inOneNamespaceChosenInterfacesAreKept() {
        List<Route> routes =
                TcpRoutes.plan(
                        locals("10.0.0.1/24 eth0", "10.0.1.1/24 eth1"),
                        remotes("10.0.0.1/24 eth0", "10.0.1.1/24 eth1"),
                        Proximity.SAME_NAMESPACE,
                        BUDGET);
        assertThat(possible(routes))
                .containsExactly(
                        "10.0.0.1 (eth0) -> 10.0.0.1:4711 (eth0) x1",
                        "10.0.1.1 (eth1) -> 10.0.1.1:4711 (eth1) x1");
        assertThat(target(routes.getFirst()).device()).isNull();
    }

    @Test
    void inOneNamespaceDifferentChoicesStillMeet() {
        assertThat(
                        possible(
                                TcpRoutes.plan(
                                        locals("127.0.0.1/8 lo"),
                                        remotes("10.0.0.1/24 eth0"),
                                        Proximity.SAME_NAMESPACE,
                                        BUDGET)))
                .containsExactly("routed -> 10.0.0.1:4711 (eth0) x1");
        assertThat(
                        possible(
                                TcpRoutes.plan(
                                        locals("10.0.0.1/24 eth0"),
                                        remotes("127.0.0.1/8 lo"),
                                        Proximity.SAME_NAMESPACE,
                                        BUDGET)))
                .containsExactly("routed -> 127.0.0.1:4711 (lo) x1");
    }

    @Test
    void socketsAreSharedOutFairly() {
        List<NetAddress> local =
                locals(
                        "10.0.1.1/24 eth1 100000",
                        "10.0.2.1/24 eth2 100000",
                        "10.0.3.1/24 eth3 100000");
        List<NetAddress> remote =
                remotes(
                        "10.0.1.2/24 eth1 100000",
                        "10.0.2.2/24 eth2 100000",
                        "10.0.3.2/24 eth3 100000");
        assertThat(lanes(local, remote, new Budget(0, 15))).containsExactly(4, 4, 4);
        assertThat(lanes(local, remote, new Budget(0, 7))).containsExactly(3, 2, 2);
        assertThat(lanes(local, remote, new Budget(8, 15))).containsExactly(5, 5, 5);
        assertThat(lanes(local, remote, new Budget(2, 2))).containsExactly(1, 1, 0);
        assertThat(lanes(local, remote, new Budget(0, 0))).containsExactly(0, 0, 0);
    }

    private static List<Integer> lanes(
            List<NetAddress> local, List<NetAddress> remote, Budget budget) {
        return TcpRoutes.plan(local, remote, Proximity.ELSEWHERE, budget).stream()
                .map(Route::lanes)
                .toList();
    }

    @Test
    void hostsAndPortsAreRead() {
        assertThat(TcpTarget.Host.parse("node1:4711")).isEqualTo(new TcpTarget.Host("node1", 4711));
        assertThat(TcpTarget.Host.parse("[fe80::1%eth0]:1"))
                .isEqualTo(new TcpTarget.Host("fe80::1%eth0", 1));
        for (String wrong : List.of("", "a", "a:", ":1", "a:0", "a:65536", "a:b", "[]:1")) {
            assertThatThrownBy(() -> TcpTarget.Host.parse(wrong)).hasMessageContaining("host:port");
        }
    }

    private static final List<Candidate> MACHINE =
            List.of(
                    candidate("127.0.0.1/8 lo", Kind.LOOPBACK),
                    candidate("10.0.0.1/24 eth0", Kind.ORDINARY),
                    candidate("fd00::1/64 eth0", Kind.ORDINARY),
                    candidate("10.1.0.1/16 eth1", Kind.ORDINARY),
                    candidate("10.2.0.1/16 eth10", Kind.ORDINARY),
                    candidate("172.17.0.1/16 docker0", Kind.BRIDGE));

    private static Candidate candidate(String text, Kind kind) {
        return new Candidate(local(text), kind);
    }

    private static String select(List<Candidate> all, String... choices) {
        return String.join(
                " ",
                Interfaces.select(all, List.of(choices)).stream()
                        .map(a -> NetAddress.text(a.ip()))
                        .toList());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "eth | 10.0.0.1 fd00::1 10.1.0.1 10.2.0.1",
                "eth1 | 10.1.0.1",
                "eth10 | 10.2.0.1",
                "=eth1 | 10.1.0.1",
                "=lo | 127.0.0.1",
                "10.0.0.0/8 | 10.0.0.1 10.1.0.1 10.2.0.1",
                "10.1.0.0/16,10.2.0.1 | 10.1.0.1 10.2.0.1",
                "fd00::/8 | fd00::1",
                "docker | 172.17.0.1",
                "^eth1 | 127.0.0.1 10.0.0.1 fd00::1 10.2.0.1",
                "^eth,^lo | 172.17.0.1",
                "eth,^=eth0 | 10.1.0.1 10.2.0.1",
            })
    void interfacesAreChosen(String choices, String expected) {
        assertThat(select(MACHINE, choices.split(","))).isEqualTo(expected);
    }

    @Test
    void withoutAChoiceBridgesAreLeftOut() {
        assertThat(select(MACHINE)).isEqualTo("127.0.0.1 10.0.0.1 fd00::1 10.1.0.1 10.2.0.1");
        assertThat(select(List.of(MACHINE.getFirst(), MACHINE.getLast())))
                .isEqualTo("127.0.0.1 172.17.0.1");
        assertThat(select(List.of(MACHINE.getFirst()))).isEqualTo("127.0.0.1");
    }

    @Test
    void aChoiceThatMatchesNothingNamesWhatThereIs() {
        assertThatThrownBy(() -> select(MACHINE, "ib"))
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("interfaces=ib")
                .hasMessageContaining("10.0.0.1/24 (eth0)");
        assertThatThrownBy(() -> select(MACHINE, "10.0.0.x/24"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("10.1.0.0/16");
        assertThatThrownBy(() -> select(MACHINE, "10.0.0.0/33"))
                .isInstanceOf(IllegalArgumentException.class);
    }
}

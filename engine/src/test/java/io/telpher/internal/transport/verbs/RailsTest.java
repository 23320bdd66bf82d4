package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.internal.ffi.verbs.VerbsPorts;
import io.telpher.topology.CpuSet;
import io.telpher.topology.Topology;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RailsTest {
    /// A port at each of two NUMA nodes; a process that is bound to the second.
    private static final Topology TWO_NODES =
            Topology.fromXml(
                    """
                    <system version="1">
                      <cpu numaid="0" affinity="0000000f" arch="x86_64" vendor="AuthenticAMD">
                        <pci busid="0000:01:00.0" class="0x020000">
                          <nic><net name="a0" dev="0" speed="200000" port="1"/></nic>
                        </pci>
                      </cpu>
                      <cpu numaid="1" affinity="000000f0" arch="x86_64" vendor="AuthenticAMD">
                        <pci busid="0000:81:00.0" class="0x020000">
                          <nic>
                            <net name="a1:1" dev="1" speed="200000" port="1"/>
                            <net name="a1:2" dev="2" speed="200000" port="2"/>
                          </nic>
                        </pci>
                      </cpu>
                    </system>
                    """);

    private static final Nearness NEAR_TO_SECOND = Nearness.of(TWO_NODES, CpuSet.parseList("5-6"));

    private static Rail rail(String device, String address, int prefix, int mbps) {
        return new Rail(device, 1, true, gid(address), 3, prefix, 0, 5, mbps, false);
    }

    private static Rail infiniBand(String device, String gid, int lid) {
        return new Rail(device, 1, false, gid(gid), 0, -1, lid, 5, 200_000, false);
    }

    private static byte[] gid(String address) {
        try {
            byte[] ip = InetAddress.getByName(address).getAddress();
            if (ip.length == 16) {
                return ip;
            }
            byte[] gid = new byte[16];
            gid[10] = (byte) 0xff;
            gid[11] = (byte) 0xff;
            System.arraycopy(ip, 0, gid, 12, 4);
            return gid;
        } catch (UnknownHostException e) {
            throw new AssertionError(e);
        }
    }

    private static List<String> pairs(List<Rail> local, List<Rail> remote) {
        return pairs(local, remote, (l, r) -> true);
    }

    private static List<String> pairs(List<Rail> local, List<Rail> remote, Rails.Known known) {
        return Rails.plan(local, remote, known).pairs().stream()
                .map(p -> p.local().device() + "-" + p.remote().device())
                .toList();
    }

    @Test
    void eachCableOfAMeshIsASubnet() {
        List<Rail> local =
                List.of(rail("a0", "10.9.1.1", 24, 100_000), rail("a1", "10.9.2.1", 24, 200_000));
        List<Rail> remote =
                List.of(rail("b0", "10.9.2.2", 24, 200_000), rail("b1", "10.9.1.2", 24, 100_000));
        assertThat(pairs(local, remote)).as("the fastest first").containsExactly("a1-b0", "a0-b1");
        assertThat(pairs(local, List.of(rail("b0", "10.9.2.2", 24, 0)))).containsExactly("a1-b0");
    }

    @Test
    void manyPortsInOneSubnetMeetOneToOne() {
        List<Rail> local = List.of(rail("a0", "10.0.0.1", 16, 0), rail("a1", "10.0.0.2", 16, 0));
        List<Rail> remote =
                List.of(
                        rail("b0", "10.0.1.1", 16, 0),
                        rail("b1", "10.0.1.2", 16, 0),
                        rail("b2", "10.0.1.3", 16, 0));
        assertThat(pairs(local, remote)).containsExactly("a0-b0", "a1-b1", "a0-b2");
    }

    @Test
    void severalAddressesOfAPortAreOneWay() {
        List<Rail> local = List.of(rail("a0", "10.0.0.1", 24, 0), rail("a0", "fd00::1", 64, 0));
        List<Rail> remote = List.of(rail("b0", "10.0.0.2", 24, 0), rail("b0", "fd00::2", 64, 0));
        assertThat(pairs(local, remote)).containsExactly("a0-b0");
        assertThat(pairs(local.subList(1, 2), remote)).containsExactly("a0-b0");
    }

    @Test
    void withoutASharedSubnetPortsAreRouted() {
        List<Rail> local = List.of(rail("a0", "10.0.0.1", 24, 0), rail("a1", "10.0.1.1", 24, 0));
        List<Rail> remote = List.of(rail("b0", "10.1.0.1", 24, 0), rail("b1", "10.1.1.1", 24, 0));
        assertThat(pairs(local, remote)).containsExactly("a0-b0", "a1-b1");
        assertThat(
                        pairs(
                                List.of(rail("a0", "fe80::1", 64, 0)),
                                List.of(rail("b0", "fe80::2", 64, 0))))
                .as("link-local addresses say nothing of the link")
                .isEmpty();
    }

    /// As GPU hosts are: storage in one subnet, and each port for computing in its own.
    @Test
    void portsBesideASharedSubnetAreRouted() {
        List<Rail> local = new ArrayList<>(List.of(rail("a0", "10.0.0.1", 24, 0)));
        List<Rail> remote = new ArrayList<>(List.of(rail("b0", "10.0.0.2", 24, 0)));
        for (int i = 1; i <= 8; i++) {
            local.add(rail("a" + i, "172.16." + i + ".0", 31, 0));
            remote.add(rail("b" + i, "172.17." + i + ".0", 31, 0));
        }
        assertThat(pairs(local, remote))
                .containsExactly(
                        "a0-b0", "a1-b1", "a2-b2", "a3-b3", "a4-b4", "a5-b5", "a6-b6", "a7-b7",
                        "a8-b8");
        assertThat(pairs(local, remote.subList(0, 4)))
                .as("the others take turns")
                .containsExactly(
                        "a0-b0", "a1-b1", "a2-b2", "a3-b3", "a4-b1", "a5-b2", "a6-b3", "a7-b1",
                        "a8-b2");
        assertThat(pairs(local.subList(0, 1), remote)).containsExactly("a0-b0");
        assertThat(pairs(local, remote, (l, r) -> l.device().charAt(1) % 2 == 1))
                .containsExactly("a0-b0", "a1-b1", "a3-b3", "a5-b5", "a7-b7");
    }

    @Test
    void addressesAreRoutedWithinAFamily() {
        Rail global = rail("a0", "2001:db8:1::1", 64, 0);
        Rail ula = rail("a1", "fd00:1::1", 128, 0);
        Rail four = rail("a2", "10.0.0.1", 32, 0);
        Rail globalThere = rail("b0", "2001:db8:2::1", 64, 0);
        Rail ulaThere = rail("b1", "fd00:2::1", 128, 0);
        Rail fourThere = rail("b2", "10.1.0.1", 32, 0);
        assertThat(pairs(List.of(global, ula), List.of(globalThere, ulaThere)))
                .containsExactly("a0-b0", "a1-b1");
        assertThat(pairs(List.of(ula), List.of(fourThere))).as("no common family").isEmpty();
        assertThat(pairs(List.of(global, ula, four), List.of(fourThere, globalThere, ulaThere)))
                .containsExactly("a2-b2", "a0-b0", "a1-b1");
        Rail both = rail("a0", "10.0.0.1", 24, 0);
        assertThat(pairs(List.of(both, global), List.of(globalThere, fourThere)))
                .as("a port that has met another is in no second pair")
                .containsExactly("a0-b2");
        assertThat(pairs(List.of(both, global), List.of(globalThere)))
                .as("of a port's addresses the one of the peer's family")
                .containsExactly("a0-b0");
    }

    @Test
    void ethernetIsRoutedBesideInfiniBand() {
        assertThat(
                        pairs(
                                List.of(
                                        infiniBand("a0", "fe80:0:0:1::1", 7),
                                        rail("a1", "10.0.0.1", 24, 0)),
                                List.of(
                                        infiniBand("b0", "fe80:0:0:1::2", 8),
                                        rail("b1", "10.1.0.1", 24, 0))))
                .containsExactly("a0-b0", "a1-b1");
    }

    /// Ports of one subnet that are not on one network: cables that keep the prefix fe80::/64.
    @Test
    void whatWasTriedInVainGivesWayToOtherCombinations() {
        List<Rail> local = ports("a", 4);
        List<Rail> remote = ports("b", 4);
        int[] order = {0, 1, 2, 3};
        do {
            assertThat(triesUntilAllWork(local, remote, order))
                    .as("cables %s", Arrays.toString(order))
                    .isLessThan(8);
        } while (next(order));
    }

    private static int triesUntilAllWork(List<Rail> local, List<Rail> remote, int[] order) {
        Ways ways = new Ways(FakeVerbs.HERE, NEAR_TO_SECOND);
        int tries = 0;
        while (connect(
                                local,
                                remote,
                                ways,
                                p -> remote.indexOf(p.remote()) == order[local.indexOf(p.local())])
                        .working
                        .size()
                < order.length) {
            if (++tries == 100) {
                break;
            }
        }
        return tries;
    }

    /// What came of one connect.
    ///
    /// @param before pairs that were dialled in vain before one worked
    /// @param working those that worked
    private record Connected(List<Rails.Pair> before, List<Rails.Pair> working) {}

    /// As the engine does: asks for the ways, once more when all have failed, and dials each until
    /// one works; the others join.
    private static Connected connect(
            List<Rail> local, List<Rail> remote, Ways ways, Predicate<Rails.Pair> works) {
        List<Rails.Pair> before = new ArrayList<>();
        List<Rails.Pair> working = new ArrayList<>();
        for (int asked = 0; asked < 2 && working.isEmpty(); asked++) {
            for (Rails.Pair pair : Rails.plan(local, remote, ways).pairs()) {
                if (works.test(pair)) {
                    ways.worked(pair);
                    working.add(pair);
                } else if (!before.contains(pair)) {
                    ways.failed(pair);
                    if (working.isEmpty()) {
                        before.add(pair);
                    }
                }
            }
        }
        return new Connected(before, working);
    }

    private static List<Rail> ports(String name, int count) {
        List<Rail> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            all.add(infiniBand(name + i, "fe80::%d:%d".formatted(name.charAt(0) - 'a' + 1, i), 1));
        }
        return all;
    }

    /// Each host's other ports lead to others.
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4})
    void theOnePairThatWorksIsFoundAndStays(int count) {
        List<Rail> local = ports("a", count);
        List<Rail> remote = ports("b", count);
        for (Rail here : local) {
            for (Rail there : remote) {
                Rails.Pair right = new Rails.Pair(here, there);
                Ways ways = new Ways(FakeVerbs.HERE, NEAR_TO_SECOND);
                int needed = 1;
                while (connect(local, remote, ways, right::equals).working.isEmpty()) {
                    assertThat(++needed).as(right.text()).isLessThan(4);
                }
                for (int again = 0; again < 5; again++) {
                    assertThat(connect(local, remote, ways, right::equals))
                            .as("%s, connect %d after", right.text(), again + 1)
                            .isEqualTo(new Connected(List.of(), List.of(right)));
                }
            }
        }
    }

    /// A firewall drops what the ports send: each vain try costs seconds.
    @Test
    void ofAPeerThatNothingReachesTwoPairsAreTriedInTurn() {
        List<Rail> local = ports("a", 4);
        List<Rail> remote = ports("b", 4);
        Ways ways = new Ways(FakeVerbs.HERE, NEAR_TO_SECOND);
        for (int i = 0; i < 2; i++) {
            assertThat(connect(local, remote, ways, pair -> false).before).hasSize(8);
        }
        Set<Rails.Pair> all = new HashSet<>();
        for (int i = 0; i < 8; i++) {
            List<Rails.Pair> tried = connect(local, remote, ways, pair -> false).before;
            assertThat(tried).hasSize(2);
            all.addAll(tried);
        }
        assertThat(all).hasSize(16);
    }

    /// Those of whom nothing was asked for longest are forgotten.
    @Test
    void whatCameOfAPairIsKeptWhileItIsAskedFor() {
        List<Rail> local = ports("a", 1);
        List<Rail> remote = ports("b", 2);
        Rails.Pair vain = new Rails.Pair(local.getFirst(), remote.getFirst());
        Ways ways = new Ways(FakeVerbs.HERE, NEAR_TO_SECOND);
        ways.failed(vain);
        for (int i = 0; i < 10_000; i++) {
            ways.failed(new Rails.Pair(local.getFirst(), infiniBand("c" + i, "fe80::3:1", 1)));
            assertThat(pairs(local, remote, ways)).containsExactly("a0-b1");
        }
    }

    /// The next order of all.
    private static boolean next(int[] order) {
        int i = order.length - 2;
        while (i >= 0 && order[i] > order[i + 1]) {
            i--;
        }
        if (i < 0) {
            return false;
        }
        int k = order.length - 1;
        while (order[k] < order[i]) {
            k--;
        }
        swap(order, i, k);
        for (int a = i + 1, b = order.length - 1; a < b; a++, b--) {
            swap(order, a, b);
        }
        return true;
    }

    private static void swap(int[] order, int a, int b) {
        int kept = order[a];
        order[a] = order[b];
        order[b] = kept;
    }

    @Test
    void aWayTriedInVainComesLastAndIsNotForgotten() {
        List<Rail> local =
                List.of(rail("a0", "10.0.0.1", 24, 200), rail("a1", "10.0.1.1", 24, 100));
        List<Rail> remote =
                List.of(rail("b0", "10.0.0.2", 24, 200), rail("b1", "10.0.1.2", 24, 100));
        Rails.Pair first = new Rails.Pair(local.getFirst(), remote.getFirst());
        Ways ways = new Ways(FakeVerbs.HERE, NEAR_TO_SECOND);
        ways.failed(first);
        assertThat(pairs(local, remote, ways)).as("while none has worked").containsExactly("a1-b1");
        assertThat(Rails.plan(local, remote, ways).spared()).containsExactly(first);
        ways.worked(new Rails.Pair(local.getLast(), remote.getLast()));
        assertThat(pairs(local, remote, ways)).containsExactly("a1-b1", "a0-b0");
        ways.worked(first);
        assertThat(pairs(local, remote, ways)).containsExactly("a0-b0", "a1-b1");
        ways.failed(first);
        assertThat(pairs(local, remote, ways))
                .as("a link that was up and is down has the right ends")
                .containsExactly("a0-b0", "a1-b1");
    }

    @Test
    void ofEqualRailsTheNearestComesFirst() {
        List<Rail> local =
                List.of(rail("a0", "10.0.0.1", 24, 200), rail("a1", "10.0.1.1", 24, 200));
        List<Rail> remote =
                List.of(rail("b0", "10.0.0.2", 24, 200), rail("b1", "10.0.1.2", 24, 200));
        Ways near = new Ways(FakeVerbs.HERE, NEAR_TO_SECOND);
        assertThat(pairs(local, remote, near)).containsExactly("a1-b1", "a0-b0");
        Rail faster = rail("a0", "10.0.0.1", 24, 400);
        Rail fasterThere = rail("b0", "10.0.0.2", 24, 400);
        assertThat(pairs(List.of(faster, local.get(1)), List.of(fasterThere, remote.get(1)), near))
                .as("speed counts more")
                .containsExactly("a0-b0", "a1-b1");
        Ways anywhere = new Ways(FakeVerbs.HERE, Nearness.of(TWO_NODES, CpuSet.parseList("3-4")));
        assertThat(pairs(local, remote, anywhere)).containsExactly("a0-b0", "a1-b1");
    }

    @Test
    void aPortIsAsFarAsItsNumaNode() {
        Rail second = new Rail("a1", 2, true, gid("10.0.0.1"), 3, 24, 0, 5, 0, false);
        assertThat(NEAR_TO_SECOND.distance(second)).isEqualTo(10);
        assertThat(NEAR_TO_SECOND.distance(rail("a0", "10.0.0.1", 24, 0))).isEqualTo(20);
        assertThat(NEAR_TO_SECOND.distance(rail("other", "10.0.0.1", 24, 0))).isEqualTo(10);
        assertThat(Nearness.of(TWO_NODES, CpuSet.NONE).distance(second)).isEqualTo(10);
    }

    /// Three hosts, a cable and a subnet for each two: each has a port that leads to the third.
    @Test
    void aMeshOfCablesAsksForNoWayThatTheKernelHasNot() {
        List<Rail> local = List.of(rail("ab", "10.9.1.1", 24, 0), rail("ac", "10.9.2.1", 24, 0));
        List<Rail> remote = List.of(rail("ba", "10.9.1.2", 24, 0), rail("bc", "10.9.3.2", 24, 0));
        List<String> asked = new ArrayList<>();
        assertThat(
                        pairs(
                                local,
                                remote,
                                (l, r) -> {
                                    asked.add(l.device() + "-" + r.device());
                                    return false;
                                }))
                .containsExactly("ab-ba");
        assertThat(asked).containsExactly("ac-bc");
        assertThat(Rails.plan(local, remote, (l, r) -> false).unreachable())
                .singleElement()
                .satisfies(u -> assertThat(u.why()).contains("route"));
    }

    @Test
    void infiniBandGoesBySubnetPrefix() {
        List<Rail> local = List.of(infiniBand("a0", "fe80:0:0:1::1", 7));
        Rails.Plan plan =
                Rails.plan(
                        local,
                        List.of(
                                infiniBand("b0", "fe80:0:0:1::2", 8),
                                infiniBand("b1", "fe80:0:0:2::2", 9),
                                rail("b2", "10.0.0.2", 24, 0)),
                        (l, r) -> true);
        assertThat(plan.pairs()).hasSize(1);
        assertThat(plan.unreachable())
                .extracting(u -> u.rail().device() + ": " + u.why())
                .satisfiesExactly(
                        b1 -> assertThat(b1).startsWith("b1: another InfiniBand subnet"),
                        b2 ->
                                assertThat(b2)
                                        .isEqualTo(
                                                "b2: Ethernet, and this side has InfiniBand only"));
    }

    @Test
    void gidsAreChosenByTypeAndAddress() {
        VerbsPorts.Gid local =
                new VerbsPorts.Gid(1, 0, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 2, gid("fe80::1"));
        VerbsPorts.Gid old =
                new VerbsPorts.Gid(1, 1, VerbsPorts.IBV_GID_TYPE_ROCE_V1, 2, gid("10.0.0.1"));
        VerbsPorts.Gid six =
                new VerbsPorts.Gid(1, 2, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 2, gid("fd00::1"));
        VerbsPorts.Gid four =
                new VerbsPorts.Gid(1, 5, VerbsPorts.IBV_GID_TYPE_ROCE_V2, 2, gid("10.0.0.1"));
        List<VerbsPorts.Gid> all = List.of(local, old, six, four);
        assertThat(Gids.usable(all, true, -1)).containsExactly(four, six);
        assertThat(Gids.usable(List.of(local, old), true, -1)).containsExactly(local);
        assertThat(Gids.usable(all, true, 0)).containsExactly(local);
        assertThat(Gids.usable(all, true, 1)).as("v1 is never used").isEmpty();
        VerbsPorts.Gid first =
                new VerbsPorts.Gid(1, 0, VerbsPorts.IBV_GID_TYPE_IB, 0, gid("fe80::5:1"));
        VerbsPorts.Gid alias =
                new VerbsPorts.Gid(1, 1, VerbsPorts.IBV_GID_TYPE_IB, 0, gid("fd00::5:1"));
        assertThat(Gids.usable(List.of(first, alias), false, -1))
                .as("InfiniBand's own comes first, whatever its prefix")
                .containsExactly(first);
    }

    @Test
    void railsTravelInLocators() {
        Rail rail = rail("mlx5_0", "10.1.2.3", 23, 400_000);
        Rail read = Rail.decode(rail.encode());
        assertThat(read).isEqualTo(rail);
        assertThat(read.prefix()).isEqualTo(23);
        assertThat(read.mbps()).isEqualTo(400_000);
        assertThat(read).hasToString("mlx5_0/1 10.1.2.3");
        byte[] longer = Arrays.copyOf(rail.encode(), 100);
        assertThat(Rail.decode(longer)).as("of a later version").isEqualTo(rail);
        for (int i = 0; i < rail.encode().length; i++) {
            byte[] cut = Arrays.copyOf(rail.encode(), i);
            assertThatThrownBy(() -> Rail.decode(cut)).isInstanceOf(IllegalArgumentException.class);
        }
    }

    @Test
    void creditsWrapAround() {
        assertThat(Ring.read(Ring.record(false, 7L * Ring.UNIT), 3L * Ring.UNIT))
                .isEqualTo(7L * Ring.UNIT);
        assertThat(Ring.read(Ring.creditOnly(3L * Ring.UNIT), 7L * Ring.UNIT))
                .as("an older one")
                .isEqualTo(3L * Ring.UNIT);
        long far = (1L << 30) * Ring.UNIT;
        assertThat(Ring.read(Ring.record(true, far + 2L * Ring.UNIT), far - Ring.UNIT))
                .isEqualTo(far + 2L * Ring.UNIT);
        assertThat(Ring.isRecord(Ring.creditOnly(far))).isFalse();
        assertThat(Ring.isRecord(Ring.record(true, far - Ring.UNIT))).isTrue();
        assertThat(Ring.isAtStart(Ring.record(true, far - Ring.UNIT))).isTrue();
        assertThat(Ring.isAtStart(Ring.record(false, far - Ring.UNIT))).isFalse();
    }
}

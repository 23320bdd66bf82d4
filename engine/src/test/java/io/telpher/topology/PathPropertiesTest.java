package io.telpher.topology;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// What holds for paths of any machine.
class PathPropertiesTest {
    private static final int ROUNDS = 25;

    @ParameterizedTest
    @MethodSource("io.telpher.topology.Machines#all")
    void knownMachines(String name) throws IOException {
        check(Machines.load(name), name);
    }

    @Test
    void randomMachines() {
        long seed = System.nanoTime();
        System.out.println("PathPropertiesTest: seed " + seed);
        Random random = new Random(seed);
        for (int round = 0; round < ROUNDS; round++) {
            Element system = new RandomMachine(random).system();
            Topology machine = new Topology(system, List.of());
            String name = "seed " + seed + ", round " + round + "\n" + system.toXml();
            check(machine, name);
            assertThat(Topology.fromXml(machine.toXml()).nodes())
                    .as(name)
                    .isEqualTo(machine.nodes());
            moreLinksAreNeverWorse(machine, system, random, name);
        }
    }

    private static void check(Topology machine, String name) {
        List<Node> nodes = machine.nodes();
        for (int i = 0; i < nodes.size(); i++) {
            for (Node other : nodes.subList(i, nodes.size())) {
                Node one = nodes.get(i);
                TopologyPath there = machine.path(one, other);
                Supplier<String> pair = () -> one.id() + " to " + other.id() + " of " + name;
                TopologyPath back = machine.path(other, one);
                assertThat(back.type()).as(pair).isEqualTo(there.type());
                assertThat(back.bandwidth()).as(pair).isEqualTo(there.bandwidth());
                assertThat(back.hops()).as(pair).isEqualTo(there.hops());
                assertThat(there.type() == PathType.LOC && there.hops() == 0)
                        .as(pair)
                        .isEqualTo(one.equals(other));
                assertThat(there.from()).isEqualTo(one);
                assertThat(there.to()).isEqualTo(other);
                if (there.type().compareTo(PathType.NET) < 0) {
                    followsLinks(machine, there, pair);
                }
                TopologyPath direct = machine.directPath(one, other);
                if (there.type() == PathType.NVB) {
                    assertThat(direct.type()).as(pair).isGreaterThan(PathType.NVB);
                } else {
                    assertThat(direct).as(pair).isEqualTo(there);
                }
            }
        }
    }

    /// Each step is a link, and neither type nor bandwidth is better than it.
    private static void followsLinks(Topology machine, TopologyPath path, Supplier<String> pair) {
        double narrowest = Bandwidths.LOCAL;
        PathType worst = PathType.LOC;
        for (int i = 0; i < path.hops(); i++) {
            Link link = link(machine, path.nodes().get(i), path.nodes().get(i + 1), path, pair);
            narrowest = Math.min(narrowest, link.bandwidth());
            worst = worst.worse(link.type());
        }
        assertThat(path.bandwidth()).as(pair).isEqualTo(narrowest);
        switch (path.type()) {
            case NVB -> assertThat(worst).as(pair).isEqualTo(PathType.NVL);
            case P2C -> assertThat(worst).as(pair).isEqualTo(PathType.PHB);
            case PXN -> assertThat(worst).as(pair).isLessThanOrEqualTo(PathType.PHB);
            default -> assertThat(path.type()).as(pair).isEqualTo(worst);
        }
        List<Node> middle = path.nodes().subList(1, Math.max(1, path.hops()));
        boolean forwards = path.type() == PathType.NVB || path.type() == PathType.PXN;
        if (!forwards) {
            assertThat(middle).as(pair).noneMatch(Gpu.class::isInstance);
        }
        assertThat(middle).as(pair).noneMatch(NicPort.class::isInstance);
    }

    /// The one of parallel links that the path must have meant.
    private static Link link(
            Topology machine, Node one, Node other, TopologyPath path, Supplier<String> pair) {
        List<Link> parallel =
                machine.links().stream()
                        .filter(
                                l ->
                                        (l.a().equals(one) && l.b().equals(other))
                                                || (l.a().equals(other) && l.b().equals(one)))
                        .filter(l -> l.bandwidth() >= path.bandwidth())
                        .sorted((l, r) -> l.type().compareTo(r.type()))
                        .toList();
        assertThat(parallel).as(pair).isNotEmpty();
        return parallel.getFirst();
    }

    private static void moreLinksAreNeverWorse(
            Topology before, Element system, Random random, String name) {
        List<Element> gpus = new ArrayList<>();
        system.walk(
                e -> {
                    if (e.child("gpu") != null) {
                        gpus.add(e);
                    }
                });
        if (gpus.size() < 2) {
            return;
        }
        Element from = gpus.get(random.nextInt(gpus.size()));
        Element to = gpus.get(random.nextInt(gpus.size()));
        from.children("gpu")
                .getFirst()
                .add(
                        new Element("nvlink")
                                .with("target", to.text("busid"))
                                .with("count", 4)
                                .with("tclass", "0x030200"));
        Topology after = new Topology(system, List.of());
        for (Node one : before.nodes()) {
            for (Node other : before.nodes()) {
                TopologyPath old = before.path(one, other);
                TopologyPath now = after.path(same(after, one), same(after, other));
                Supplier<String> pair = () -> one.id() + " to " + other.id() + " of " + name;
                assertThat(now.type()).as(pair).isLessThanOrEqualTo(old.type());
                // A way through another GPU is taken where it spares a CPU's root complex, even
                // when it is narrower, as by NCCL. What lies across the network begins with the
                // way to a card, which may be such a one.
                boolean mayNarrow = now.type() == PathType.PXN || now.type() == PathType.NET;
                if (now.type() == old.type() && !mayNarrow) {
                    assertThat(now.bandwidth()).as(pair).isGreaterThanOrEqualTo(old.bandwidth());
                }
            }
        }
    }

    private static Node same(Topology machine, Node node) {
        return machine.nodes().stream()
                .filter(n -> n.id().equals(node.id()))
                .findFirst()
                .orElseThrow();
    }
}

package io.telpher.topology;

import static io.telpher.topology.Machines.expected;
import static io.telpher.topology.Machines.gpu;
import static io.telpher.topology.Machines.gpuMatrix;
import static io.telpher.topology.Machines.load;
import static io.telpher.topology.Machines.matrix;
import static io.telpher.topology.Machines.names;
import static io.telpher.topology.Machines.port;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

/// What is said of well-known machines.
class MachinesTest {
    @Test
    void everyPairOfADgxA100GoesOverNvSwitch() throws IOException {
        Topology machine = load("dgx-a100");
        assertThat(machine.gpus()).hasSize(8);
        for (Gpu one : machine.gpus()) {
            for (Gpu other : machine.gpus()) {
                TopologyPath path = machine.path(one, other);
                assertThat(path.type()).isEqualTo(one == other ? PathType.LOC : PathType.NVL);
                if (one != other) {
                    assertThat(path.bandwidth()).as("12 links of 20 GB/s").isEqualTo(240);
                    assertThat(path.nodes().get(1)).isInstanceOf(NvSwitch.class);
                }
            }
        }
        NvSwitch all = (NvSwitch) machine.path(gpu(machine, 0), gpu(machine, 1)).nodes().get(1);
        assertThat(all.switches()).hasSize(6);
    }

    @Test
    void aDgxA100HasTwoRailsForEachGpu() throws IOException {
        Topology machine = load("dgx-a100");
        assertThat(names(machine.nearestPorts(gpu(machine, 0))))
                .containsExactly("mlx5_0", "mlx5_1");
        assertThat(names(machine.nearestPorts(gpu(machine, 5))))
                .containsExactly("mlx5_4", "mlx5_5");
        assertThat(machine.nearestGpus(port(machine, "mlx5_6")))
                .containsExactly(gpu(machine, 6), gpu(machine, 7));
        TopologyPath near = machine.path(gpu(machine, 0), port(machine, "mlx5_0"));
        assertThat(near.type()).isEqualTo(PathType.PIX);
        assertThat(near.bandwidth()).as("Gen4 x16, below the 25 of the port").isEqualTo(24);
        TopologyPath far = machine.path(gpu(machine, 0), port(machine, "mlx5_6"));
        assertThat(far.type()).isEqualTo(PathType.PXN);
        assertThat(far.bandwidth()).isEqualTo(24);
        assertThat(far.nodes()).contains(gpu(machine, 6));
    }

    @Test
    void gpusOfADgxA100BelongToTheNumaNodesThatTheyAreKnownFor() throws IOException {
        Topology machine = load("dgx-a100");
        List<Integer> nodes =
                machine.gpus().stream()
                        .map(gpu -> machine.numaNode(gpu).orElseThrow().numa())
                        .toList();
        assertThat(nodes).containsExactly(3, 3, 1, 1, 7, 7, 5, 5);
        NumaNode three = machine.numaNode(gpu(machine, 0)).orElseThrow();
        assertThat(three.cpus()).hasToString("48-63,176-191");
        assertThat(three.distances())
                .containsEntry(3, 10)
                .containsEntry(0, 12)
                .containsEntry(7, 32);
        assertThat(machine.numaNode(port(machine, "mlx5_4"))).hasValue(numa(machine, 7));
        assertThat(machine.path(numa(machine, 0), numa(machine, 7)).bandwidth()).isEqualTo(16);
    }

    private static NumaNode numa(Topology machine, int number) {
        return machine.numaNodes().stream()
                .filter(node -> node.numa() == number)
                .findFirst()
                .orElseThrow();
    }

    @Test
    void anHgxH100HasARailOfItsOwnForEachGpu() throws IOException {
        Topology machine = load("hgx-h100");
        for (Gpu gpu : machine.gpus()) {
            assertThat(names(machine.nearestPorts(gpu))).containsExactly("mlx5_" + gpu.index());
            TopologyPath rail = machine.path(gpu, port(machine, "mlx5_" + gpu.index()));
            assertThat(rail.type()).isEqualTo(PathType.PIX);
            assertThat(rail.bandwidth()).isEqualTo(48);
            assertThat(gpu.pci().link().belowMaximum()).as("idle, at Gen1").isTrue();
        }
        TopologyPath pair = machine.path(gpu(machine, 0), gpu(machine, 7));
        assertThat(pair.type()).isEqualTo(PathType.NVL);
        assertThat(pair.bandwidth()).as("18 links of 20.6").isCloseTo(370.8, within(1e-9));
        // To the management NICs there is no GPU that is closer.
        assertThat(machine.path(gpu(machine, 0), port(machine, "mlx5_bond_0")).type())
                .isEqualTo(PathType.PHB);
        TopologyPath across = machine.path(gpu(machine, 0), port(machine, "mlx5_bond_1"));
        assertThat(across.type()).isEqualTo(PathType.SYS);
        assertThat(across.bandwidth()).as("100 Gb/s").isEqualTo(12.5);
    }

    @Test
    void aSquareOfNvLinksHasDiagonalsThroughAGpu() throws IOException {
        Topology machine = load("dgx1-v100");
        assertThat(gpuMatrix(machine))
                .isEqualTo(
                        expected(
                                "LOC NVL NVL NVB",
                                "NVL LOC NVB NVL",
                                "NVL NVB LOC NVL",
                                "NVB NVL NVL LOC"));
        assertThat(machine.path(gpu(machine, 0), gpu(machine, 2)).bandwidth()).isEqualTo(40);
        TopologyPath diagonal = machine.path(gpu(machine, 0), gpu(machine, 3));
        assertThat(diagonal.bandwidth()).as("one link is the narrowest").isEqualTo(20);
        assertThat(diagonal.hops()).isEqualTo(2);
        NicPort port = port(machine, "mlx5_0");
        assertThat(matrix(machine, machine.gpus(), List.of(port)))
                .as("GPU 2 has a link to GPU 0, GPU 3 to GPU 1")
                .isEqualTo(expected("PIX", "PIX", "PXN", "PXN"));
        assertThat(machine.path(gpu(machine, 3), port).nodes()).contains(gpu(machine, 1));
    }

    @Test
    void aFlatVirtualMachineKnowsNoNumaNodeAndNoSpeeds() throws IOException {
        Topology machine = load("cloud-flat");
        assertThat(gpuMatrix(machine)).isEqualTo(expected("LOC NVL", "NVL LOC"));
        assertThat(machine.path(gpu(machine, 0), gpu(machine, 1)).bandwidth()).isEqualTo(120);
        assertThat(machine.numaNode(gpu(machine, 0))).isEmpty();
        assertThat(matrix(machine, machine.gpus(), machine.ports()))
                .isEqualTo(expected("PHB PHB", "PHB PHB"));
        TopologyPath path = machine.path(gpu(machine, 0), port(machine, "rdmap0s3"));
        assertThat(path.bandwidth()).as("unknown: Gen3 x16").isEqualTo(12);
        assertThat(machine.path(gpu(machine, 0), port(machine, "ens5")).bandwidth())
                .as("unknown: 10 Gb/s")
                .isEqualTo(1.25);
        assertThat(names(machine.nearestPorts(gpu(machine, 1)))).containsExactly("rdmap0s3");
    }

    @Test
    void twoSwitchesAndTwoSocketsWithoutNvLink() throws IOException {
        Topology machine = load("pcie-two-switches");
        assertThat(gpuMatrix(machine))
                .isEqualTo(
                        expected(
                                "LOC PIX PXB PHB SYS SYS",
                                "PIX LOC PXB PHB SYS SYS",
                                "PXB PXB LOC PHB SYS SYS",
                                "PHB PHB PHB LOC SYS SYS",
                                "SYS SYS SYS SYS LOC PHB",
                                "SYS SYS SYS SYS PHB LOC"));
        assertThat(machine.path(gpu(machine, 0), gpu(machine, 2)).bandwidth())
                .as("the uplink of the lower switch has 8 lanes")
                .isEqualTo(6);
        assertThat(machine.path(gpu(machine, 0), gpu(machine, 4)).bandwidth())
                .as("between sockets")
                .isEqualTo(10);
        assertThat(machine.path(gpu(machine, 4), gpu(machine, 5)).bandwidth()).isEqualTo(24);
        assertThat(names(machine.nearestPorts(gpu(machine, 2))))
                .containsExactly("mlx5_0", "mlx5_1");
        assertThat(machine.path(port(machine, "mlx5_0"), port(machine, "mlx5_1")).type())
                .isEqualTo(PathType.PIX);
        assertThat(port(machine, "mlx5_0").card()).isEqualTo(port(machine, "mlx5_1").card());
    }

    @Test
    void twoHostsWithAGb10ReachEachOtherOverTheNetwork() throws IOException {
        Topology machine = load("gb10-pair");
        assertThat(machine.gpus()).hasSize(2);
        Gpu here = machine.gpus().getFirst();
        Gpu there = machine.gpus().getLast();
        TopologyPath between = machine.path(here, there);
        assertThat(between.type()).isEqualTo(PathType.NET);
        assertThat(between.bandwidth()).as("Gen5 x4 of one function").isEqualTo(12);
        NumaNode cpu = machine.numaNode(here).orElseThrow();
        assertThat(machine.path(here, cpu).type()).isEqualTo(PathType.C2C);
        assertThat(machine.path(here, cpu).bandwidth()).isEqualTo(600);
        List<NicPort> rails = machine.nearestPorts(here);
        assertThat(names(rails)).containsExactly("mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3");
        assertThat(rails).extracting(NicPort::host).containsOnly(0);
        assertThat(rails).extracting(NicPort::card).as("four functions, one card").hasSize(4);
        assertThat(rails.stream().map(NicPort::card).distinct()).hasSize(1);
        assertThat(machine.path(here, rails.getFirst()).type()).isEqualTo(PathType.P2C);
        assertThat(machine.path(here, machine.numaNodes().getLast()).type())
                .isEqualTo(PathType.NET);
    }

    @Test
    void gpusThatAreOneChipWithTheirCpuReachItsNicsPastTheirNarrowPcie() throws IOException {
        Topology machine = load("grace-tray");
        assertThat(machine.path(gpu(machine, 0), gpu(machine, 3)).type()).isEqualTo(PathType.NVL);
        TopologyPath own = machine.path(gpu(machine, 0), port(machine, "mlx5_0"));
        assertThat(own.type()).isEqualTo(PathType.P2C);
        assertThat(own.bandwidth()).as("that of the NIC, not of one lane").isEqualTo(48);
        assertThat(names(machine.nearestPorts(gpu(machine, 0))))
                .containsExactly("mlx5_0", "mlx5_1");
        TopologyPath other = machine.path(gpu(machine, 0), port(machine, "mlx5_3"));
        assertThat(other.type()).as("relayed by a GPU of the other CPU").isEqualTo(PathType.PXN);
        assertThat(machine.path(gpu(machine, 2), machine.numaNodes().getLast()).bandwidth())
                .isEqualTo(201.25);
    }

    @Test
    void pathsAreBetweenNodesOfOneTopology() throws IOException {
        Topology machine = load("dgx-a100");
        Gpu stranger = gpu(load("pcie-two-switches"), 0);
        assertThatThrownBy(() -> machine.path(stranger, gpu(machine, 0)))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(stranger.id());
        assertThat(load("dgx-a100").path(gpu(machine, 0), gpu(machine, 1)).type())
                .as("equal nodes are the same")
                .isEqualTo(PathType.NVL);
    }
}

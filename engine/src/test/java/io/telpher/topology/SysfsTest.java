package io.telpher.topology;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.tuple;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.topology.GpuFacts.Fact;
import io.telpher.topology.GpuFacts.NvLinkFact;
import io.telpher.topology.NicPort.Fabric;
import io.telpher.topology.NicPort.State;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// The walk over the kernel's tree: built ones, and that of the machine that the test runs on.
class SysfsTest {
    private static final String NVIDIA = "0x10de";
    private static final String MELLANOX = "0x15b3";
    private static final String GEN4 = "16.0 GT/s PCIe";
    private static final String GEN5 = "32.0 GT/s PCIe";

    @TempDir Path folder;
    private SysfsTree tree;

    @BeforeEach
    void tree() {
        tree = new SysfsTree(folder);
    }

    private Topology look() {
        return look(KnownGpus.of());
    }

    private Topology look(GpuFacts facts) {
        Topology machine = Machine.look(folder, Map.of(), facts);
        XmlTest.assertThatNcclTakes(machine.toXml());
        Topology again = Topology.fromXml(machine.toXml());
        assertThat(again.nodes()).isEqualTo(machine.nodes());
        assertThat(again.links()).isEqualTo(machine.links());
        return machine;
    }

    private static Fact fact(String address, int index, NvLinkFact... links) {
        return new Fact(
                PciAddress.parse(address),
                index,
                "GPU-" + index,
                "NVIDIA H100",
                90,
                List.of(links),
                null);
    }

    /// Two sockets; below the first a switch with a GPU and a card, below the second a GPU at a
    /// root port.
    private void server() {
        tree.intel(143).numaNode(0, "0-15,32-47", "10 21").numaNode(1, "16-31,48-63", "21 10");
        tree.bridge("pci0000:15/0000:15:01.0").numa(0).speed(GEN5, 16);
        tree.bridge("pci0000:15/0000:15:01.0/0000:16:00.0").numa(0).speed(GEN5, 16);
        String below = "pci0000:15/0000:15:01.0/0000:16:00.0/";
        tree.bridge(below + "0000:17:00.0").numa(0).speed(GEN5, 16);
        tree.bridge(below + "0000:17:01.0").numa(0).speed(GEN5, 16);
        tree.pci(below + "0000:17:00.0/0000:18:00.0", "0x030200", NVIDIA)
                .numa(0)
                .speed(GEN5, 16, "2.5 GT/s PCIe", 16);
        for (int function = 0; function < 2; function++) {
            tree.pci(below + "0000:17:01.0/0000:19:00." + function, "0x020000", MELLANOX)
                    .numa(0)
                    .speed(GEN4, 16)
                    .netdev("ens1f" + function, "", 100_000, function == 0 ? "up" : "down")
                    .rdma(
                            "mlx5_" + function,
                            "b8ce:f603:00a1:b2c0",
                            "Ethernet",
                            "100 Gb/sec (4X EDR)",
                            function == 0 ? "4: ACTIVE" : "1: DOWN");
        }
        tree.bridge("pci0000:97/0000:97:01.0").numa(1).speed(GEN4, 8);
        tree.pci("pci0000:97/0000:97:01.0/0000:98:00.0", "0x030200", NVIDIA)
                .numa(1)
                .speed(GEN5, 16);
        // What does not count: a console, a disk, a sound card.
        tree.pci("pci0000:00/0000:00:02.0", "0x030000", "0x1a03").numa(0);
        tree.pci("pci0000:00/0000:00:03.0", "0x010802", "0x144d").numa(0);
        tree.pci("pci0000:97/0000:97:01.0/0000:98:00.1", "0x040300", NVIDIA).numa(1);
    }

    @Test
    void switchesAreOneNodeAndPortsNone() {
        server();
        Topology machine = look();
        assertThat(machine.nodes().stream().map(Node::id))
                .containsExactlyInAnyOrder(
                        "numa0",
                        "numa1",
                        "0000:16:00.0",
                        "0000:18:00.0",
                        "0000:19:00.0",
                        "mlx5_0",
                        "mlx5_1",
                        "0000:98:00.0");
        Gpu first = machine.gpus().getFirst();
        assertThat(machine.parent(first).orElseThrow().id()).isEqualTo("0000:16:00.0");
        assertThat(first.pci().port()).hasToString("0000:17:00.0");
        assertThat(first.pci().rootComplex()).isNull();
        PciBridge above = (PciBridge) machine.parent(first).orElseThrow();
        assertThat(above.pci().rootComplex()).isEqualTo("pci0000:15");
        assertThat(above.pci().port()).hasToString("0000:15:01.0");
        assertThat(machine.numaNode(first).orElseThrow().cpus()).hasToString("0-15,32-47");
        assertThat(machine.numaNodes().getFirst().distances()).isEqualTo(Map.of(0, 10, 1, 21));
        assertThat(machine.numaNodes().getFirst().cpu())
                .isEqualTo(new NumaNode.Cpu("x86_64", "GenuineIntel", 6, 143, "Some Xeon"));
    }

    @Test
    void linksAreAsGoodAsTheWorseOfTheirEnds() {
        server();
        Topology machine = look();
        Gpu first = machine.gpus().getFirst();
        assertThat(first.pci().link()).isEqualTo(new PcieLink(32, 16, 2.5, 16));
        assertThat(first.pci().link().belowMaximum()).isTrue();
        Gpu second = machine.gpus().getLast();
        assertThat(second.pci().link()).as("in a slot of Gen4 x8").hasToString("Gen4 x8");
        NumaNode far = machine.numaNodes().getLast();
        assertThat(machine.path(second, far).bandwidth()).isEqualTo(12);
        assertThat(machine.path(first, second).type()).isEqualTo(PathType.SYS);
        assertThat(machine.path(first, second).bandwidth()).isEqualTo(12);
    }

    @Test
    void functionsOfACardAreItsPorts() {
        server();
        Topology machine = look();
        Gpu gpu = machine.gpus().getFirst();
        assertThat(machine.ports()).hasSize(2);
        NicPort up = machine.ports().getFirst();
        NicPort down = machine.ports().getLast();
        assertThat(up)
                .isEqualTo(
                        new NicPort(
                                "mlx5_0",
                                0,
                                0,
                                "mlx5_0",
                                Fabric.ROCE,
                                1,
                                100_000,
                                State.UP,
                                "0xb8cef60300a1b2c0",
                                "ens1f0",
                                PciAddress.parse("0000:19:00.0"),
                                "0xb8cef60300a1b2c0",
                                0,
                                List.of()));
        assertThat(down.port()).isEqualTo(2);
        assertThat(down.card()).isEqualTo(up.card());
        assertThat(down.state()).isEqualTo(State.DOWN);
        assertThat(down.function()).hasToString("0000:19:00.1");
        assertThat(machine.path(gpu, up).type()).isEqualTo(PathType.PIX);
        assertThat(machine.nearestPorts(gpu)).as("not the one that is down").containsExactly(up);
        assertThat(machine.nearestGpus(down)).containsExactly(gpu);
    }

    @Test
    void theDriversLibraryAddsWhatTheBusDoesNotKnow() {
        server();
        NvLinkFact up = new NvLinkFact(true, 4, PciAddress.parse("98:00.0"), NvLink.Kind.GPU);
        NvLinkFact back = new NvLinkFact(true, 4, PciAddress.parse("18:00.0"), NvLink.Kind.GPU);
        NvLinkFact down = new NvLinkFact(false, 4, null, NvLink.Kind.SWITCH);
        Topology machine =
                look(
                        KnownGpus.of(
                                fact("18:00.0", 1, up, up, down), fact("98:00.0", 0, back, back)));
        assertThat(machine.gpus()).extracting(Gpu::index).containsExactly(0, 1);
        Gpu one = machine.gpus().getLast();
        assertThat(one.uuid()).isEqualTo("GPU-1");
        assertThat(one.name()).isEqualTo("NVIDIA H100");
        assertThat(one.nvLinks())
                .containsExactly(new NvLink(PciAddress.parse("98:00.0"), NvLink.Kind.GPU, 2, 4));
        assertThat(one.nvLinksDown()).isEqualTo(1);
        TopologyPath path = machine.path(one, machine.gpus().getFirst());
        assertThat(path.type()).isEqualTo(PathType.NVL);
        assertThat(path.bandwidth()).isEqualTo(41.2);
        assertThat(machine.remarks()).isEmpty();
    }

    @Test
    void hiddenNvSwitchesAreOne() {
        server();
        NvLinkFact link = new NvLinkFact(true, 4, null, NvLink.Kind.SWITCH);
        Topology machine =
                look(KnownGpus.of(fact("18:00.0", 0, link), fact("98:00.0", 1, link, link)));
        TopologyPath path = machine.path(machine.gpus().getFirst(), machine.gpus().getLast());
        assertThat(path.type()).isEqualTo(PathType.NVL);
        assertThat(path.bandwidth()).as("the GPU with one link").isEqualTo(20.6);
        assertThat(path.nodes().get(1)).isEqualTo(new NvSwitch("nvswitch", 0, List.of()));
    }

    @Test
    void aGpuThatTheBusHidesIsThere() {
        tree.intel(85).numaNode(0, "0-3", "10");
        Topology machine = look(KnownGpus.of(fact("0000:3b:00.0", 0)));
        assertThat(machine.gpus()).extracting(Gpu::id).containsExactly("0000:3b:00.0");
        assertThat(machine.gpus().getFirst().pci().link()).isEqualTo(PcieLink.UNKNOWN);
    }

    @Test
    void theBusKnowsBestWhatALinkLeadsTo() {
        server();
        NvLinkFact link = new NvLinkFact(true, 4, PciAddress.parse("98:00.0"), NvLink.Kind.SWITCH);
        Topology machine = look(KnownGpus.of(fact("18:00.0", 0, link)));
        assertThat(machine.gpus().getFirst().nvLinks())
                .extracting(NvLink::kind)
                .containsExactly(NvLink.Kind.GPU);
    }

    @Test
    void aLibraryThatIsMissingMattersToItsGpusOnly() {
        GpuFacts missing = new KnownGpus(List.of(), Optional.of("NVML is missing: install it"));
        assertThat(Machine.look(folder, Map.of(), missing).remarks())
                .singleElement()
                .asString()
                .contains("no GPU", "NVML is missing: install it");
        tree.pci("pci0000:00/0000:00:1c.0", "0x038000", "0x1002");
        assertThat(Machine.look(folder, Map.of(), missing).remarks()).isEmpty();
        tree.pci("pci0000:00/0000:00:1d.0", "0x030200", NVIDIA);
        assertThat(Machine.look(folder, Map.of(), missing).remarks())
                .containsExactly("NVML is missing: install it");
    }

    @Test
    void withoutGpusOneLineSaysSo() {
        tree.intel(85).numaNode(0, "0-3", "10");
        Topology machine = look();
        assertThat(machine.gpus()).isEmpty();
        assertThat(machine.remarks()).singleElement().asString().contains("no GPU");
    }

    @Test
    void aVirtualMachineWithOneNumaNodeNeedsNotNameIt() {
        tree.intel(85).numaNode(0, "0-7", "10");
        tree.pci("pci0000:00/0000:00:1c.0", "0x030200", NVIDIA)
                .numa(-1)
                .speed("Unknown", 255, "Unknown", 255);
        tree.pci("pci0000:00/0000:00:03.0", "0x020000", "0x1af4")
                .numa(-1)
                .netdev("eth0", "/virtio2", -1, "up");
        Topology machine = look();
        assertThat(machine.numaNodes()).extracting(NumaNode::numa).containsExactly(0);
        Gpu gpu = machine.gpus().getFirst();
        NicPort port = machine.ports().getFirst();
        assertThat(machine.path(gpu, port).type()).isEqualTo(PathType.PHB);
        assertThat(gpu.pci().link()).isEqualTo(PcieLink.UNKNOWN);
        assertThat(port.mbps()).isZero();
        assertThat(port.bandwidth()).isEqualTo(1.25);
        assertThat(port.fabric()).isEqualTo(Fabric.ETHERNET);
    }

    @Test
    void amongSeveralNumaNodesTheDevicesCpusDecide() {
        tree.intel(85).numaNode(0, "0-3", "10 20").numaNode(1, "4-7", "20 10");
        tree.pci("pci0000:00/0000:00:1c.0", "0x030200", NVIDIA)
                .numa(-1)
                .file("local_cpulist", "4-7");
        tree.pci("pci0000:00/0000:00:1d.0", "0x030200", NVIDIA)
                .numa(-1)
                .file("local_cpulist", "0-7");
        Topology machine = look();
        assertThat(machine.numaNode(machine.gpus().getFirst()).orElseThrow().numa()).isEqualTo(1);
        assertThat(machine.numaNode(machine.gpus().getLast())).isEmpty();
        assertThat(machine.path(machine.gpus().getFirst(), machine.gpus().getLast()).type())
                .isEqualTo(PathType.SYS);
    }

    @Test
    void memoryOfAGpuIsNoPlaceForThreads() {
        tree.file("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f");
        tree.numaNode(0, "0-71", "10 80").numaNode(1, "", "80 10");
        Topology machine = look();
        assertThat(machine.numaNodes()).extracting(NumaNode::numa).containsExactly(0);
        assertThat(machine.numaNodes().getFirst().cpu().arch()).isEqualTo("arm64");
    }

    @Test
    void switchesBelowSwitchesAreFollowed() {
        tree.intel(106).numaNode(0, "0-3", "10");
        String path = "pci0000:00/0000:00:01.0";
        for (int bus = 1; bus <= 4; bus++) {
            path += "/0000:%02x:00.0".formatted(bus);
        }
        for (String at = path; at.contains("/"); at = at.substring(0, at.lastIndexOf('/'))) {
            tree.bridge(at);
        }
        tree.pci(path + "/0000:05:00.0", "0x030200", NVIDIA);
        tree.bridge("pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0");
        tree.pci(
                "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:06:00.0",
                "0x030200",
                NVIDIA);
        Topology machine = look();
        TopologyPath between = machine.path(machine.gpus().getFirst(), machine.gpus().getLast());
        assertThat(between.type()).isEqualTo(PathType.PXB);
        assertThat(between.nodes().stream().map(Node::id))
                .containsExactly("0000:05:00.0", "0000:03:00.0", "0000:01:00.0", "0000:06:00.0");
    }

    @Test
    void twoLevelsOfBroadcomAreOneSwitch() {
        tree.intel(143).numaNode(0, "0-3", "10");
        String outer = "pci0000:00/0000:00:01.0/0000:01:00.0";
        tree.bridge("pci0000:00/0000:00:01.0");
        broadcom(outer, "0x0004");
        broadcom(outer + "/0000:02:00.0", "0x0004");
        broadcom(outer + "/0000:02:00.0/0000:03:00.0", "0x1004");
        broadcom(outer + "/0000:02:00.0/0000:03:00.0/0000:04:00.0", "0x1004");
        tree.pci(
                outer + "/0000:02:00.0/0000:03:00.0/0000:04:00.0/0000:05:00.0", "0x030200", NVIDIA);
        broadcom(outer + "/0000:02:01.0", "0x0004");
        tree.pci(outer + "/0000:02:01.0/0000:06:00.0", "0x030200", NVIDIA);
        Topology machine = look();
        TopologyPath between = machine.path(machine.gpus().getFirst(), machine.gpus().getLast());
        assertThat(between.type()).isEqualTo(PathType.PIX);
        assertThat(between.nodes().get(1).id()).isEqualTo("0000:01:00.0");
    }

    private void broadcom(String path, String subsystem) {
        tree.pci(path, "0x060400", "0x1000")
                .file("device", "0xc030")
                .file("subsystem_device", subsystem);
    }

    @Test
    void portsOfOneFunctionAndInterfacesWithoutADevice() {
        tree.intel(85).numaNode(0, "0-3", "10");
        tree.pci("pci0000:00/0000:00:03.0", "0x020700", MELLANOX)
                .rdma(
                        "mlx4_0",
                        "0002:c903:0000:1000",
                        "InfiniBand",
                        "40 Gb/sec (4X FDR10)",
                        "4: ACTIVE",
                        "1: DOWN");
        tree.pci("pci0000:00/0000:00:04.0", "0x020000", MELLANOX)
                .netdev("ens4", "", 25_000, "up")
                .netdev("ens4_0", "", 25_000, "up");
        tree.file("/sys/devices/pci0000:00/0000:00:04.0/net/ens4_0/phys_port_name", "pf0vf0");
        tree.file("/sys/devices/virtual/net/lo/type", "772")
                .link("/sys/class/net/lo", "/sys/devices/virtual/net/lo")
                .file("/sys/devices/virtual/net/docker0/type", "1")
                .link("/sys/class/net/docker0", "/sys/devices/virtual/net/docker0");
        // RDMA in software over the interface of a card, and an interface on no PCI bus.
        tree.file("/sys/devices/virtual/infiniband/rxe0/parent", "ens4")
                .link("/sys/class/infiniband/rxe0", "/sys/devices/virtual/infiniband/rxe0");
        String vmbus = "/sys/devices/LNXSYSTM:00/VMBUS:01/aa-bb";
        tree.file(vmbus + "/net/eth1/type", "1")
                .file(vmbus + "/net/eth1/speed", "50000")
                .file(vmbus + "/net/eth1/operstate", "up")
                .link(vmbus + "/net/eth1/device", vmbus)
                .link("/sys/class/net/eth1", vmbus + "/net/eth1");
        Topology machine = look();
        assertThat(machine.ports())
                .extracting(NicPort::name)
                .containsExactlyInAnyOrder("mlx4_0:1", "mlx4_0:2", "rxe0", "eth1");
        NicPort second = Machines.port(machine, "mlx4_0:2");
        assertThat(second.port()).isEqualTo(2);
        assertThat(second.fabric()).isEqualTo(Fabric.INFINIBAND);
        assertThat(second.mbps()).isEqualTo(40_000);
        assertThat(second.state()).isEqualTo(State.DOWN);
        assertThat(Machines.port(machine, "rxe0").netdev()).isEqualTo("ens4");
        NicPort bare = Machines.port(machine, "eth1");
        assertThat(((Nic) machine.parent(bare).orElseThrow()).pci()).isNull();
        assertThat(machine.numaNode(bare)).hasValue(machine.numaNodes().getFirst());
    }

    @Test
    void portsHaveTheAddressesOfTheirTables() {
        tree.intel(85).numaNode(0, "0-3", "10");
        tree.pci("pci0000:00/0000:00:03.0", "0x020000", MELLANOX)
                .rdma("mlx5_0", "1", "Ethernet", "400 Gb/sec (4X NDR)", "4: ACTIVE")
                .gid("mlx5_0", 1, 0, "fe80:0000:0000:0000:0ac0:ebff:fe00:0001", "IB/RoCE v1")
                .gid("mlx5_0", 1, 1, "fe80:0000:0000:0000:0ac0:ebff:fe00:0001", "RoCE v2")
                .gid("mlx5_0", 1, 2, "0000:0000:0000:0000:0000:0000:0000:0000", "")
                .gid("mlx5_0", 1, 3, "fd00:0000:0000:0000:0000:0000:0000:0007", "RoCE v2")
                .gid("mlx5_0", 1, 4, "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1")
                .gid("mlx5_0", 1, 5, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2");
        tree.pci("pci0000:00/0000:00:04.0", "0x020700", MELLANOX)
                .rdma("mlx5_1", "2", "InfiniBand", "200 Gb/sec (4X HDR)", "1: DOWN", "4: ACTIVE")
                .gid("mlx5_1", 2, 0, "fe80:0000:0000:0000:506b:4b03:00ab:cdef", "IB/RoCE v1");
        tree.file("/sys/class/infiniband/mlx5_1/ports/2/lid", "0x1f");
        tree.pci("pci0000:00/0000:00:05.0", "0x020000", "0x1d0f")
                .rdma("rdmap0", "3", "Unspecified", "100 Gb/sec (4X EDR)", "4: ACTIVE");
        tree.file("/sys/class/infiniband/rdmap0/node_type", "7: <unknown>");
        tree.file("/sys/devices/virtual/infiniband/rxe0/parent", "veth0")
                .file("/sys/devices/virtual/infiniband/rxe0/ports/1/state", "4: ACTIVE")
                .link("/sys/class/infiniband/rxe0", "/sys/devices/virtual/infiniband/rxe0");

        Topology machine = look();
        NicPort roce = Machines.port(machine, "mlx5_0");
        assertThat(roce.gids())
                .extracting(Gid::index, Gid::type, Gid::address)
                .containsExactly(
                        tuple(0, Gid.Type.ROCE_V1, "fe80:0:0:0:ac0:ebff:fe00:1"),
                        tuple(1, Gid.Type.ROCE_V2, "fe80:0:0:0:ac0:ebff:fe00:1"),
                        tuple(3, Gid.Type.ROCE_V2, "fd00:0:0:0:0:0:0:7"),
                        tuple(4, Gid.Type.ROCE_V1, "10.0.0.1"),
                        tuple(5, Gid.Type.ROCE_V2, "10.0.0.1"));
        assertThat(roce.gid()).hasValue(roce.gids().getLast());
        NicPort second = Machines.port(machine, "mlx5_1:2");
        assertThat(second.lid()).isEqualTo(31);
        assertThat(second.gid().orElseThrow().type()).isEqualTo(Gid.Type.INFINIBAND);
        assertThat(Machines.port(machine, "rdmap0").fabric()).isEqualTo(Fabric.OTHER_RDMA);
        NicPort software = Machines.port(machine, "rxe0");
        assertThat(software.fabric()).isEqualTo(Fabric.ROCE);
        assertThat(software.state()).isEqualTo(State.UP);
        assertThat(software.netdev()).isEqualTo("veth0");
        String written = machine.toXml();
        XmlTest.assertThatNcclTakes(written);
        assertThat(Topology.fromXml(written).ports()).isEqualTo(machine.ports());
    }

    @Test
    void whatANcclsParserCannotTakeOfATableIsLeftOut() {
        List<Gid> table = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            String address = "fd00:1111:2222:3333:4444:5555:6666:%x777".formatted(i + 1);
            table.add(new Gid(2 * i, Gid.Type.ROCE_V1, address));
            table.add(new Gid(2 * i + 1, Gid.Type.ROCE_V2, address));
        }
        table.add(new Gid(20, Gid.Type.ROCE_V2, "10.0.0.1"));
        String written = Gid.write(table);
        assertThat(written.length()).isBetween(200, 255);
        assertThat(Gid.read(written))
                .isSubsetOf(table)
                .allMatch(gid -> gid.type() == Gid.Type.ROCE_V2)
                .contains(table.getLast());
    }

    @Test
    void anEmptyRootIsAMachineOfWhichNothingIsKnown(@TempDir Path empty) {
        Topology machine = Machine.look(empty, Map.of(), KnownGpus.of());
        assertThat(machine.numaNodes()).hasSize(1);
        assertThat(machine.ports()).isEmpty();
        assertThat(machine.remarks()).isNotEmpty();
    }

    @Test
    void theMachineThatThisRunsOn() throws SocketException {
        assumeTrue(Files.isDirectory(Path.of("/sys/devices/system/cpu")), "needs /sys");
        Topology machine = Topology.here();
        XmlTest.assertThatNcclTakes(machine.toXml());
        assertThat(Topology.fromXml(machine.toXml()).nodes()).isEqualTo(machine.nodes());
        assertThat(machine.numaNodes()).isNotEmpty();
        int cpus = machine.numaNodes().stream().mapToInt(node -> node.cpus().size()).sum();
        assertThat(cpus).isGreaterThanOrEqualTo(Runtime.getRuntime().availableProcessors());
        for (NicPort port : machine.ports()) {
            if (!port.netdev().isEmpty()) {
                assertThat(NetworkInterface.getByName(port.netdev())).isNotNull();
            }
            for (Node other : machine.nodes()) {
                assertThat(machine.path(port, other).type())
                        .isEqualTo(machine.path(other, port).type());
            }
        }
        List<Node> roots = new ArrayList<>(machine.nodes());
        roots.removeIf(node -> machine.parent(node).isPresent());
        assertThat(roots).allMatch(n -> n instanceof NumaNode || n instanceof NvSwitch);
    }
}

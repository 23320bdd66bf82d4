package io.telpher.topology;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// `NCCL_TOPO_FILE`, and the file that clouds put in its place: it says how devices hang together,
/// the machine which there are.
class TopologyFileTest {
    @TempDir Path folder;
    private Path root;

    /// Two GPUs, a card for each and one more, on one flat bus.
    @BeforeEach
    void flatMachine() throws IOException {
        root = Files.createDirectory(folder.resolve("root"));
        SysfsTree tree = new SysfsTree(root).intel(106).numaNode(0, "0-7", "10");
        for (int i = 1; i <= 2; i++) {
            tree.pci("pci000" + i + ":00/000" + i + ":00:00.0", "0x030200", "0x10de").numa(-1);
            tree.pci("pci010" + i + ":00/010" + i + ":00:00.0", "0x020700", "0x15b3")
                    .numa(-1)
                    .rdma(
                            "mlx5_ib" + i,
                            "0015:5dff:fe33:000" + i,
                            "InfiniBand",
                            "200 Gb/sec (4X HDR)",
                            "4: ACTIVE");
        }
        tree.pci("pci0200:00/0200:00:00.0", "0x020000", "0x15b3")
                .numa(-1)
                .netdev("eth1", "", 50_000, "up");
    }

    private static final String FILE =
            """
            <system version="1">
              <cpu numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
                <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
                  <pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
                  <pci busid="0101:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
                </pci>
                <pci busid="ffff:ff:02.0" class="0x060400" link_speed="16 GT/s" link_width="16">
                  <pci busid="0002:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
                  <pci busid="0102:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
                </pci>
                <pci busid="ffff:ff:03.0" class="0x060400" link_speed="16 GT/s" link_width="16">
                  <pci busid="0003:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16">
                    <gpu dev="2" sm="80" rank="2" gdr="1"/>
                  </pci>
                </pci>
              </cpu>
            </system>
            """;

    private Topology look(Map<String, String> environment) {
        return Machine.look(root, environment, KnownGpus.of());
    }

    private static void assertThatTheFileCounts(Topology machine) {
        assertThat(machine.gpus())
                .extracting(Gpu::id)
                .as("the third one is not in this machine")
                .containsExactly("0001:00:00.0", "0002:00:00.0");
        for (int i = 0; i < 2; i++) {
            Gpu gpu = machine.gpus().get(i);
            List<NicPort> rails = machine.nearestPorts(gpu);
            assertThat(Machines.names(rails)).containsExactly("mlx5_ib" + (i + 1));
            TopologyPath path = machine.path(gpu, rails.getFirst());
            assertThat(path.type()).isEqualTo(PathType.PIX);
            assertThat(path.bandwidth()).isEqualTo(24);
        }
        NicPort other = Machines.port(machine, "eth1");
        assertThat(machine.path(machine.gpus().getFirst(), other).type())
                .as("the file does not know it")
                .isEqualTo(PathType.PHB);
        assertThat(machine.nodes()).noneMatch(node -> node.id().equals("ffff:ff:03.0"));
        assertThat(machine.remarks()).isEmpty();
    }

    @Test
    void theVariableNamesAFile() throws IOException {
        Path file = Files.writeString(folder.resolve("topology.xml"), FILE);
        assertThatTheFileCounts(look(Map.of("NCCL_TOPO_FILE", file.toString())));
    }

    @Test
    void cloudsPutAFileInItsPlace() throws IOException {
        Path file = root.resolve("var/run/nvidia-topologyd/virtualTopology.xml");
        Files.createDirectories(file.getParent());
        Files.writeString(file, FILE);
        assertThatTheFileCounts(look(Map.of()));
        Path none = Files.writeString(folder.resolve("none.xml"), "<system version=\"1\"/>");
        Topology other = look(Map.of("NCCL_TOPO_FILE", none.toString()));
        assertThat(other.nodes())
                .as("the variable goes first")
                .noneMatch(PciBridge.class::isInstance);
    }

    @Test
    void withoutAFileTheBusIsFlat() {
        Topology machine = look(Map.of());
        Gpu gpu = machine.gpus().getFirst();
        assertThat(machine.path(gpu, machine.ports().getFirst()).type()).isEqualTo(PathType.PHB);
        assertThat(machine.nearestPorts(gpu)).hasSize(2);
    }

    @Test
    void aDumpOfAnotherHostStandsForThisOne() throws IOException {
        String dump = FILE.replace("numaid=\"0\"", "host_hash=\"0xabc\" numaid=\"3\"");
        Path file = Files.writeString(folder.resolve("dump.xml"), dump);
        Topology machine = look(Map.of("NCCL_TOPO_FILE", file.toString()));
        assertThat(machine.numaNodes()).extracting(NumaNode::numa).containsExactly(3, 0);
        assertThat(machine.nodes()).extracting(Node::host).containsOnly(0);
        assertThat(machine.path(machine.gpus().getFirst(), machine.ports().getFirst()).type())
                .isEqualTo(PathType.PIX);
    }

    @Test
    void whatTheFileSaysOfADeviceGoesFirst() throws IOException {
        String file =
                FILE.replace("busid=\"0101:00:00.0\"", "busid=\"0101:00:00.0\" device=\"0xaaaa\"");
        Path path = Files.writeString(folder.resolve("topology.xml"), file);
        Topology machine = look(Map.of("NCCL_TOPO_FILE", path.toString()));
        Nic nic = (Nic) machine.parent(Machines.port(machine, "mlx5_ib1")).orElseThrow();
        assertThat(nic.pci().device()).isEqualTo("0xaaaa");
        assertThat(nic.pci().vendor()).as("the file does not say it").isEqualTo("0x15b3");
    }

    @Test
    void aFileThatCannotBeUsedCostsARemark() throws IOException {
        String plain = look(Map.of()).toXml();
        Path missing = folder.resolve("missing.xml");
        Topology one = look(Map.of("NCCL_TOPO_FILE", missing.toString()));
        assertThat(one.remarks())
                .singleElement()
                .asString()
                .contains("NCCL_TOPO_FILE=" + missing, "no such file");
        assertThat(one.toXml()).isEqualTo(plain);
        Topology folderNamed = look(Map.of("NCCL_TOPO_FILE", folder.toString()));
        assertThat(folderNamed.remarks()).singleElement().asString().contains("no regular file");
        Path broken = Files.writeString(folder.resolve("broken.xml"), "<system version=\"1\">");
        Topology other = look(Map.of("NCCL_TOPO_FILE", broken.toString()));
        assertThat(other.remarks())
                .singleElement()
                .asString()
                .contains(broken.toString(), "no XML");
        assertThat(other.toXml()).isEqualTo(plain);
        Path wrong =
                Files.writeString(
                        folder.resolve("wrong.xml"),
                        FILE.replace("affinity=\"ff\"", "affinity=\"all\""));
        Topology third = look(Map.of("NCCL_TOPO_FILE", wrong.toString()));
        assertThat(third.remarks()).singleElement().asString().contains("'all' is no mask");
        assertThat(third.toXml()).isEqualTo(plain);
    }
}

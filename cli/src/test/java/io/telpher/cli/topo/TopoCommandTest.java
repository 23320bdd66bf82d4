package io.telpher.cli.topo;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.Json;
import io.telpher.topology.PathType;
import io.telpher.topology.Topology;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringReader;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;
import org.xml.sax.InputSource;
import org.xml.sax.SAXException;
import picocli.CommandLine;

class TopoCommandTest {
    private static final String MACHINE =
            """
            <system version="1">
              <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106" modelname="A &lt;CPU&gt;">
                <pci busid="0000:16:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16" root="pci0000:15">
                  <pci busid="0000:18:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16" current_link_speed="2.5 GT/s PCIe" current_link_width="16">
                    <gpu dev="0" sm="80" rank="0" gdr="1" name="A100 &amp; more" nvlinks_down="2">
                      <nvlink target="0000:98:00.0" count="4" tclass="0x030200"/>
                    </gpu>
                  </pci>
                  <pci busid="0000:19:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
                    <nic>
                      <net name="mlx5_0" dev="0" speed="200000" port="1" guid="0xab" fabric="infiniband" state="up"/>
                    </nic>
                  </pci>
                </pci>
              </cpu>
              <cpu numaid="1" affinity="ffff0000" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
                <pci busid="0000:98:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
                  <gpu dev="1" sm="80" rank="1" gdr="1">
                    <nvlink target="0000:18:00.0" count="4" tclass="0x030200"/>
                    <c2c bw="20000" count="10"/>
                  </gpu>
                </pci>
                <nic>
                  <net name="eth0" dev="1" fabric="ethernet" netdev="eth0" state="down"/>
                </nic>
              </cpu>
            </system>
            """;

    @TempDir Path folder;
    private final StringWriter output = new StringWriter();
    private final StringWriter errors = new StringWriter();

    private int run(String... arguments) {
        return new CommandLine(new TopoCommand())
                .setOut(new PrintWriter(output))
                .setErr(new PrintWriter(errors))
                .execute(arguments);
    }

    private String machine() throws IOException {
        return Files.writeString(folder.resolve("machine.xml"), MACHINE).toString();
    }

    @Test
    void theMatrixIsLikeNvidiaSmis() throws IOException {
        assertThat(run("--from", machine())).isZero();
        assertThat(errors.toString()).isEmpty();
        assertThat(output.toString().lines().limit(13))
                .containsExactly(
                        "      GPU0  GPU1  NIC0  NIC1  CPU affinity  NUMA node",
                        "GPU0  X     NVL   PIX   PXN   0-15          0",
                        "GPU1  NVL   X     PXN   P2C   16-31         1",
                        "NIC0  PIX   PXN   X     SYS   0-15          0",
                        "NIC1  PXN   P2C   SYS   X     16-31         1",
                        "",
                        "X    itself",
                        "NVL  " + PathType.NVL.meaning(),
                        "PIX  " + PathType.PIX.meaning(),
                        "P2C  " + PathType.P2C.meaning(),
                        "PXN  " + PathType.PXN.meaning(),
                        "SYS  " + PathType.SYS.meaning(),
                        "");
    }

    @Test
    void portsForRdmaAreRails() throws IOException {
        String gids = " gids=\"0:v2:fe80:0:0:0:1:2:3:4 3:v2:10.0.0.1\"";
        String rdma = MACHINE.replace("name=\"mlx5_0\"", "name=\"mlx5_0\"" + gids);
        assertThat(rdma).isNotEqualTo(MACHINE);
        Path file = Files.writeString(folder.resolve("rdma.xml"), rdma);
        assertThat(run("--from", file.toString())).isZero();
        assertThat(output.toString().lines())
                .anyMatch(l -> l.matches("RAIL +DEVICE +INTERFACE +FABRIC +SPEED +GID .*"))
                .anyMatch(
                        l ->
                                l.matches(
                                        "NIC0 +mlx5_0 .*InfiniBand +200 Gb/s +10.0.0.1 \\(index 3\\).*"));
    }

    @Test
    void belowTheMatrixAreTheNearestNicsAndTheTree() throws IOException {
        assertThat(run("--from", machine())).isZero();
        assertThat(output.toString().lines().skip(13))
                .containsExactly(
                        "GPU0 is nearest to NIC0 mlx5_0 (PIX, 24.0 GB/s)",
                        "GPU1 is nearest to NIC0 mlx5_0 (PXN, 24.0 GB/s)",
                        "",
                        "NUMA 0  CPUs 0-15  A <CPU>",
                        "└─ switch  0000:16:00.0 of pci0000:15  Gen4 x16",
                        "   ├─ GPU0  A100 & more  sm80  0000:18:00.0  Gen4 x16 (now Gen1 x16)"
                                + "  4 NVLinks  (2 more are down)",
                        "   └─ network card  0000:19:00.0  Gen4 x16",
                        "      └─ NIC0  mlx5_0  InfiniBand  200 Gb/s  up",
                        "NUMA 1  CPUs 16-31  GenuineIntel  x86_64",
                        "├─ GPU1  sm80  0000:98:00.0  Gen4 x16  4 NVLinks  C2C 200.0 GB/s",
                        "└─ network card, not on the PCI bus",
                        "   └─ NIC1  eth0  Ethernet  speed unknown  down");
    }

    @Test
    void jsonHasNodesLinksAndPaths() throws IOException {
        assertThat(run("--from", machine(), "--json")).isZero();
        List<Map<String, Object>> lines = output.toString().lines().map(Json::parse).toList();
        Map<String, Object> gpu = line(lines, "kind", "gpu");
        assertThat(gpu)
                .containsEntry("id", "0000:18:00.0")
                .containsEntry("label", "GPU0")
                .containsEntry("parent", "0000:16:00.0")
                .containsEntry("cpus", "0-15")
                .containsEntry("max_GTps", 16L)
                .containsEntry("current_GTps", 2.5)
                .containsEntry("below_maximum", true)
                .containsEntry("nvlinks", 4L)
                .containsEntry("nearest_ports", "mlx5_0");
        assertThat(line(lines, "id", "mlx5_0")).containsEntry("nearest_gpus", "0000:18:00.0");
        assertThat(line(lines, "kind", "link")).containsKeys("a", "b", "over", "GBps");
        assertThat(lines.stream().filter(l -> "path".equals(l.get("kind")))).hasSize(4 * 3);
        assertThat(lines)
                .anySatisfy(
                        l ->
                                assertThat(l)
                                        .containsEntry("from", "0000:98:00.0")
                                        .containsEntry("to", "mlx5_0")
                                        .containsEntry("type", "PXN")
                                        .containsEntry("GBps", 24L)
                                        .containsEntry(
                                                "nodes",
                                                "0000:98:00.0,0000:18:00.0,0000:16:00.0,"
                                                        + "0000:19:00.0,mlx5_0"));
    }

    private static Map<String, Object> line(
            List<Map<String, Object>> lines, String key, String value) {
        return lines.stream().filter(l -> value.equals(l.get(key))).findFirst().orElseThrow();
    }

    @Test
    void xmlGoesToTheOutputOrToAFile() throws IOException {
        assertThat(run("--from", machine(), "--xml")).isZero();
        assertThat(output.toString()).isEqualTo(MACHINE);
        Path copy = folder.resolve("copy.xml");
        assertThat(run("--xml", copy.toString(), "--from", machine())).isZero();
        assertThat(copy).hasContent(MACHINE);
        assertThat(output.toString()).as("nothing more").isEqualTo(MACHINE);
    }

    @Test
    void theDrawingShowsEveryNodeAndNeedsNothing()
            throws IOException, ParserConfigurationException, SAXException {
        Path file = folder.resolve("machine.svg");
        assertThat(run("--from", machine(), "--svg", file.toString())).isZero();
        assertThat(output.toString()).isEmpty();
        String svg = Files.readString(file);
        assertThat(svg).contains("GPU0", "NIC0  mlx5_0", "NUMA 1", "A100 &amp; more", "200.0 GB/s");
        assertThat(svg.replace("http://www.w3.org/2000/svg", ""))
                .doesNotContain("http", "href", "<script", "<image", "url(", "@import");
        Document drawing = parse(svg);
        assertThat(drawing.getElementsByTagName("path").getLength())
                .as("one NVLink, one C2C")
                .isEqualTo(2);
        boxesAreInsideTheirPicture(drawing);
    }

    private static Document parse(String svg)
            throws IOException, ParserConfigurationException, SAXException {
        return DocumentBuilderFactory.newDefaultInstance()
                .newDocumentBuilder()
                .parse(new InputSource(new StringReader(svg)));
    }

    /// Boxes lie inside of each other or apart, and all in the picture.
    private static void boxesAreInsideTheirPicture(Document drawing) {
        int width = number(drawing.getDocumentElement(), "width");
        int height = number(drawing.getDocumentElement(), "height");
        NodeList boxes = drawing.getElementsByTagName("rect");
        for (int i = 1; i < boxes.getLength(); i++) {
            Element box = (Element) boxes.item(i);
            int right = number(box, "x") + number(box, "width");
            int bottom = number(box, "y") + number(box, "height");
            assertThat(right).isBetween(1, width);
            assertThat(bottom).isBetween(1, height);
            for (int k = i + 1; k < boxes.getLength(); k++) {
                Element other = (Element) boxes.item(k);
                int x = number(other, "x");
                int y = number(other, "y");
                boolean apart =
                        x >= right
                                || y >= bottom
                                || x + number(other, "width") <= number(box, "x")
                                || y + number(other, "height") <= number(box, "y");
                boolean inside =
                        x > number(box, "x")
                                && y > number(box, "y")
                                && x + number(other, "width") < right
                                && y + number(other, "height") < bottom;
                assertThat(apart || inside).as("boxes %d and %d", i, k).isTrue();
            }
        }
    }

    private static int number(Element element, String attribute) {
        return Integer.parseInt(element.getAttribute(attribute));
    }

    @Test
    void severalFilesAtOnceButOneOutput() throws IOException {
        String xml = folder.resolve("a.xml").toString();
        String svg = folder.resolve("a.svg").toString();
        assertThat(run("--from", machine(), "--xml", xml, "--svg", svg, "--json")).isZero();
        assertThat(Path.of(xml)).isNotEmptyFile();
        assertThat(Path.of(svg)).isNotEmptyFile();
        assertThat(output.toString()).startsWith("{");
        assertThat(run("--json", "--xml")).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).contains("one of them");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "<graphs/>", "<system version=\"1\"><cpu/></system>"})
    void aFileThatIsNoTopologyIsNamed(String text) throws IOException {
        Path file = Files.writeString(folder.resolve("other.xml"), text);
        assertThat(run("--from", file.toString())).isEqualTo(CommandLine.ExitCode.SOFTWARE);
        assertThat(errors.toString()).contains("telpher topo: " + file).doesNotContain("\tat ");
        assertThat(output.toString()).isEmpty();
    }

    @Test
    void filesThatCannotBeReadOrWrittenAreNamed() throws IOException {
        Path missing = folder.resolve("missing.xml");
        assertThat(run("--from", missing.toString())).isEqualTo(CommandLine.ExitCode.SOFTWARE);
        assertThat(errors.toString()).contains(missing + ": no such file");
        Path nowhere = folder.resolve("no/folder.svg");
        assertThat(run("--from", machine(), "--svg", nowhere.toString()))
                .isEqualTo(CommandLine.ExitCode.SOFTWARE);
        assertThat(errors.toString()).contains(nowhere + ": no such file or folder");
    }

    @Test
    void thisMachineIsShown() throws IOException {
        assertThat(run()).isZero();
        assertThat(output.toString()).contains("NUMA ", "CPUs ");
        if (Topology.here().gpus().isEmpty()) {
            assertThat(output.toString().lines().filter(line -> line.startsWith("note: ")))
                    .as("what is missing for GPUs")
                    .hasSize(1);
        }
        Path file = folder.resolve("here.xml");
        assertThat(run("--xml", file.toString())).isZero();
        assertThat(run("--from", file.toString())).isZero();
    }
}

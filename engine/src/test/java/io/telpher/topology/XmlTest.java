package io.telpher.topology;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/// Reading and writing NCCL's XML.
class XmlTest {
    @ParameterizedTest
    @MethodSource("io.telpher.topology.Machines#all")
    void whatIsWrittenIsReadAsTheSame(String name) throws IOException {
        Topology machine = Machines.load(name);
        Topology again = Topology.fromXml(machine.toXml());
        assertThat(again.nodes()).isEqualTo(machine.nodes());
        assertThat(again.links()).isEqualTo(machine.links());
        assertThat(again.toXml()).isEqualTo(machine.toXml());
    }

    @ParameterizedTest
    @MethodSource("io.telpher.topology.Machines#all")
    void whatIsWrittenIsWhatWasReadButForComments(String name) throws IOException {
        String original = Machines.xml(name).replaceAll("(?s)<!--.*?-->\n", "");
        assertThat(Machines.load(name).toXml()).isEqualTo(original);
    }

    /// NCCL's own parser is stricter than XML.
    static void assertThatNcclTakes(String xml) {
        assertThat(xml.lines())
                .allMatch(line -> line.matches(" *<(/[a-z0-9]+|[a-z0-9]+( \\w+=\"[^\"]*\")*/?)>"))
                .allMatch(line -> line.chars().filter(c -> c == '=').count() <= 16);
        assertThat(xml).startsWith("<system version=\"1\"").endsWith("</system>\n");
    }

    @ParameterizedTest
    @MethodSource("io.telpher.topology.Machines#all")
    void ncclTakesWhatIsWritten(String name) throws IOException {
        assertThatNcclTakes(Machines.load(name).toXml());
    }

    @Test
    void whatIsNotUnderstoodIsKept() {
        String xml =
                """
                <system version="1">
                  <cpu numaid="0" affinity="f" arch="x86_64" vendor="AuthenticAMD" future="a&amp;b&quot;">
                    <pci busid="0000:01:00.0" class="0x030200" link_speed="" link_width="0">
                      <gpu dev="0" sm="90" rank="3" gdr="1" mlopart="-1" keep="1"/>
                    </pci>
                  </cpu>
                </system>
                """;
        assertThat(Topology.fromXml(xml).toXml()).isEqualTo(xml);
    }

    @Test
    void unknownElementsAreLeftOutWithWhatIsInThem() {
        Topology machine =
                Topology.fromXml(
                        """
                        <system version="1"><cpu numaid="0"><pci busid="01:00.0" class="0x03">
                        <news><gpu dev="7"/></news><gpu dev="0" sm="90"/></pci></cpu></system>
                        """);
        assertThat(machine.gpus()).extracting(Gpu::index).containsExactly(0);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '~',
            value = {
                "<system version='1'>|no XML",
                "text|no XML",
                "<graphs version='1'/>|<graphs>",
                "<system version='2'/>|version \"2\"",
                "<system/>|version \"\"",
                "<system version='1'><cpu/></system>|<cpu> without numaid",
                "<system version='1'><cpu numaid='x'/></system>|numaid=\"x\" is no number",
                "<system version='1'><cpu numaid='0' affinity='zz'/></system>|'zz' is no mask",
                "<system version='1'><cpu numaid='0'/><cpu numaid='0'/></system>|two devices",
                "<system version='1'><cpu numaid='0'><pci busid='a'><gpu/></pci></cpu></system>"
                        + "|'a' is no PCI address",
                "<!DOCTYPE system [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>"
                        + "<system version='1'/>|no DTD",
                "<system version='1'><cpu numaid='&e;'/></system>|no XML"
            })
    void whatIsNoTopologyIsRefusedWithTheReason(String xml, String reason) {
        assertThatThrownBy(() -> Topology.fromXml(xml))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(reason);
    }

    @Test
    void sizeAndDepthAreBounded() {
        String deep = "<system version='1'><cpu numaid='0'>" + "<pci busid='0:0.0'>".repeat(100);
        assertThatThrownBy(() -> Topology.fromXml(deep)).hasMessageContaining("deeper than");
        String many = "<system version='1'>" + "<x/>".repeat(200_000) + "</system>";
        assertThatThrownBy(() -> Topology.fromXml(many)).hasMessageContaining("more than");
        StringBuilder crowd = new StringBuilder("<system version='1'>");
        for (int i = 0; i < 2000; i++) {
            crowd.append("<cpu numaid='").append(i).append("'/>");
        }
        String numaNodes = crowd.append("</system>").toString();
        assertThatThrownBy(() -> Topology.fromXml(numaNodes))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("2000 elements <cpu>");
        String large = " ".repeat(XmlReader.MAX_CHARACTERS + 1);
        assertThatThrownBy(() -> Topology.fromXml(large)).hasMessageContaining("characters");
    }

    @Test
    void errorsOfAFileNameIt(@TempDir Path folder) throws IOException {
        Path missing = folder.resolve("missing.xml");
        assertThatThrownBy(() -> Topology.read(missing)).isInstanceOf(NoSuchFileException.class);
        Path other = Files.writeString(folder.resolve("other.xml"), "<graphs/>");
        assertThatThrownBy(() -> Topology.read(other))
                .hasMessageContaining(other.toString())
                .hasMessageContaining("<graphs>");
        Path binary = folder.resolve("binary.xml");
        Files.write(binary, "\u00ff".getBytes(StandardCharsets.ISO_8859_1));
        assertThatThrownBy(() -> Topology.read(binary))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("UTF-8");
    }
}

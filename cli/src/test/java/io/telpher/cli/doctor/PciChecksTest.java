package io.telpher.cli.doctor;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.doctor.Finding.Severity;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// Two GPUs behind a PCIe switch, and what stands between them.
class PciChecksTest extends WrittenHost {
    private static final String SWITCH = "0000:16:00.0";
    private static final String FIRST = "0000:18:00.0";
    private static final String SECOND = "0000:19:00.0";

    @BeforeEach
    void machine() throws IOException {
        pci(SWITCH, "0x060400", "0x1000", bridge(0x17, 0x1f, 0));
        pci(FIRST, "0x030200", "0x10de", gpu(true));
        pci(SECOND, "0x030200", "0x10de", gpu(false));
        pci("0000:40:00.0", "0x060400", "0x8086", bridge(0x41, 0x42, 0x1d));
    }

    /// A vendor's capability first, then Access Control Services.
    private static byte[] bridge(int secondary, int subordinate, int control) {
        byte[] config = new byte[4096];
        config[0x19] = (byte) secondary;
        config[0x1a] = (byte) subordinate;
        capability(config, 0x100, 0x000b, 0x148);
        capability(config, 0x148, 0x000d, 0);
        config[0x14e] = (byte) control;
        return config;
    }

    private static byte[] gpu(boolean ats) {
        byte[] config = new byte[4096];
        capability(config, 0x100, 0x000f, 0);
        config[0x107] = (byte) (ats ? 0x80 : 0);
        return config;
    }

    private static void capability(byte[] config, int at, int id, int next) {
        int header = id | 1 << 16 | next << 20;
        for (int i = 0; i < 4; i++) {
            config[at + i] = (byte) (header >>> (8 * i));
        }
    }

    @Test
    void aSwitchThatRedirectsIsToldWithTheCommand() throws IOException {
        assertThat(wrong(examine(new PciCheck()))).isEmpty();
        pci(SWITCH, "0x060400", "0x1000", bridge(0x17, 0x1f, 0x1d));
        Finding finding = onlyWrong(new PciCheck());
        assertThat(finding.summary()).contains("ACS of 1 bridges");
        assertThat(finding.evidence())
                .contains(
                        SWITCH
                                + "/config: ACSCtl = 0x001d (SrcValid ReqRedir CmpltRedir"
                                + " UpstreamFwd)")
                .doesNotContain("0000:40:00.0");
        assertThat(finding.remedy())
                .startsWith("setpci -s " + SWITCH + " ECAP_ACS+0x6.w=0000 ")
                .contains("--only trials");
        assertThat(examine(new PciCheck()))
                .filteredOn(f -> f.summary().startsWith("ATS"))
                .singleElement()
                .satisfies(
                        f -> assertThat(f.summary()).isEqualTo("ATS is on at 1 of 2 GPUs"),
                        f -> assertThat(f.evidence()).contains(FIRST + ": on", SECOND + ": off"));
    }

    @Test
    void withoutPrivilegesTheBusSaysThatItIsHidden() throws IOException {
        byte[] header = new byte[64];
        header[0x19] = 0x17;
        header[0x1a] = 0x1f;
        pci(SWITCH, "0x060400", "0x1000", header);
        assertThat(wrong(examine(new PciCheck()))).isEmpty();
        assertThat(examine(new PciCheck()))
                .anyMatch(f -> f.remedy().startsWith("sudo telpher doctor"))
                .anyMatch(f -> f.evidence().contains(SWITCH + "/config: 64 bytes"));
    }

    @Test
    void whatNoPeerSuffersFromIsNoWarning() throws IOException {
        pci(SWITCH, "0x060400", "0x1000", bridge(0x17, 0x1f, 0x1d));
        Files.delete(at("/sys/bus/pci/devices/" + SECOND + "/class"));
        write("/proc/cpuinfo", "flags\t: fpu hypervisor lahf_lm\n");
        assertThat(examine(new PciCheck()))
                .extracting(f -> f.severity().word() + " " + f.summary())
                .anyMatch(s -> s.startsWith("info ACS is on, but there is no second GPU"))
                .anyMatch(s -> s.startsWith("info a virtual machine"));

        Files.createDirectories(at("/sys/class/iommu/dmar0"));
        assertThat(examine(new IommuCheck()).getFirst().summary())
                .isEqualTo("the IOMMU does not translate for GPUs");
        write("/sys/bus/pci/devices/" + FIRST + "/iommu_group/type", "DMA\n");
        assertThat(examine(new IommuCheck()).getFirst())
                .matches(f -> f.severity() == Severity.INFO)
                .matches(f -> f.summary().contains("translates for the only GPU"));
    }

    @Test
    void capabilitiesThatLeadInACircleEnd() throws IOException {
        byte[] config = bridge(0x17, 0x1f, 0);
        capability(config, 0x148, 0x0001, 0x100);
        pci(SWITCH, "0x060400", "0x1000", config);
        assertThat(examine(new PciCheck())).anyMatch(f -> f.evidence().contains("no ACS"));
    }

    @Test
    void aTranslatingIommuIsTold() throws IOException {
        assertThat(wrong(examine(new IommuCheck()))).isEmpty();
        write("/proc/cmdline", "root=/dev/sda1 intel_iommu=on quiet");
        Files.createDirectories(at("/sys/class/iommu/dmar0"));
        for (String gpu : List.of(FIRST, SECOND)) {
            write("/sys/bus/pci/devices/" + gpu + "/iommu_group/type", "DMA-FQ\n");
        }
        Finding finding = onlyWrong(new IommuCheck());
        assertThat(finding.evidence())
                .contains("dmar0", "intel_iommu=on", FIRST + "/iommu_group/type = DMA-FQ");
        assertThat(finding.remedy()).contains("iommu=pt");
        for (String gpu : List.of(FIRST, SECOND)) {
            write("/sys/bus/pci/devices/" + gpu + "/iommu_group/type", "identity\n");
        }
        assertThat(wrong(examine(new IommuCheck()))).isEmpty();
    }

    /// A root port, a switch with a GPU below, and a NIC beside it.
    @Test
    void aLinkBelowItsMaximumIsTold() throws IOException {
        String above = "pci0000:50/0000:50:01.0/0000:51:00.0";
        plug(above, "0x060400", 16);
        plug(above + "/0000:52:00.0", "0x060400", 16);
        plug(above + "/0000:52:00.0/0000:53:00.0", "0x030200", 4); // the check for GPUs' own links
        plug("pci0000:60/0000:60:01.0", "0x060400", 16);
        plug("pci0000:60/0000:60:01.0/0000:61:00.0", "0x020000", 16);
        assertThat(wrong(examine(new PcieLinksCheck()))).isEmpty();

        write("/sys/devices/" + above + "/current_link_width", "8\n");
        Finding narrow = onlyWrong(new PcieLinksCheck());
        assertThat(narrow.summary())
                .isEqualTo(
                        "the switch at 0000:51:00.0 uses Gen4 x8 of its PCIe link, which could"
                                + " Gen4 x16");
        assertThat(narrow.evidence()).contains("0000:51:00.0/current_link_speed = 16.0 GT/s");
        write("/sys/devices/" + above + "/current_link_width", "16\n");

        String nic = "pci0000:60/0000:60:01.0/0000:61:00.0";
        write("/sys/devices/" + nic + "/current_link_speed", "8.0 GT/s PCIe\n");
        assertThat(onlyWrong(new PcieLinksCheck()).summary())
                .startsWith("the NIC at 0000:61:00.0 uses Gen3 x16");
    }

    private void plug(String path, String kind, int lanes) throws IOException {
        String at = "/sys/devices/" + path + "/";
        write(at + "class", kind + "\n");
        write(at + "vendor", (kind.startsWith("0x03") ? "0x10de" : "0x15b3") + "\n");
        write(at + "max_link_speed", "16.0 GT/s PCIe\n");
        write(at + "max_link_width", "16\n");
        write(at + "current_link_speed", "16.0 GT/s PCIe\n");
        write(at + "current_link_width", lanes + "\n");
        String address = path.substring(path.lastIndexOf('/') + 1);
        Files.createSymbolicLink(
                at("/sys/bus/pci/devices/" + address), Path.of("../../../devices/" + path));
        if (kind.startsWith("0x02")) {
            write(at + "net/eth0/type", "1\n");
            Files.createSymbolicLink(
                    at("/sys/class/net/eth0"), Path.of("../../devices/" + path + "/net/eth0"));
            Files.createSymbolicLink(at(at + "net/eth0/device"), Path.of("../../../" + address));
        }
    }
}

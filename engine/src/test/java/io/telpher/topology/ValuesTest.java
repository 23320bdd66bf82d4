package io.telpher.topology;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.BitSet;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Addresses, sets of CPUs, links: what they read and write.
class ValuesTest {
    @ParameterizedTest
    @CsvSource({
        "0000:3b:00.0,0000:3b:00.0",
        "3b:00.0,0000:3b:00.0",
        "00000000:3B:1f.7,0000:3b:1f.7",
        "10000:e1:00.0,10000:e1:00.0",
        "000F:01:00.0,000f:01:00.0"
    })
    void addressesAreReadInEveryForm(String text, String canonical) {
        assertThat(PciAddress.parse(text)).hasToString(canonical);
        assertThat(PciAddress.parse(canonical)).isEqualTo(PciAddress.parse(text));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "fffffff:ffff:ff", "0000:00:20.0", "0000:00:00.8", "pci0000:00"})
    void whatIsNoAddressIsRefused(String text) {
        assertThatThrownBy(() -> PciAddress.parse(text))
                .isInstanceOf(IllegalArgumentException.class);
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "0|1",
                "0-1|3",
                "0-31,64-95|ffffffff,00000000,ffffffff",
                "48-63|ffff0000,00000000",
                "''|0"
            })
    void listsAndMasksOfCpusAreTheSame(String list, String mask) {
        CpuSet cpus = CpuSet.parseList(list);
        assertThat(cpus.mask()).isEqualTo(mask);
        assertThat(cpus).hasToString(list);
        assertThat(CpuSet.parseMask(mask)).isEqualTo(cpus);
        assertThat(CpuSet.parseMask("00000000," + mask)).isEqualTo(cpus);
    }

    @Test
    void randomSetsOfCpusSurviveBothForms() {
        long seed = System.nanoTime();
        System.out.println("ValuesTest: seed " + seed);
        Random random = new Random(seed);
        for (int round = 0; round < 200; round++) {
            BitSet bits = new BitSet();
            random.ints(random.nextInt(40), 0, 300).forEach(bits::set);
            StringBuilder list = new StringBuilder();
            bits.stream().forEach(cpu -> list.append(list.isEmpty() ? "" : ",").append(cpu));
            CpuSet cpus = CpuSet.parseList(list.toString());
            assertThat(cpus.size()).isEqualTo(bits.cardinality());
            assertThat(CpuSet.parseList(cpus.toString())).as("seed %d", seed).isEqualTo(cpus);
            assertThat(CpuSet.parseMask(cpus.mask())).as("seed %d", seed).isEqualTo(cpus);
            assertThat(bits.stream().allMatch(cpus::contains)).isTrue();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"x", "3-1", "-1", "0-99999999", "1,,x"})
    void whatIsNoListIsRefused(String text) {
        assertThatThrownBy(() -> CpuSet.parseList(text))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining(text);
    }

    @ParameterizedTest
    @CsvSource({
        "16.0 GT/s PCIe,16,24,Gen4 x16",
        "32.0 GT/s PCIe,4,12,Gen5 x4",
        "64.0 GT/s PCIe,16,96,Gen6 x16",
        "8 GT/s,8,6,Gen3 x8",
        "2.5 GT/s PCIe,1,0.1875,Gen1 x1",
        "Unknown,255,12,unknown",
        "'',0,12,unknown",
        "Unknown,8,6,Gen? x8",
        "16.0 GT/s PCIe,0,24,Gen4 x?"
    })
    void pcieLinks(String speed, String width, double bandwidth, String text) {
        PcieLink link = new PcieLink(SysfsText.speed(speed), SysfsText.width(width), 0, 0);
        assertThat(link.bandwidth()).isEqualTo(bandwidth);
        assertThat(link).hasToString(text);
        assertThat(link.belowMaximum()).as("what is unknown is no fault").isFalse();
    }

    @Test
    void aLinkBelowItsMaximumIsNoticed() {
        assertThat(new PcieLink(16, 16, 2.5, 16).belowMaximum()).isTrue();
        assertThat(new PcieLink(16, 16, 16, 8).belowMaximum()).isTrue();
        assertThat(new PcieLink(16, 16, 16, 16).belowMaximum()).isFalse();
        assertThat(new PcieLink(0, 0, 16, 16).belowMaximum()).isFalse();
    }

    @ParameterizedTest
    @CsvSource({"0,20", "60,18", "61,18", "70,20", "80,20", "86,12", "90,20.6", "100,40.1"})
    void nvLinksCarryWhatTheirGenerationDoes(int computeCapability, double bandwidth) {
        assertThat(Bandwidths.nvLink(computeCapability)).isEqualTo(bandwidth);
    }

    @ParameterizedTest
    @CsvSource({
        "x86_64,GenuineIntel,6,79,6",
        "x86_64,GenuineIntel,6,85,10",
        "x86_64,GenuineIntel,6,143,22",
        "x86_64,GenuineIntel,6,207,40",
        "x86_64,AuthenticAMD,175,17,16",
        "x86_64,CentaurHauls,7,91,9",
        "x86_64,'  Shanghai  ',7,59,6",
        "arm64,'',0,0,6",
        "ppc64,'',0,0,32",
        "riscv64,'',0,0,5000"
    })
    void socketsAreJoinedAsTheirKindIs(
            String arch, String vendor, int family, int model, double bandwidth) {
        assertThat(Bandwidths.socket(new NumaNode.Cpu(arch, vendor, family, model, "")))
                .isEqualTo(bandwidth);
    }

    @Test
    void typesAreRankedAsNcclRanksThem() {
        assertThat(PathType.values())
                .extracting(PathType::name)
                .containsExactly(
                        "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET",
                        "DIS");
        assertThat(PathType.PIX.worse(PathType.SYS)).isEqualTo(PathType.SYS);
        assertThat(PathType.SYS.worse(PathType.PIX)).isEqualTo(PathType.SYS);
    }
}

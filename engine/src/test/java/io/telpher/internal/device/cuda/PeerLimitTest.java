package io.telpher.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.topology.PathType;
import io.telpher.topology.Topology;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// NCCL's switches for peer access, and Telpher's.
class PeerLimitTest {
    private static final UUID A = new UUID(1, 1);
    private static final UUID B = new UUID(1, 2);
    private static final UUID C = new UUID(1, 3);

    /// Two GPUs under one PCIe switch, one under another root port.
    private static final String MACHINE =
            """
            <system version="1">
              <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="106">
                <pci busid="0000:10:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
                  <pci busid="0000:11:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
                    <gpu dev="0" sm="80" rank="0" gdr="1" uuid="GPU-%s"/>
                  </pci>
                  <pci busid="0000:12:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
                    <gpu dev="1" sm="80" rank="1" gdr="1" uuid="GPU-%s"/>
                  </pci>
                </pci>
                <pci busid="0000:20:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
                  <gpu dev="2" sm="80" rank="2" gdr="1" uuid="GPU-%s"/>
                </pci>
              </cpu>
            </system>
            """
                    .formatted(A, B, C);

    private static PeerLimit limit(Map<String, String> environment) {
        return PeerLimit.of(environment::get, () -> Topology.fromXml(MACHINE));
    }

    @Test
    void nothingIsLimitedOrLookedAtWithoutASwitch() {
        PeerLimit limit =
                PeerLimit.of(
                        name -> null,
                        () -> {
                            throw new AssertionError("nobody asked for a level");
                        });
        assertThat(limit.refuses(A, C)).isNull();
    }

    @ParameterizedTest
    @CsvSource({
        "NCCL_P2P_DISABLE, 1, no, no",
        "TELPHER_P2P_DISABLE, 1, no, no",
        "NCCL_P2P_DISABLE, 0, yes, yes",
        "NCCL_P2P_DISABLE, true, yes, yes",
        "NCCL_P2P_LEVEL, LOC, no, no",
        "NCCL_P2P_LEVEL, PIX, yes, no",
        "TELPHER_P2P_LEVEL, pix, yes, no",
        "NCCL_P2P_LEVEL, pix, yes, yes",
        "NCCL_P2P_LEVEL, PHB, yes, yes",
        "NCCL_P2P_LEVEL, SYS, yes, yes",
        "NCCL_P2P_LEVEL, 0, no, no",
        "NCCL_P2P_LEVEL, 1, yes, no",
        "NCCL_P2P_LEVEL, 3, yes, yes",
        "NCCL_P2P_LEVEL, 9, yes, yes",
        "NCCL_P2P_LEVEL, nonsense, yes, yes"
    })
    void switchesMeanWhatTheyMeanToNccl(String name, String value, String near, String far) {
        PeerLimit limit = limit(Map.of(name, value));
        assertThat(limit.refuses(A, A)).isNull();
        assertThat(limit.refuses(A, B) == null).isEqualTo(near.equals("yes"));
        String reason = limit.refuses(A, C);
        if (far.equals("yes")) {
            assertThat(reason).isNull();
        } else {
            assertThat(reason).contains(name);
        }
    }

    @Test
    void telphersOwnSwitchComesFirstAndMustMakeSense() {
        assertThat(limit(Map.of("TELPHER_P2P_LEVEL", "SYS", "NCCL_P2P_DISABLE", "1")).most())
                .isEqualTo(PathType.SYS);
        assertThat(limit(Map.of("TELPHER_P2P_DISABLE", "0", "NCCL_P2P_DISABLE", "1")).most())
                .isNull();
        assertThat(limit(Map.of("TELPHER_P2P_DISABLE", "0", "NCCL_P2P_LEVEL", "PIX")).most())
                .isEqualTo(PathType.PIX);
        assertThat(limit(Map.of("TELPHER_P2P_DISABLE", " ", "NCCL_P2P_DISABLE", "1")).most())
                .isEqualTo(PathType.LOC);
        for (String wrong : List.of("P2P_LEVEL=NVLINK", "P2P_DISABLE=true", "P2P_DISABLE=2")) {
            String[] set = ("TELPHER_" + wrong).split("=");
            assertThatThrownBy(() -> limit(Map.of(set[0], set[1])))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("TELPHER_" + wrong)
                    .hasMessageContaining("correct or unset it");
        }
    }

    @Test
    void aGpuThatNobodyKnowsIsRefused() {
        assertThat(limit(Map.of("NCCL_P2P_LEVEL", "PHB")).refuses(A, new UUID(9, 9)))
                .contains("does not know");
    }
}

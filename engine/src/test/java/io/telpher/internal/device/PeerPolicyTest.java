package io.telpher.internal.device;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.internal.device.PeerPolicy.Copier;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// NCCL's switches for how GPUs copy, and Telpher's.
class PeerPolicyTest {
    private static PeerPolicy policy(Map<String, String> environment) {
        return PeerPolicy.of(environment::get);
    }

    /// As in NCCL's source: -1 is no "auto", but another way to turn reads on.
    @ParameterizedTest
    @CsvSource({
        "-2, LOCAL",
        "-1, DESTINATION",
        "0, SOURCE",
        "1, DESTINATION",
        "0x1, DESTINATION",
        "nonsense, LOCAL"
    })
    void readEnable(String value, Copier expected) {
        assertThat(policy(Map.of("NCCL_P2P_READ_ENABLE", value)).copier()).isEqualTo(expected);
    }

    @ParameterizedTest
    @CsvSource({"0, true", "1, false", "nonsense, true"})
    void directDisable(String value, boolean pointers) {
        assertThat(policy(Map.of("NCCL_P2P_DIRECT_DISABLE", value)).pointers()).isEqualTo(pointers);
    }

    @Test
    void telphersNamesWinAndMustMakeSense() {
        PeerPolicy policy =
                policy(Map.of("NCCL_P2P_READ_ENABLE", "1", "TELPHER_P2P_READ_ENABLE", "0"));
        assertThat(policy.copier()).isEqualTo(Copier.SOURCE);
        assertThatThrownBy(() -> policy(Map.of("TELPHER_P2P_READ_ENABLE", "on")))
                .hasMessageContaining("TELPHER_P2P_READ_ENABLE=on");
        assertThatThrownBy(() -> policy(Map.of("TELPHER_P2P_READ_ENABLE", "2")))
                .hasMessageContaining("from -2 to 1");
        assertThat(policy(Map.of())).isEqualTo(new PeerPolicy(Copier.LOCAL, true));
    }
}

package io.telpher.internal.transport.verbs;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.spi.Availability;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;

class IbSettingsTest {
    private static IbSettings of(String... pairs) {
        Map<String, String> all =
                pairs.length == 2
                        ? Map.of(pairs[0], pairs[1])
                        : pairs.length == 4
                                ? Map.of(pairs[0], pairs[1], pairs[2], pairs[3])
                                : Map.of();
        return IbSettings.of(all::get);
    }

    @Test
    void defaultsAreNearNccls() {
        IbSettings none = of();
        assertThat(none.timeout()).isEqualTo(17);
        assertThat(none.retries()).isEqualTo(7);
        assertThat(none.gidIndex()).isEqualTo(-1);
        assertThat(none.queuePairs()).isEqualTo(1);
        assertThat(none.disabled()).isNull();
        assertThat(none.allows("mlx5_0", 2)).isTrue();
    }

    /// A lost packet is sent again before a lane is given up, and the last try is later than that.
    @Test
    void theTimeoutFollowsTheLiveness() {
        for (int millis = 100; millis < 30_000; millis += 100) {
            Duration liveness = Duration.ofMillis(millis);
            long judged = liveness.toNanos() / 3 * 2;
            long timeout = 4096L << IbSettings.of(name -> null, liveness).timeout();
            assertThat(4 * timeout).as("%d ms", millis).isLessThanOrEqualTo(judged);
            assertThat(8 * timeout).as("%d ms", millis).isGreaterThan(judged);
        }
        assertThat(IbSettings.of(name -> null, Duration.ofHours(1)).timeout()).isEqualTo(20);
        assertThat(of("NCCL_IB_TIMEOUT", "14").repeatNanos()).isEqualTo(2 * 67_108_864L);
    }

    @Test
    void ownVariablesComeBeforeNccls() {
        assertThat(of("NCCL_IB_TIMEOUT", "18").timeout()).isEqualTo(18);
        assertThat(of("NCCL_IB_TIMEOUT", "18", "TELPHER_IB_TIMEOUT", "14").timeout()).isEqualTo(14);
        assertThat(of("NCCL_IB_DISABLE", "1").disabled()).isEqualTo("NCCL_IB_DISABLE");
        assertThat(of("NCCL_IB_DISABLE", "1", "TELPHER_IB_DISABLE", "0").disabled()).isNull();
    }

    @Test
    void portsAreChosenAsNcclDoes() {
        IbSettings begin = of("NCCL_IB_HCA", "mlx5_1,mlx5_2:2");
        assertThat(begin.allows("mlx5_1", 1)).isTrue();
        assertThat(begin.allows("mlx5_10", 1)).as("a beginning").isTrue();
        assertThat(begin.allows("mlx5_2", 1)).isFalse();
        assertThat(begin.allows("mlx5_2", 2)).isTrue();
        IbSettings exact = of("NCCL_IB_HCA", "=mlx5_1");
        assertThat(exact.allows("mlx5_1", 1)).isTrue();
        assertThat(exact.allows("mlx5_10", 1)).isFalse();
        IbSettings but = of("NCCL_IB_HCA", "^=mlx5_1");
        assertThat(but.allows("mlx5_1", 1)).isFalse();
        assertThat(but.allows("mlx5_10", 1)).isTrue();
    }

    @Test
    void whatMakesNoSenseIsAnErrorOfOursOnly() {
        assertThatThrownBy(() -> of("TELPHER_IB_TC", "many"))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("TELPHER_IB_TC=many: write a whole number from -1 to 255");
        assertThatThrownBy(() -> of("TELPHER_IB_SL", "16"))
                .hasMessage("TELPHER_IB_SL=16: write a whole number from -1 to 15");
        assertThat(of("NCCL_IB_TC", "0x6a").trafficClass()).isEqualTo(106);
        assertThat(of("TELPHER_IB_GID_INDEX", "255").gidIndex()).isEqualTo(255);
        assertThatThrownBy(() -> of("TELPHER_IB_GID_INDEX", "256"))
                .hasMessage("TELPHER_IB_GID_INDEX=256: write a whole number from -1 to 255");
        assertThatThrownBy(() -> of("TELPHER_IB_TC", "0x100"))
                .hasMessage("TELPHER_IB_TC=0x100: write a whole number from -1 to 255");
        assertThat(of("NCCL_IB_TC", "many").trafficClass()).isEqualTo(0);
    }

    @Test
    void aVariableThatCannotBeUnderstoodCountsOnlyWhereThereIsADevice() {
        Map<String, String> nonsense = Map.of("TELPHER_IB_TC", "banana");
        Provider none =
                Altered.provider(
                        FakeVerbs.HERE,
                        "availability",
                        (usual, unused) -> new Availability.Missing("no device", "plug one in"));
        try (Endpoint endpoint = FakeVerbs.open(EndpointOptions.DEFAULTS, none, nonsense)) {
            assertThat(endpoint.explain()).contains("verbs: no device; plug one in");
        }
        assertThatThrownBy(() -> FakeVerbs.open(EndpointOptions.DEFAULTS, FakeVerbs.HERE, nonsense))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("TELPHER_IB_TC=banana");
    }
}

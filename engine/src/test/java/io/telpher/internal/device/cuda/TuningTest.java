package io.telpher.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.CopyQueue.Way;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class TuningTest {
    private static final String VIA = "telpher.cuda.kernel.via.bytes";

    @AfterEach
    void forget() {
        System.clearProperty(VIA);
    }

    private static boolean byKernel(Way way, int pieces, long bytes) {
        return Tuning.current().byKernel(way, pieces, bytes, false);
    }

    @Test
    void largeJobsGoByCopyEnginesExceptBetweenTwoOthers() {
        for (Way way : Way.values()) {
            assertThat(byKernel(way, 1, 8)).as("%s", way).isTrue();
            assertThat(byKernel(way, 1, CopyQueue.LARGEST)).as("%s", way).isEqualTo(way == Way.VIA);
        }
    }

    @Test
    void telphersVariablesWinAndMustMakeSense() {
        assertThat(Tuning.of(Map.of("NCCL_CUMEM_ENABLE", "0")::get).cuMem()).isFalse();
        assertThat(Tuning.of(Map.of("NCCL_CUMEM_ENABLE", "-2")::get).cuMem()).isTrue();
        Map<String, String> both = Map.of("NCCL_CUMEM_ENABLE", "0", "TELPHER_CUMEM_ENABLE", "1");
        assertThat(Tuning.of(both::get).cuMem()).isTrue();
        assertThat(Tuning.of(Map.of("TELPHER_CUMEM_ENABLE", "0")::get).cuMem()).isFalse();
        assertThat(Tuning.of(Map.of("TELPHER_P2P_PROBE", "0")::get).probe()).isFalse();
        assertThat(Tuning.of(Map.of("NCCL_P2P_USE_CUDA_MEMCPY", "1")::get).kernels()).isFalse();
        for (String name : List.of("TELPHER_CUMEM_ENABLE", "TELPHER_P2P_PROBE")) {
            assertThatThrownBy(() -> Tuning.of(Map.of(name, "off")::get))
                    .hasMessageContaining(name + "=off")
                    .hasMessageContaining("unset it");
        }
    }

    @Test
    void theLimitBetweenTwoOthersIsOfItsOwn() {
        assertThat(Tuning.current().viaByKernel()).isTrue();
        System.setProperty(VIA, "" + CopyQueue.LARGEST);
        assertThat(Tuning.current().viaByKernel()).isFalse();
        assertThat(byKernel(Way.VIA, 1, CopyQueue.LARGEST)).isFalse();
        System.setProperty(VIA, "1000");
        assertThat(byKernel(Way.VIA, 1, 999)).isTrue();
        assertThat(byKernel(Way.VIA, 1, 1000)).isFalse();
        assertThat(byKernel(Way.PEER, 1, 1000)).isTrue();
        System.setProperty(VIA, "" + (CopyQueue.LARGEST + 2));
        assertThatThrownBy(Tuning::current)
                .hasMessageContaining(VIA)
                .hasMessageContaining("" + (CopyQueue.LARGEST + 1));
    }
}

package io.telpher.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.CopyQueue.Way;
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

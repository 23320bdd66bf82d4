package io.telpher.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.cuda.Nvrtc;
import io.telpher.spi.Availability;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class KernelImageTest {
    @Test
    void theKernelsCompile() {
        assumeThat(Nvrtc.availability())
                .as("no NVRTC: pip install nvidia-cuda-nvrtc-cu12 brings it; no GPU is needed")
                .isInstanceOf(Availability.Available.class);
        int[] known = Nvrtc.architectures();
        byte[] newest =
                KernelImage.compile(
                        KernelImage.source(), "sm_" + Arrays.stream(known).max().orElseThrow());
        assertThat(newest).startsWith(0x7f, 'E', 'L', 'F');
        String oldest =
                new String(
                        KernelImage.compile(
                                KernelImage.source(), "compute_" + Math.max(70, known[0])),
                        StandardCharsets.UTF_8);
        for (String kernel :
                new String[] {
                    "telpher_copy_8", "telpher_copy_100", "telpher_copy_table", "telpher_agent"
                }) {
            assertThat(oldest).contains(".entry " + kernel + "(");
        }
        // The parameters stay where the launch put them, instead of being copied by each thread.
        assertThat(oldest).doesNotContain("__local_depot");
        assertThatThrownBy(() -> KernelImage.compile("#error no", "sm_" + known[known.length - 1]))
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("#error no");
    }

    @Test
    void aDeviceThatTheCompilerDoesNotKnowGetsCodeOfAnOlderOne() {
        int[] known = {75, 80, 86, 90};
        assertThat(KernelImage.architecture(80, known)).isEqualTo("sm_80");
        assertThat(KernelImage.architecture(103, known)).isEqualTo("compute_90");
        assertThatThrownBy(() -> KernelImage.architecture(70, known))
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("7.0");
    }
}

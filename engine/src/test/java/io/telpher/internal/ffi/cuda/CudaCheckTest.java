package io.telpher.internal.ffi.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/// The check for machines with GPUs, on the fake ones.
class CudaCheckTest {
    @Test
    void everyStepPassesOnTheFakeDriver() throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(FakeGpu.jvmArguments());
        command.addAll(
                List.of("-cp", System.getProperty("java.class.path"), CudaCheck.class.getName()));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().put("FAKE_CUDA_DEVICES", "2");
        builder.environment().put("FAKE_CUDA_FABRIC", "1");
        builder.environment().put("FAKE_CUDA_DMABUF", "1");
        Process check = builder.start();
        String said = new String(check.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(check.waitFor()).as(said).isZero();
        assertThat(said)
                .contains("fabric handle: granted", "dma-buf granted", "until signalled", "all OK")
                .doesNotContain("FAILED");
    }
}

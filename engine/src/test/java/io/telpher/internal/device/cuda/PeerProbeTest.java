package io.telpher.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.cuda.FakeGpu;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What the child of a trial says of devices that are well, that damage bytes, and that fail.
class PeerProbeTest {
    /// Of the fake driver's devices.
    private static final String UUID = "fa6ec0da-0000-4000-8000-0000000000%02x";

    @TempDir Path cache;

    @BeforeAll
    static void checkDriver() {
        FakeGpu.assumeBuilt();
    }

    @Test
    void whatArrivesIsGood() throws Exception {
        run(PeerProbeMain.GOOD, "good", "FAKE_CUDA_DEVICES", "2");
    }

    @Test
    void whatArrivesDamagedIsBad() throws Exception {
        run(PeerProbeMain.BAD, "arrives as", "FAKE_CUDA_CORRUPT_PEERS", "0-1");
    }

    /// The third copy is the first between the two: an error says nothing of what would arrive.
    @Test
    void anErrorOfTheDriverIsNoVerdict() throws Exception {
        run(PeerProbeMain.UNKNOWN, "OUT_OF_MEMORY", "FAKE_CUDA_FAULT", "cuMemcpyAsync:3:2");
    }

    private void run(int code, String last, String variable, String value) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElseThrow());
        command.addAll(List.of("-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"));
        command.addAll(FakeGpu.jvmArguments());
        command.addAll(List.of("-cp", Path.of("target", "classes").toAbsolutePath().toString()));
        command.add(PeerProbeMain.class.getName());
        command.addAll(List.of(UUID.formatted(0), UUID.formatted(1)));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().put("XDG_CACHE_HOME", cache.toString());
        builder.environment().put(variable, value);
        Process child = builder.start();
        try {
            String said = new String(child.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(child.waitFor(60, TimeUnit.SECONDS)).isTrue();
            assertThat(child.exitValue()).as(said).isEqualTo(code);
            assertThat(said.lines()).contains(PeerProbeMain.BEGUN);
            assertThat(said.lines().toList().getLast()).contains(last);
        } finally {
            child.destroyForcibly();
        }
    }
}

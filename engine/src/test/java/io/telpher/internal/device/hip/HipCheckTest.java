package io.telpher.internal.device.hip;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.internal.device.Runtimes;
import io.telpher.internal.ffi.CConstants;
import io.telpher.internal.ffi.hip.Hip;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// The check for machines with AMD GPUs, on the fake ones; and what processes without any see.
class HipCheckTest {
    @TempDir private static Path folder;

    @BeforeAll
    static void build() throws Exception {
        CConstants.assumeCompiler();
        Path source = folder.resolve("fake_hip.c");
        try (InputStream in = HipCheckTest.class.getResourceAsStream("/fake-hip/fake_hip.c")) {
            Files.copy(in, source);
        }
        run(
                List.of(
                        "gcc",
                        "-shared",
                        "-fPIC",
                        "-O1",
                        "-g",
                        "-pthread",
                        "-Wall",
                        "-Wextra",
                        "-Werror",
                        "-o",
                        library(),
                        source.toString()),
                Map.of());
    }

    /// Says what runtimes there are, and whether AMD's library is in this process.
    public static void main(String[] arguments) throws IOException {
        System.out.println(Runtimes.describe());
        boolean open = Files.readString(Path.of("/proc/self/maps")).contains("libamdhip64");
        System.out.println(open ? "opened" : "not opened");
    }

    @Test
    void everyStepPassesOnTheFakeRuntime() throws Exception {
        assertThat(run(java(true, HipCheck.class), Map.of()))
                .contains("hip: HIP 6.2 (", "OK     each call fails", "all OK")
                .doesNotContain("FAILED");
    }

    @Test
    void oneDeviceAloneIsEnough() throws Exception {
        assertThat(run(java(true, HipCheck.class), Map.of("FAKE_HIP_DEVICES", "1")))
                .contains("all OK");
    }

    @Test
    void withoutADriverTheLibraryIsNotOpened() throws Exception {
        assumeThat(Path.of("/dev/kfd")).as("there is a driver of AMD GPUs").doesNotExist();
        assertThat(run(java(false, HipCheckTest.class), Map.of()))
                .contains("hip: no AMD GPU: there is no /dev/kfd (modprobe amdgpu; ")
                .contains("not opened");
    }

    @ParameterizedTest
    @CsvSource({
        "hipGetDeviceCount, says hipErrorOutOfMemory (2",
        "hipRuntimeGetVersion, fails: hipRuntimeGetVersion() failed: hipErrorOutOfMemory (2",
        "hipDeviceGetUuid, cannot name its devices: hipDeviceGetUuid(0) failed: hipErrorOutOf",
        "hipDeviceGetPCIBusId, cannot name its devices: hipDeviceGetPCIBusId(0) failed: hipErr",
        "hipDeviceGetName, cannot name its devices: hipDeviceGetName(0) failed: hipErrorOutOf"
    })
    void aRuntimeThatFailsAtOnceIsMissing(String call, String reason) throws Exception {
        assertThat(run(java(true, HipCheckTest.class), Map.of("FAKE_HIP_FAULT", call)))
                .contains("hip: ", reason, "opened");
    }

    private static String library() {
        return folder.resolve("libamdhip64.so.6").toString();
    }

    private static List<String> java(boolean fake, Class<?> main) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(
                List.of(
                        "--enable-native-access=ALL-UNNAMED",
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1"));
        if (fake) {
            command.add("-D" + Hip.LIBRARY_PROPERTY + "=" + library());
        }
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        return command;
    }

    private static String run(List<String> command, Map<String, String> environment)
            throws Exception {
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().putAll(environment);
        Process process = builder.start();
        String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(said).isZero();
        return said;
    }
}

package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.stream.Stream;

/// The fake CUDA driver and NVML of the engine's tests, without Telpher's kernels: copies go by
/// copy engines.
public final class FakeGpus {
    private static final String CUDA = "libcuda.so.1";
    private static final String NVML = "libnvidia-ml.so.1";

    private FakeGpus() {}

    /// Builds them, or skips the test without a compiler.
    public static void build(Path folder) throws IOException {
        assumeThat(Tool.find("gcc")).as("gcc is missing (packages gcc, libc6-dev)").isNotNull();
        compile(folder.resolve(NVML), name -> name.endsWith("_nvml.c"));
        compile(
                folder.resolve(CUDA),
                name -> !name.endsWith("_nvml.c") && !name.endsWith("_nvrtc.c"));
    }

    private static void compile(Path library, Predicate<String> which) throws IOException {
        List<String> command = new ArrayList<>(List.of("gcc", "-shared", "-fPIC", "-O1"));
        command.addAll(List.of("-pthread", "-o", library.toString()));
        try (Stream<Path> files = Files.list(Script.engineResource("fake-gpu"))) {
            files.map(Path::toString)
                    .filter(name -> name.endsWith(".c"))
                    .filter(which)
                    .forEach(command::add);
        }
        Tool.Output output = Tool.run(command, Map.of(), 100);
        assertThat(output.exitCode()).as(output.error()).isZero();
    }

    /// What a JVM needs for its GPUs to be the fake ones.
    public static List<String> jvmArguments(Path folder) {
        return List.of(
                "-Dtelpher.cuda.library=" + folder.resolve(CUDA),
                "-Dtelpher.nvml.library=" + folder.resolve(NVML),
                "-Dtelpher.nvrtc.library=" + folder.resolve("none"),
                "-Dtelpher.cuda.probe=0");
    }
}

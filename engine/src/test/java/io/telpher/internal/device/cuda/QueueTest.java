package io.telpher.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.cuda.FakeGpu;
import io.telpher.internal.ffi.cuda.Nvrtc;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Runs the scenarios on the fake driver, in processes of their own: what opens a device keeps it
/// open until its process ends. They run on real devices without this class:
/// `java -cp ... io.telpher.internal.device.cuda.QueueScenarios updates gathering randomPieces`.
class QueueTest {
    /// What is held of lists waits for their end, and not for a clock.
    private static final String HOLD = "-Dtelpher.cuda.hold.us=60000000";

    /// The fake's kernels are slow: a coroutine for each of their threads.
    private static final String[] KERNELS = {
        "-Dtelpher.cuda.kernel.lone=1",
        "-Dtelpher.cuda.kernel.blocks=6",
        "-Dtelpher.cuda.kernel.threads=64"
    };

    @TempDir Path cache;

    @Test
    void kernelsCopy() throws Exception {
        FakeGpu.assumeKernels();
        run(
                QueueScenarios.class,
                List.of(KERNELS),
                "abandoned",
                "updates",
                "gathering",
                "randomPieces",
                "betweenOthers",
                "hundredThousandPieces",
                "manyThreads",
                "noAllocation");
    }

    @Test
    void copyEnginesCopy() throws Exception {
        FakeGpu.assumeKernels();
        run(
                QueueScenarios.class,
                List.of(
                        "-Dtelpher.cuda.kernels=0",
                        "-Dtelpher.cuda.engine.split=3000",
                        "-Dtelpher.cuda.via.bytes=65536",
                        "-Dtelpher.cuda.via.buffers=3"),
                "abandoned",
                "updates",
                "gathering",
                "randomPieces",
                "betweenOthers",
                "manyThreads",
                "noAllocation");
    }

    @Test
    void listsGoOutTogether() throws Exception {
        FakeGpu.assumeKernels();
        // Room for all launches: none waits for another one.
        run(
                QueueScenarios.class,
                List.of(
                        HOLD,
                        "-Dtelpher.cuda.kernel.blocks=6",
                        "-Dtelpher.cuda.kernel.threads=64",
                        "-Dtelpher.cuda.kernel.window=16",
                        "-Dtelpher.cuda.agent.bytes=64"),
                "lists");
        run(QueueScenarios.class, List.of(HOLD, "-Dtelpher.cuda.kernels=0"), "lists");
        run(QueueScenarios.class, List.of(KERNELS), "forgottenList");
    }

    @Test
    void theAgentCopies() throws Exception {
        FakeGpu.assumeKernels();
        run(
                QueueScenarios.class,
                List.of(
                        "-Dtelpher.cuda.kernel.threads=32",
                        "-Dtelpher.cuda.agent.bytes=1048576",
                        "-Dtelpher.cuda.agent.window=16",
                        // So short that it is launched anew all the time.
                        "-Dtelpher.cuda.agent.idle.us=300",
                        "-Dtelpher.cuda.agent.life.us=2000"),
                "abandoned",
                "updates",
                "gathering",
                "manyThreads",
                "freedUnderLoad");
    }

    @Test
    void whatTheDriverRefusesFailsTheRightJobs() throws Exception {
        FakeGpu.assumeKernels();
        run(
                FaultScenarios.class,
                List.of(KERNELS),
                "refusedLaunch",
                "slowDevice",
                "noRoom",
                "refusedQueue",
                "keptImage",
                "lostContext");
    }

    @Test
    void blocksWithoutRoomAreRefused() throws Exception {
        FakeGpu.assumeKernels();
        run(FaultScenarios.class, List.of("-Dtelpher.cuda.kernel.threads=1024"), "tooManyThreads");
    }

    @Test
    void whatTheDriverRefusesCopyEnginesFailsTheRightJobs() throws Exception {
        FakeGpu.assumeBuilt();
        run(
                FaultScenarios.class,
                List.of("-Dtelpher.cuda.kernels=0", "-Dtelpher.cuda.engine.window=1"),
                "loneCopy",
                "refusedCopy",
                "refusedFlag",
                "refusedQuery",
                "refusedIntermediate",
                "refusedLeg",
                "boundedChunks",
                "lostContext");
    }

    @Test
    void whatTheDriverRefusesOfMemoryLeavesNothingBehind() throws Exception {
        FakeGpu.assumeBuilt();
        run(
                MemoryFaultScenarios.class,
                List.of(),
                "refusedAllocation",
                "brokenMapping",
                "refusedRelease");
    }

    @Test
    void aLoneCopyGetsItsFlagWhenAnotherFollows() throws Exception {
        FakeGpu.assumeBuilt();
        run(
                FaultScenarios.class,
                List.of("-Dtelpher.cuda.kernels=0"),
                "refusedFlagOfLoneCopy",
                "flagOfLoneCopy");
    }

    @Test
    void theAgentsLossIsNoticed() throws Exception {
        FakeGpu.assumeKernels();
        run(
                FaultScenarios.class,
                List.of("-Dtelpher.cuda.kernel.threads=32", "-Dtelpher.cuda.agent.bytes=65536"),
                "lostContext");
    }

    @Test
    void withoutNvrtcCopyEnginesDoIt() throws Exception {
        FakeGpu.assumeBuilt();
        run(
                FaultScenarios.class,
                List.of("-D" + Nvrtc.LIBRARY_PROPERTY + "=/nonexistent"),
                "withoutKernels");
    }

    @Test
    void otherProcessesMemoryIsReached() throws Exception {
        FakeGpu.assumeBuilt();
        run(
                SharingScenarios.class,
                List.of(KERNELS),
                "descriptors",
                "descriptorsOfParts",
                "handles",
                "killedOwner",
                "lies",
                "inspect",
                "parts");
    }

    private void run(Class<?> scenarios, List<String> options, String... names) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElseThrow());
        command.addAll(List.of("-ea", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"));
        command.addAll(FakeGpu.jvmArguments());
        command.addAll(options);
        command.addAll(List.of("-cp", classPath(), scenarios.getName()));
        command.addAll(List.of(names));
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
        builder.environment().put("XDG_CACHE_HOME", cache.toString());
        Process process = builder.start();
        try {
            String said =
                    new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertThat(process.waitFor(5, TimeUnit.MINUTES)).isTrue();
            assertThat(process.exitValue()).as(said).isZero();
            for (String name : names) {
                assertThat(said).contains("ok " + name);
            }
        } finally {
            process.destroyForcibly();
        }
    }

    /// The scenarios' JVM takes the engine from the class path, as the tests' own JVM may not.
    private static String classPath() {
        String modules = System.getProperty("jdk.module.path", "");
        return System.getProperty("java.class.path")
                + Path.of("target", "classes").toAbsolutePath().toString().transform(QueueTest::add)
                + Path.of("target", "test-classes")
                        .toAbsolutePath()
                        .toString()
                        .transform(QueueTest::add)
                + (modules.isEmpty() ? "" : add(modules));
    }

    private static String add(String path) {
        return java.io.File.pathSeparator + path;
    }
}

package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Packs the image and the tests' archive from what was built, and runs them in root folders that
/// have a shell and a few small tools, but no Java.
@Timeout(900)
class ImageIT {
    private static final List<String> TOOLS =
            List.of(
                    "sh",
                    "cut",
                    "dirname",
                    "find",
                    "flock",
                    "mkdir",
                    "mktemp",
                    "mv",
                    "nice",
                    "readlink",
                    "rm",
                    "sed",
                    "sha256sum",
                    "sleep",
                    "sync",
                    "timeout",
                    "uname");
    private static final Map<String, String> PLAIN = Map.of("PATH", "/usr/sbin:/usr/bin:/bin");
    private static final Map<String, String> IN_ROOT =
            Map.of("PATH", PLAIN.get("PATH"), "HOME", "/home");

    /// From unpacking on. A machine that is busy has two tries.
    private static final Duration LONGEST_TO_FIRST_ROW = Duration.ofSeconds(60);

    @TempDir static Path temp;
    private static Path archive;

    @BeforeAll
    @Timeout(900)
    static void pack() throws Exception {
        archive = pack("image");
    }

    private static Path pack(String what) throws Exception {
        Path jdk = Path.of(System.getProperty("java.home"));
        assumeTrue(
                Files.exists(jdk.resolve("bin/jlink")),
                "this JDK has no jlink, of the package openjdk-25-jdk-headless");
        Path build = Script.sourceTree().resolve("scripts/image/build.sh");
        Path out = temp.resolve("out-" + what);

        Script.Result result =
                new Script(
                                List.of(build.toString(), what, out.toString()),
                                temp,
                                Map.of("PATH", PLAIN.get("PATH"), "JAVA_HOME", jdk.toString()))
                        .await();

        assertThat(result.status()).as(result.errors()).isZero();
        assertThat(files(out)).hasSize(1);
        return files(out).getFirst();
    }

    @Test
    void isSmallAndOfOneFolder() throws Exception {
        assertThat(archive.getFileName().toString()).matches("telpher-.*-linux-.*\\.tar\\.gz");
        assertThat(Files.size(archive)).isLessThanOrEqualTo(35_000_000);
        Script.Result list =
                new Script(List.of("tar", "-tzf", archive.toString()), temp, PLAIN).await();
        assertThat(list.output().lines()).allMatch(name -> name.startsWith(name(archive) + "/"));
    }

    @Test
    void benchRunsWithoutJavaAndLaterStartsUseACache() throws Exception {
        Path root = firstUse("first");
        if (root == null) {
            root = firstUse("second");
        }
        assertThat(root)
                .as("a row of bench within %s of unpacking, in two tries", LONGEST_TO_FIRST_ROW)
                .isNotNull();

        Script.Result version = inRoot(root, launcher(), "--version");
        assertThat(version.errors()).isEmpty();
        assertThat(version.output()).contains("telpher", "Java 25");

        // A file is read by a module of Java's that the engine requires, and the tool does not.
        Files.writeString(
                root.resolve("machine.xml"), "<system version=\"1\"><cpu numaid=\"7\"/></system>");
        Script.Result topo = inRoot(root, launcher(), "topo", "--from", "/machine.xml");
        assertThat(topo.errors()).isEmpty();
        assertThat(topo.output()).contains("NUMA 7");

        // The first use leaves the cache behind; what it is good for must stay silent, too.
        Path caches = root.resolve("home/.cache/telpher");
        await().atMost(Duration.ofMinutes(10))
                .until(
                        () ->
                                Files.exists(caches)
                                        && files(caches).size() == 1
                                        && files(caches).getFirst().toString().endsWith(".aot"));
        Path cache = files(caches).getFirst();
        assertThat(Files.size(cache)).isGreaterThan(1_000_000);

        // Two processes: the second one must find the image's Java as well.
        Script.Result bench =
                inRoot(
                        root,
                        launcher(),
                        "bench",
                        "--path=mapped",
                        "--op=write",
                        "--sizes=8",
                        "--depth=1",
                        "--seconds=0.05",
                        "--no-pin",
                        "--target=park");
        assertThat(bench.errors()).isEmpty();
        assertThat(bench.output()).contains("path mapped", "all data right");
        assertThat(bench.status()).isZero();

        Script.Result wrong = inRoot(root, launcher(), "bench", "--op=frobnicate");
        assertThat(wrong.errors()).contains("frobnicate");
        assertThat(wrong.status()).isEqualTo(2);

        assertThat(files(caches)).as("nothing is made twice").containsExactly(cache);
    }

    /// A few of each module: with native memory, sockets, a second process, files of the classes.
    @Test
    void testsRunWithoutJavaAndMaven() throws Exception {
        Path tests = pack("tests");
        Path root = rootWithoutJava(tests, "tests");
        String launcher = "/opt/" + name(tests) + "/bin/telpher-tests";

        Script.Result good =
                inRoot(
                        root,
                        launcher,
                        "--details=tree",
                        "--select-class=io.telpher.internal.memory.SharedMemoryTest",
                        "--select-class=io.telpher.contract.RecordingTest",
                        "--select-class=io.telpher.contract.RecordedChecksumsTest",
                        "--select-class=io.telpher.bootstrap.CodecTest",
                        "--select-class=io.telpher.cli.doctor.ChecksTest");
        assertThat(good.status()).as(good.output() + good.errors()).isZero();
        assertThat(good.output())
                .contains("SharedMemoryTest", "RecordingTest", "CodecTest", "ChecksTest")
                .contains("0 tests failed", "0 tests skipped", "0 tests aborted");

        // These read files of the source tree, and compile where there is a compiler: not in there.
        Script.Result here =
                new Script(
                                List.of(
                                        root + launcher,
                                        "--details=tree",
                                        "--select-class=io.telpher.cli.ConfigCommandTest",
                                        "--select-class=io.telpher.cli.HipToolsTest"),
                                temp,
                                PLAIN)
                        .await();
        assertThat(here.status()).as(here.output() + here.errors()).isZero();
        assertThat(here.output()).contains("ConfigCommandTest", "HipToolsTest");

        Script.Result none = inRoot(root, launcher, "--include-classname=Nothing");
        assertThat(none.status()).as("no test was found").isEqualTo(2);
    }

    private static String name(Path archive) {
        return archive.getFileName().toString().replace(".tar.gz", "");
    }

    /// Unpacks the image, and runs `bench` as a first user does.
    ///
    /// @return where, or null when the first row came too late
    private static Path firstUse(String folder) throws Exception {
        long began = System.nanoTime();
        Path root = rootWithoutJava(archive, folder);
        String row = firstRow(root);
        Duration time = Duration.ofNanos(System.nanoTime() - began);
        System.out.printf(
                "image: %d ms from unpacking to the first row of bench%n", time.toMillis());
        if (time.compareTo(LONGEST_TO_FIRST_ROW) > 0) {
            return null;
        }
        assertThat(row).contains("write");
        return root;
    }

    /// Runs `bench` until the first row of its table.
    ///
    /// @return the row, or what it printed last when it ended or was too late
    private static String firstRow(Path root) throws Exception {
        ProcessBuilder builder =
                new ProcessBuilder(command(root, launcher(), "bench")).redirectErrorStream(true);
        builder.environment().clear();
        builder.environment().putAll(IN_ROOT);
        Process bench = builder.start();
        CompletableFuture<Void> late =
                CompletableFuture.runAsync(
                        bench::destroyForcibly,
                        CompletableFuture.delayedExecutor(
                                LONGEST_TO_FIRST_ROW.toSeconds(), TimeUnit.SECONDS));
        String last = "";
        try (BufferedReader out = bench.inputReader()) {
            String line = "#";
            while (line != null && (line.isBlank() || line.startsWith("#"))) {
                last = line;
                line = out.readLine();
            }
            return line == null ? last : line;
        } finally {
            late.cancel(false);
            bench.destroy();
            assertThat(bench.waitFor(1, TimeUnit.MINUTES)).as("SIGTERM ends bench").isTrue();
        }
    }

    private static Script.Result inRoot(Path root, String... command) throws Exception {
        return new Script(command(root, command), temp, IN_ROOT).await();
    }

    private static String launcher() {
        return "/opt/" + name(archive) + "/bin/telpher";
    }

    private static List<String> command(Path root, String... arguments) {
        // A process namespace of its own would end the making of the cache with its first process.
        String script =
                """
                mount -t proc proc '%1$s/proc' && mount --bind /dev '%1$s/dev' &&
                mount -t tmpfs tmpfs '%1$s/tmp' && exec chroot '%1$s' "$@"
                """
                        .formatted(root);
        List<String> command = new ArrayList<>(List.of("unshare", "--mount", "sh", "-c", script));
        command.add("sh");
        command.addAll(List.of(arguments));
        return command;
    }

    /// Unpacks an archive into a root folder with the tools that the launchers use, and the
    /// libraries that these tools and the JVM need.
    private static Path rootWithoutJava(Path archive, String folder) throws Exception {
        assumeTrue("root".equals(System.getProperty("user.name")), "chroot needs root");
        Path root = temp.resolve("root-" + folder);
        for (String part : List.of("bin", "dev", "home", "opt", "proc", "tmp")) {
            Files.createDirectories(root.resolve(part));
        }
        Script.Result unpack =
                new Script(
                                List.of(
                                        "tar",
                                        "-xzf",
                                        archive.toString(),
                                        "-C",
                                        root.resolve("opt").toString()),
                                temp,
                                PLAIN)
                        .await();
        assertThat(unpack.status()).as(unpack.errors()).isZero();
        for (String tool : TOOLS) {
            Path file = Path.of("/usr/bin", tool);
            assumeTrue(Files.exists(file), tool + " is missing, of coreutils, sed or util-linux");
            Files.copy(file, root.resolve("bin").resolve(tool));
            copyLibraries(file, root);
        }
        Path jvm =
                root.resolve("opt").resolve(name(archive)).resolve("runtime/lib/server/libjvm.so");
        copyLibraries(jvm, root);
        return root;
    }

    private static void copyLibraries(Path program, Path root) throws Exception {
        Script.Result libraries =
                new Script(List.of("ldd", program.toString()), temp, PLAIN).await();
        for (String library :
                Pattern.compile("/\\S+")
                        .matcher(libraries.output())
                        .results()
                        .map(found -> found.group())
                        .toList()) {
            Path file = Path.of(library);
            if (Files.isRegularFile(file) && !file.startsWith(root)) {
                Path copy = root.resolve(library.substring(1));
                Files.createDirectories(copy.getParent());
                Files.copy(file, copy, StandardCopyOption.REPLACE_EXISTING);
            }
        }
    }

    private static List<Path> files(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.toList();
        }
    }
}

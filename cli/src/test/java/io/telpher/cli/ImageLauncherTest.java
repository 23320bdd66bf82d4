package io.telpher.cli;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Runs the launcher of the image with a `java` that is only a script.
class ImageLauncherTest {
    @TempDir Path temp;

    private Path image;
    private Path home;
    private Path caches;
    private final Map<String, String> environment = new TreeMap<>();

    @BeforeEach
    void prepare() throws IOException {
        Path launcher = Script.sourceTree().resolve("scripts/image/telpher");
        image = Files.createDirectories(temp.resolve("image"));
        home = Files.createDirectories(temp.resolve("home"));
        caches = home.resolve(".cache/telpher");
        Files.createDirectories(image.resolve("bin"));
        Files.copy(launcher, image.resolve("bin/telpher"));
        assertThat(image.resolve("bin/telpher").toFile().setExecutable(true)).isTrue();
        identify("abc", System.getProperty("os.arch").replace("amd64", "x86_64"), "/bin/sh");
        java("");
        environment.put("HOME", home.toString());
        environment.put("PATH", "/usr/local/bin:/usr/bin:/bin");
    }

    /// What a start left behind to make a cache would write into the folder while it is deleted.
    @AfterEach
    void stopMakingCaches() {
        await().atMost(Duration.ofSeconds(60))
                .until(
                        () -> {
                            List<ProcessHandle> makers =
                                    ProcessHandle.allProcesses().filter(this::isOurs).toList();
                            makers.forEach(ProcessHandle::destroyForcibly);
                            return makers.isEmpty();
                        });
    }

    private boolean isOurs(ProcessHandle process) {
        try {
            return Files.readString(
                            Path.of("/proc", Long.toString(process.pid()), "environ"), ISO_8859_1)
                    .contains("HOME=" + home + "\0");
        } catch (IOException e) {
            return false; // it has ended, or belongs to somebody else
        }
    }

    @Test
    void runsTheImagesOwnJavaAndPassesItsExitCode() throws Exception {
        Path link = Files.createSymbolicLink(temp.resolve("link"), image.resolve("bin/telpher"));

        Script.Result result =
                new Script(List.of(link.toString(), "bench", "two words"), home, environment)
                        .await();

        assertThat(result.output())
                .isEqualTo(
                        """
                        -XX:+UseSerialGC
                        --enable-native-access=io.telpher.engine
                        -p
                        %s/lib
                        -m
                        io.telpher.cli/io.telpher.cli.Main
                        bench
                        two words
                        """
                                .formatted(image));
        assertThat(result.errors()).isEmpty();
        assertThat(result.status()).isEqualTo(7);
    }

    @Test
    void laterStartsUseTheCacheThatTheFirstOneLeft() throws Exception {
        assertThat(run().output()).doesNotContain("AOT");
        Path cache = awaitCache();

        assertThat(cache.getFileName().toString()).matches("image-[0-9a-f]{24}\\.aot");
        assertThat(run().output()).contains("-XX:AOTCache=" + cache + "\n").contains("\nbench\n");
    }

    @Test
    void theUsersOptionsAreTakenWithoutTheCache() throws Exception {
        run();
        awaitCache();

        environment.put("TELPHER_NO_AOT", "1");
        assertThat(run().output()).contains("SerialGC").doesNotContain("AOT");
        environment.remove("TELPHER_NO_AOT");
        environment.put("TELPHER_JAVA_OPTS", "-Xmx1g -XX:+UseZGC");

        assertThat(run().output())
                .startsWith("-Xmx1g\n-XX:+UseZGC\n")
                .doesNotContain("SerialGC", "AOT");
    }

    @Test
    void neitherAnotherImageNorAnotherPlaceTakesTheCache() throws Exception {
        run();
        awaitCache();

        Path elsewhere = Files.createDirectories(temp.resolve("elsewhere"));
        Files.move(image, elsewhere.resolve("image"));
        image = elsewhere.resolve("image");
        assertThat(run().output()).doesNotContain("AOT");
        Files.move(image, temp.resolve("image"));
        image = temp.resolve("image");
        assertThat(run().output()).contains("AOTCache");

        identify("abd", System.getProperty("os.arch").replace("amd64", "x86_64"), "/bin/sh");
        assertThat(run().output()).doesNotContain("AOT");
    }

    @Test
    void anotherCpuDoesNotTakeTheCache() throws Exception {
        assumeRoot();
        run();
        awaitCache();
        Path cpu =
                Files.writeString(
                        temp.resolve("cpuinfo"),
                        Files.readString(Path.of("/proc/cpuinfo"))
                                .replaceAll("(?m)^(flags|Features)(\\s*:).*", "$1$2 fpu"));

        Script.Result other =
                new Script(
                                List.of(
                                        "unshare",
                                        "--mount",
                                        "sh",
                                        "-c",
                                        "mount --bind '%s' /proc/cpuinfo && exec '%s' bench"
                                                .formatted(cpu, image.resolve("bin/telpher"))),
                                home,
                                environment)
                        .await();

        assertThat(other.output()).contains("\nbench\n").doesNotContain("AOT");
        assertThat(run().output()).contains("AOTCache");
    }

    @Test
    void aCacheOfSomebodyElseIsNotUsed() throws Exception {
        run();
        Path cache = awaitCache();

        Path target = Files.move(cache, temp.resolve("planted"));
        Files.createSymbolicLink(cache, target);
        assertThat(run().output()).contains("\nbench\n").doesNotContain("AOT");

        Files.delete(cache);
        Files.move(target, cache);
        assertThat(run().output()).contains("AOTCache");
        assumeRoot();
        Files.setAttribute(cache, "unix:uid", 4242);
        assertThat(run().output()).contains("\nbench\n").doesNotContain("AOT");
    }

    @Test
    void aHomeThatCannotBeWrittenIsNoReasonToComplain() throws Exception {
        environment.put("HOME", "/proc/no-such-folder");
        Script.Result readOnly = run();
        environment.remove("HOME");
        Script.Result none = run();

        assertThat(readOnly.output()).contains("\nbench\n").doesNotContain("AOT");
        assertThat(readOnly).isEqualTo(none).isEqualTo(new Script.Result(7, none.output(), ""));
    }

    @Test
    void aCacheThatCannotBeMadeLeavesNothing() throws Exception {
        Path tried = temp.resolve("tried");
        java("touch '%s'; exit 1".formatted(tried));
        run();

        await().atMost(Duration.ofSeconds(60)).until(() -> Files.exists(tried));
        await().atMost(Duration.ofSeconds(60)).until(() -> files(caches).isEmpty());
        assertThat(run().output()).contains("\nbench\n").doesNotContain("AOT");
    }

    @Test
    void saysWhatTheMachineLacks() throws Exception {
        identify("abc", "pdp11", "/bin/sh");
        assertThat(run().errors()).contains("pdp11", "take the archive for it").hasLineCount(1);

        String arch = System.getProperty("os.arch").replace("amd64", "x86_64");
        identify("abc", arch, "/lib/no-such-loader.so");
        assertThat(run().errors()).contains("GNU C library", "no-such-loader").hasLineCount(1);

        identify("abc", arch, "/bin/sh");
        Files.delete(image.resolve("runtime/bin/java"));
        assertThat(run().errors()).contains("java", "noexec").hasLineCount(1);

        Files.delete(image.resolve("lib/image-id"));
        assertThat(run().errors()).contains("not a complete image").hasLineCount(1);
        assertThat(run().status()).isEqualTo(1);
    }

    private static void assumeRoot() {
        assumeTrue(
                "root".equals(System.getProperty("user.name"))
                        && Files.isExecutable(Path.of("/usr/bin/unshare")),
                "needs root and unshare, of the package util-linux");
    }

    private void identify(String id, String machine, String loader) throws IOException {
        Files.createDirectories(image.resolve("lib"));
        Files.writeString(image.resolve("lib/image-id"), id + " " + machine + " " + loader + "\n");
    }

    /// A `java` that prints its arguments and ends with 7; where it is asked for a cache it runs
    /// `making` and then writes one.
    private void java(String making) throws IOException {
        Script.write(
                image.resolve("runtime/bin/java"),
                """
                case $1 in
                    -XX:AOTCacheOutput=*)
                        %s
                        echo cache >"${1#*=}"
                        exit 0 ;;
                esac
                printf '%%s\\n' "$@"
                exit 7
                """
                        .formatted(making));
    }

    private Path awaitCache() throws IOException {
        await().atMost(Duration.ofSeconds(60))
                .until(
                        () ->
                                files(caches).size() == 1
                                        && files(caches).getFirst().toString().endsWith(".aot"));
        return files(caches).getFirst();
    }

    private static List<Path> files(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(folder)) {
            return new ArrayList<>(files.toList());
        }
    }

    private Script.Result run() throws Exception {
        return new Script(
                        List.of(image.resolve("bin/telpher").toString(), "bench"),
                        home,
                        environment)
                .await();
    }
}

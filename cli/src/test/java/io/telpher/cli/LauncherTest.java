package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Runs the `telpher` script in a tree of its own, with JDKs and a Maven that are only scripts.
class LauncherTest {
    @TempDir Path temp;

    private Path home;
    private Path tree;
    private Path bin;
    private Path mavenCalls;
    private HttpServer server;
    private byte[] archive = {};
    private final AtomicInteger downloads = new AtomicInteger();
    private final Map<String, String> environment = new TreeMap<>();

    @BeforeEach
    void prepare() throws IOException {
        home = Files.createDirectories(temp.resolve("home"));
        tree = Files.createDirectories(temp.resolve("tree"));
        bin = Files.createDirectories(temp.resolve("bin"));
        mavenCalls = temp.resolve("maven-calls");
        Files.copy(Script.sourceTree().resolve("telpher"), tree.resolve("telpher"));
        tree.resolve("telpher").toFile().setExecutable(true);
        Files.writeString(tree.resolve("pom.xml"), "<project/>");
        Files.createDirectories(tree.resolve("cli/src/main/java"));
        Files.writeString(tree.resolve("cli/pom.xml"), "<project/>");
        Files.writeString(tree.resolve("cli/src/main/java/Main.java"), "class Main {}");
        Script.write(
                bin.resolve("mvn"),
                """
                [ "$1" = -v ] && echo 'Apache Maven 3.9.9' && exit
                echo "$JAVA_HOME $*" >>'%s'
                [ -e '%s' ] && echo 'the compiler is unhappy' && exit 1
                sleep 0.3
                mkdir -p cli/target/dist/lib && : >cli/target/dist/lib/telpher-cli-1.jar
                """
                        .formatted(mavenCalls, temp.resolve("break-maven")));

        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext(
                "/jdk.tar.gz",
                exchange -> {
                    downloads.incrementAndGet();
                    exchange.sendResponseHeaders(200, archive.length);
                    exchange.getResponseBody().write(archive);
                    exchange.close();
                });
        server.start();

        environment.put("HOME", home.toString());
        environment.put("PATH", bin + ":/usr/local/bin:/usr/bin:/bin");
    }

    @AfterEach
    void stopServer() {
        server.stop(0);
    }

    @Test
    void picksTheNewestJdkWhenTheDefaultOnesAreTooOld() throws Exception {
        environment.put("JAVA_HOME", jdk(temp.resolve("jdk-17"), "17.0.15").toString());
        Files.createSymbolicLink(
                bin.resolve("java"), jdk(temp.resolve("jdk-21"), "21").resolve("bin/java"));
        jdk(home.resolve(".jdks/jdk-98"), "98.0.10");
        Path newest = jdk(home.resolve(".sdkman/candidates/java/99-tem"), "99.0.1");
        jdk(home.resolve(".jdks/jdk-9"), "9.0.4");

        assertThat(run("jdk").output()).isEqualTo(newest + "\n");
    }

    @Test
    void prefersJavaHomeAndThenThePathOverNewerJdks() throws Exception {
        jdk(home.resolve(".jdks/jdk-99"), "99.0.1");
        Path onPath = jdk(temp.resolve("jdk-26"), "26");
        Files.createSymbolicLink(bin.resolve("java"), onPath.resolve("bin/java"));
        assertThat(run("jdk").output()).isEqualTo(onPath + "\n");

        Path own = jdk(temp.resolve("jdk-25"), "25.0.3");
        environment.put("JAVA_HOME", own.toString());
        assertThat(run("jdk").output()).isEqualTo(own + "\n");
    }

    @Test
    void asksTheJvmForItsVersionWhereTheJdkHasNoReleaseFile() throws Exception {
        Path jdk = jdk(temp.resolve("jdk-99"), "99.0.1");
        Files.delete(jdk.resolve("release"));
        environment.put("JAVA_HOME", jdk.toString());

        assertThat(run("jdk").output()).isEqualTo(jdk + "\n");
    }

    @Test
    void namesTheRemedyWhenItMayNotDownload() throws Exception {
        serveJdk("99.0.1");
        environment.put("TELPHER_NO_DOWNLOAD", "1");

        Script.Result result = run("jdk");

        assertThat(result.status()).isEqualTo(1);
        assertThat(result.errors())
                .contains("TELPHER_NO_DOWNLOAD=1", "install a JDK 25", "JAVA_HOME")
                .hasLineCount(1);
        assertThat(downloads).hasValue(0);
    }

    @Test
    void refusesAnArchiveWithAnotherChecksumAndKeepsNothingOfIt() throws Exception {
        serveJdk("99.0.1");
        environment.put("TELPHER_JDK_SHA256", "0".repeat(64));

        Script.Result result = run("jdk");

        assertThat(result.status()).isEqualTo(1);
        assertThat(result.output()).isEmpty();
        assertThat(result.errors()).contains("refused", "SHA-256", "0".repeat(64), sha256(archive));
        assertThat(filesIn(home)).isEmpty();
    }

    @Test
    void refusesAnArchiveWithoutAJdkAndKeepsNothingOfIt() throws Exception {
        serveJdk("17.0.15");

        Script.Result result = run("jdk");

        assertThat(result.status()).isEqualTo(1);
        assertThat(result.errors()).contains("does not run here");
        assertThat(filesIn(home)).isEmpty();
    }

    @Test
    void saysWhichDownloadFailed() throws Exception {
        serveJdk("99.0.1");
        environment.computeIfPresent("TELPHER_JDK_URL", (_, url) -> url + "/missing.tar.gz");
        server.removeContext("/jdk.tar.gz");

        Script.Result result = run("jdk");

        assertThat(result.status()).isEqualTo(1);
        assertThat(result.errors()).contains("cannot fetch", environment.get("TELPHER_JDK_URL"));
        assertThat(filesIn(home)).isEmpty();
    }

    @Test
    void fetchesAJdkOnceAndBuildsAndRunsWithIt() throws Exception {
        serveJdk("99.0.1");

        Script.Result first = run("bench", "two words");

        assertThat(first.status()).isZero();
        assertThat(first.output())
                .endsWith(
                        "--enable-native-access=io.telpher.engine -p "
                                + tree
                                + "/cli/target/dist/lib -m io.telpher.cli/io.telpher.cli.Main bench two words\n");
        assertThat(first.errors().lines())
                .satisfiesExactly(
                        line ->
                                assertThat(line)
                                        .contains("fetching", environment.get("TELPHER_JDK_URL")),
                        line ->
                                assertThat(line)
                                        .isEqualTo("telpher: building telpher (first use)…"));
        assertThat(first.output()).startsWith(home.resolve(".cache/telpher/jdk-").toString());

        Script.Result second = run("bench", "two words");

        assertThat(second.output()).isEqualTo(first.output());
        assertThat(second.errors()).isEmpty();
        assertThat(downloads).hasValue(1);
        assertThat(Files.readAllLines(mavenCalls)).hasSize(1);
    }

    /// The checksums are those that the release publishes beside its files; the folder in the cache
    /// has its name by them.
    @ParameterizedTest
    @CsvSource({
        "x86_64, OpenJDK25U-jdk_x64_linux_hotspot_25.0.3_9.tar.gz, 69264a7a211bf502",
        "aarch64, OpenJDK25U-jdk_aarch64_linux_hotspot_25.0.3_9.tar.gz, 3e4287cb98870ba8"
    })
    void fetchesTheBuildForItsProcessor(String processor, String file, String checksum)
            throws Exception {
        environment.put("TELPHER_IGNORE_INSTALLED_JDK", "1");
        Script.write(bin.resolve("uname"), "echo " + processor + "\n");
        Script.write(bin.resolve("curl"), "exit 22\n");

        Script.Result result = run("jdk");

        assertThat(result.status()).isEqualTo(1);
        assertThat(result.errors().lines())
                .satisfiesExactly(
                        line ->
                                assertThat(line)
                                        .contains(
                                                "fetching Temurin 25",
                                                "/" + file + " into ",
                                                "/jdk-" + checksum),
                        line ->
                                assertThat(line)
                                        .contains("cannot fetch", file, "install a JDK 25"));
    }

    @Test
    void namesTheRemedyWhereNoBuildIsKnown() throws Exception {
        environment.put("TELPHER_IGNORE_INSTALLED_JDK", "1");
        Script.write(bin.resolve("uname"), "echo riscv64\n");

        assertThat(run("jdk").errors())
                .contains("none known for riscv64", "install a JDK 25", "JAVA_HOME")
                .hasLineCount(1);
    }

    @Test
    void putsTheCacheWhereXdgSays() throws Exception {
        serveJdk("99.0.1");
        environment.put("XDG_CACHE_HOME", temp.resolve("cache").toString());

        assertThat(run("jdk").output()).startsWith(temp.resolve("cache/telpher/jdk-").toString());
        assertThat(filesIn(home)).isEmpty();
    }

    @Test
    void simultaneousFirstUsesFetchAndBuildOnce() throws Exception {
        assumeThat(Tool.find("flock")).as("needs flock (package util-linux)").isNotNull();
        serveJdk("99.0.1");

        List<Script> running = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            running.add(start("bench"));
        }
        for (Script one : running) {
            assertThat(one.await().status()).isZero();
        }

        assertThat(downloads).hasValue(1);
        assertThat(Files.readAllLines(mavenCalls)).hasSize(1);
        assertThat(filesIn(home.resolve(".cache/telpher")))
                .noneMatch(file -> file.toString().contains("/.fetch-"));
    }

    /// Such as an image that runs for hours and makes its start-up cache when it ends.
    @Test
    void whoHoldsTheCacheFolderDoesNotKeepAJdkFromBeingFetched() throws Exception {
        assumeThat(Tool.find("flock")).as("needs flock (package util-linux)").isNotNull();
        serveJdk("99.0.1");
        Path cache = Files.createDirectories(home.resolve(".cache/telpher"));
        Process holder =
                new ProcessBuilder(
                                "flock",
                                cache.toString(),
                                "sh",
                                "-c",
                                "echo locked; exec sleep 100")
                        .start();
        try {
            assertThat(holder.inputReader().readLine()).isEqualTo("locked");
            assertThat(run("jdk").status()).isZero();
            assertThat(holder.isAlive()).as("it has not waited for it").isTrue();
        } finally {
            holder.descendants().forEach(ProcessHandle::destroyForcibly);
            holder.waitFor();
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"echo Apache Maven 3.6.3", "exit 127"})
    void buildsByTheWrapperWhereMavenIsTooOldOrMissing(String answer) throws Exception {
        environment.put("JAVA_HOME", jdk(temp.resolve("jdk-25"), "25.0.3").toString());
        Files.move(bin.resolve("mvn"), tree.resolve("mvnw"));
        Script.write(bin.resolve("mvn"), answer + "\n");

        assertThat(run("bench").status()).isZero();
        assertThat(Files.readAllLines(mavenCalls)).singleElement().asString().contains("package");
    }

    @Test
    void buildsAgainWhenASourceIsNewer() throws Exception {
        environment.put("JAVA_HOME", jdk(temp.resolve("jdk-25"), "25.0.3").toString());
        run("bench");
        Files.setLastModifiedTime(
                tree.resolve("cli/src/main/java/Main.java"),
                FileTime.from(Instant.now().plusSeconds(5)));

        environment.put("TELPHER_NO_BUILD", "1");
        assertThat(run("bench").errors()).isEmpty();
        environment.remove("TELPHER_NO_BUILD");

        assertThat(run("bench").errors())
                .isEqualTo("telpher: building telpher (sources changed)…\n");
        assertThat(Files.readAllLines(mavenCalls))
                .hasSize(2)
                .allMatch(call -> call.startsWith(environment.get("JAVA_HOME") + " "));
    }

    @Test
    void showsTheLogOfAFailedBuildAndTriesAgainNextTime() throws Exception {
        environment.put("JAVA_HOME", jdk(temp.resolve("jdk-25"), "25.0.3").toString());
        Path breakage = Files.createFile(temp.resolve("break-maven"));

        Script.Result broken = run("bench");

        assertThat(broken.status()).isEqualTo(1);
        assertThat(broken.output()).isEmpty();
        assertThat(broken.errors())
                .contains(
                        "the compiler is unhappy",
                        tree.resolve("target/telpher-build.log").toString());

        Files.delete(breakage);
        assertThat(run("bench").status()).isZero();
    }

    @Test
    void worksThroughALinkFromAnyFolder() throws Exception {
        environment.put("JAVA_HOME", jdk(temp.resolve("jdk-25"), "25.0.3").toString());
        Path link = Files.createSymbolicLink(temp.resolve("a link"), tree.resolve("telpher"));

        Script.Result result =
                new Script(List.of(link.toString(), "bench"), home, environment).await();

        assertThat(result.output()).contains(tree + "/cli/target/dist/lib");
    }

    @Test
    void packsAnImageOfWhatItHasBuilt() throws Exception {
        Path jdk = jdk(temp.resolve("jdk-25"), "25.0.3");
        environment.put("JAVA_HOME", jdk.toString());
        Files.createDirectories(tree.resolve("scripts/image"));
        Script.write(tree.resolve("scripts/image/build.sh"), "echo \"$JAVA_HOME $*\"; exit 3\n");

        Script.Result image = run("image");

        assertThat(image.output()).isEqualTo(jdk + " image " + tree + "/target\n");
        assertThat(image.status()).as("that of the script").isEqualTo(3);
        assertThat(Files.readAllLines(mavenCalls))
                .hasSize(1)
                .noneMatch(call -> call.contains("integration-test"));

        assertThat(run("image", "tests").output()).isEqualTo(jdk + " tests " + tree + "/target\n");
        assertThat(Files.readAllLines(mavenCalls))
                .last()
                .asString()
                .contains("pre-integration-test");
        assertThat(run("image", "moon"))
                .satisfies(
                        result -> assertThat(result.status()).isEqualTo(2),
                        result -> assertThat(result.errors()).contains("moon"));
    }

    @Test
    void replacesItsJvmOptionsByTheUsers() throws Exception {
        environment.put("JAVA_HOME", jdk(temp.resolve("jdk-25"), "25.0.3").toString());
        environment.put("TELPHER_JAVA_OPTS", "-Xmx1g -XX:+UseZGC");

        assertThat(run("bench").output()).contains("-Xmx1g -XX:+UseZGC").doesNotContain("SerialGC");
    }

    /// Makes a JDK whose `java` prints its home and its arguments.
    private static Path jdk(Path jdk, String version) throws IOException {
        Files.createDirectories(jdk.resolve("bin"));
        Files.writeString(jdk.resolve("release"), "JAVA_VERSION=\"" + version + "\"\n");
        Script.write(jdk.resolve("bin/javac"), "");
        Script.write(
                jdk.resolve("bin/java"),
                """
                [ "$1" = -version ] && echo 'openjdk version "%s" 2099-01-01' >&2 && exit
                echo "$(dirname "$(dirname "$0")") $*"
                """
                        .formatted(version));
        return jdk;
    }

    /// Offers a JDK for download and hides the installed ones from the launcher.
    private void serveJdk(String version) throws Exception {
        assumeThat(Tool.find("curl") != null || Tool.find("wget") != null)
                .as("needs curl (package curl) or wget (package wget)")
                .isTrue();
        jdk(temp.resolve("archive/jdk"), version);
        Path file = temp.resolve("archive.tar.gz");
        Process tar =
                new ProcessBuilder("tar", "-czf", file.toString(), "-C", temp + "/archive", "jdk")
                        .inheritIO()
                        .start();
        assertThat(tar.waitFor()).isZero();
        archive = Files.readAllBytes(file);
        environment.put("TELPHER_IGNORE_INSTALLED_JDK", "1");
        environment.put(
                "TELPHER_JDK_URL",
                "http://127.0.0.1:" + server.getAddress().getPort() + "/jdk.tar.gz");
        environment.put("TELPHER_JDK_SHA256", sha256(archive));
        environment.put("no_proxy", "127.0.0.1");
    }

    private static String sha256(byte[] bytes) throws Exception {
        return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    }

    private static List<Path> filesIn(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(Files::isRegularFile).toList();
        }
    }

    private Script.Result run(String... arguments) throws Exception {
        return start(arguments).await();
    }

    private Script start(String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(tree.resolve("telpher").toString()));
        command.addAll(List.of(arguments));
        return new Script(command, tree, environment);
    }
}

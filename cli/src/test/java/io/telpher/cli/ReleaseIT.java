package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import java.util.stream.Stream;
import javax.tools.ToolProvider;
import org.jsoup.Jsoup;
import org.jsoup.nodes.Element;
import org.jsoup.parser.Parser;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// What a release promises besides its tests: `scripts/release-check.sh` on the tree at hand.
@Timeout(900)
class ReleaseIT {
    private static final List<String> MODULES =
            List.of("telpher-engine", "telpher-bootstrap", "telpher-cli");

    @TempDir Path temp;

    private Script.Result check(String... arguments) throws Exception {
        Path tree = Script.sourceTree();
        assumeTrue(Files.exists(tree.resolve(".git")), "this is no git checkout");
        return check(tree, arguments);
    }

    private Script.Result check(Path tree, String... arguments) throws Exception {
        Map<String, String> environment = new TreeMap<>(System.getenv());
        environment.put("JAVA_HOME", System.getProperty("java.home"));
        List<String> command = new ArrayList<>();
        command.add(tree.resolve("scripts/release-check.sh").toString());
        command.addAll(List.of(arguments));
        Script.Result result = new Script(command, temp, environment).await();
        assumeTrue(
                !result.errors().matches("(?s).*(offline mode|Could not transfer|Unknown host).*"),
                "the plug-ins of a release cannot be fetched here");
        return result;
    }

    /// The repository's files are those that Maven Central asks for, less the signatures. The
    /// jars of classes are, byte for byte, those that were built in another folder for the other
    /// tests; the rest is made once more, from those classes, and compared.
    @Test
    void aReleaseIsCompleteAndTheSameWhereverItIsBuilt() throws Exception {
        Path repository = temp.resolve("repository");
        Script.Result deployed = check("deploy", repository.toString());
        assertThat(deployed.status()).as(deployed.errors()).isZero();

        Map<String, Path> files = files(repository);
        assertThat(files.keySet())
                .as("proof is not published, nor are tests")
                .noneMatch(name -> name.contains("proof") || name.contains("-tests"));
        assertThat(files).containsKey("telpher-parent.pom");
        for (String module : MODULES) {
            assertThat(files)
                    .containsKeys(
                            module + ".jar",
                            module + ".pom",
                            module + "-sources.jar",
                            module + "-javadoc.jar",
                            module + "-cyclonedx.json");
            assertThat(files.get(module + ".jar")).hasSameBinaryContentAs(built(module));
            assertThat(entries(files.get(module + "-sources.jar"))).contains("module-info.java");
            assertThat(entries(files.get(module + ".jar"))).contains("module-info.class");
            assertThat(Files.readString(files.get(module + ".pom")))
                    .doesNotContain("example", "localhost");
        }
        assertThat(entries(files.get("telpher-engine-javadoc.jar")))
                .contains("io.telpher.engine/io/telpher/Endpoint.html");
        assertThat(Files.readString(files.get("telpher-bootstrap-cyclonedx.json")))
                .contains("\"CycloneDX\"", "telpher-engine", "jedis")
                .doesNotContain("junit");

        Script.Result again = check("again", repository.toString());
        assertThat(again.status()).as(again.errors()).isZero();
        assertThat(again.output()).contains("the same 9 files");
    }

    /// From the first release on; what it compares is built, which takes minutes.
    @Test
    void theApiOfTheLastReleaseIsKept() throws Exception {
        Script.Result tags =
                new Script(
                                List.of("git", "tag", "--list", "v*"),
                                Script.sourceTree(),
                                Map.of("PATH", System.getenv("PATH")))
                        .await();
        assumeTrue(!tags.output().isBlank(), "there is no release to compare with (tag v*)");
        Script.Result api = check("api");
        assertThat(api.status()).as(api.output() + api.errors()).isZero();
    }

    /// What Maven Central looks for in each description, whether it stands there or in the
    // parent's.
    @Test
    void everyModuleIsDescribedAsMavenCentralAsks() throws Exception {
        Element parent = description("pom.xml");
        for (String field :
                List.of(
                        "url",
                        "licenses > license > name",
                        "licenses > license > url",
                        "developers > developer > name",
                        "scm > url",
                        "scm > connection",
                        "scm > developerConnection")) {
            assertThat(parent.select("> " + field).text()).as(field).isNotEmpty();
        }
        for (String place : List.of("url", "scm > url", "scm > connection")) {
            assertThat(parent.select("> " + place).text()).contains("${telpher.address}");
        }
        assertThat(parent.attributes())
                .as("Maven would add the module's folder to the address")
                .anyMatch(a -> a.getKey().equals("child.project.url.inherit.append.path"));
        for (String module : MODULES) {
            Element own = description(module.replace("telpher-", "") + "/pom.xml");
            for (String field : List.of("name", "description")) {
                assertThat(own.select("> " + field).text()).as(module).isNotEmpty();
            }
            for (String field : List.of("url", "licenses", "developers", "scm")) {
                assertThat(own.select("> " + field)).as("of the parent alone").isEmpty();
            }
        }
    }

    private static Element description(String file) throws IOException {
        Path pom = Script.sourceTree().resolve(file);
        return Jsoup.parse(Files.readString(pom), "", Parser.xmlParser()).selectFirst("project");
    }

    /// Whatever stands in the tree at hand: a copy of its `pom.xml`, with and without an address.
    @ParameterizedTest
    @CsvSource({"'', 1", "https://telpher.test, 1", "https://telpher.test/people/telpher, 0"})
    void noReleaseWithoutThePublicAddress(String address, int status) throws Exception {
        Path tree = Script.sourceTree();
        Path copy = Files.createDirectories(temp.resolve("tree"));
        String pom =
                Files.readString(tree.resolve("pom.xml"))
                        .replaceFirst("(?s)<modules>.*</modules>", "")
                        .replaceFirst(
                                "<telpher.address */>|<telpher.address>.*</telpher.address>",
                                "<telpher.address>" + address + "</telpher.address>");
        Files.writeString(copy.resolve("pom.xml"), pom);
        for (String file :
                List.of(
                        "scripts/release-check.sh",
                        "mvnw",
                        ".mvn/wrapper/maven-wrapper.properties")) {
            Files.createDirectories(copy.resolve(file).getParent());
            Files.copy(tree.resolve(file), copy.resolve(file), StandardCopyOption.COPY_ATTRIBUTES);
        }
        Script.Result result = check(copy, "address");
        assertThat(result.status()).as(result.errors()).isEqualTo(status);
        if (status != 0) {
            assertThat(result.errors())
                    .contains("telpher.address is '" + address + "'", "parent's pom.xml");
        }
    }

    @Test
    void aBreakOfTheApiIsFoundAndAnAdditionIsNone() throws Exception {
        Path engine = built("telpher-engine");
        Path other = withAnotherClass(engine);

        Script.Result added = check("compare", engine.toString(), other.toString());
        assertThat(added.status()).as(added.errors()).isZero();
        assertThat(added.output()).contains("io.telpher.Other");

        Script.Result broken = check("compare", other.toString(), engine.toString());
        assertThat(broken.status()).isEqualTo(1);
        assertThat(broken.output()).contains("io.telpher.Other");
        assertThat(broken.errors()).contains("breaks programs");
    }

    /// On a repository of its own: the modules' descriptions are the real ones, their sources are
    /// not, since two builds of those would take minutes.
    @Test
    void aReleaseThatBreaksTheApiOfTheLastOneIsRefused() throws Exception {
        Path tree = repository();
        Path thing = tree.resolve("engine/src/main/java/io/telpher/Thing.java");
        git(tree, "tag", "v0.1.0");
        Script.Result first = check(tree, "api");
        assertThat(first.status()).as(first.errors()).isZero();
        assertThat(first.output()).contains("no release up to HEAD^");

        Files.writeString(
                thing, Files.readString(thing).replace("public static int two", "static int two"));
        git(tree, "commit", "-qam", "Break it");
        // As somebody would who checks what has its tag already.
        git(tree, "tag", "v0.1.1");
        Script.Result second = check(tree, "api");
        assertThat(second.output()).contains("Thing", "two()");
        assertThat(second.errors()).contains("breaks programs written for v0.1.0", "next minor");
        assertThat(second.status()).isEqualTo(1);
    }

    /// A git repository with one commit, of one public class in each module that is compared.
    private Path repository() throws Exception {
        Path tree = Script.sourceTree();
        Path made = Files.createDirectories(temp.resolve("repository"));
        for (String file :
                List.of(
                        "engine/pom.xml",
                        "bootstrap/pom.xml",
                        "scripts/release-check.sh",
                        "mvnw",
                        ".mvn/jvm.config",
                        ".mvn/wrapper/maven-wrapper.properties")) {
            Files.createDirectories(made.resolve(file).getParent());
            Files.copy(tree.resolve(file), made.resolve(file), StandardCopyOption.COPY_ATTRIBUTES);
        }
        Files.writeString(
                made.resolve("pom.xml"),
                Files.readString(tree.resolve("pom.xml"))
                        .replaceFirst(
                                "(?s)<modules>.*</modules>",
                                "<modules><module>engine</module><module>bootstrap</module></modules>"));
        Files.writeString(made.resolve(".gitignore"), "target/\n");
        source(made, "engine", "io.telpher.engine", "io.telpher");
        source(made, "bootstrap", "io.telpher.bootstrap", "io.telpher.bootstrap");
        git(made, "init", "-q");
        git(made, "add", ".");
        git(made, "commit", "-qm", "Begin");
        return made;
    }

    private static void source(Path tree, String folder, String module, String exported)
            throws IOException {
        Path sources = tree.resolve(folder).resolve("src/main/java");
        Path of = Files.createDirectories(sources.resolve(exported.replace('.', '/')));
        Files.writeString(
                sources.resolve("module-info.java"),
                "module %s {%n    exports %s;%n}%n".formatted(module, exported));
        Files.writeString(
                of.resolve("Thing.java"),
                """
                package %s;

                public final class Thing {
                    private Thing() {}

                    public static int one() {
                        return 1;
                    }

                    public static int two() {
                        return 2;
                    }
                }
                """
                        .formatted(exported));
    }

    private void git(Path tree, String... arguments) throws Exception {
        List<String> command =
                new ArrayList<>(
                        List.of(
                                "git",
                                "-c",
                                "user.name=test",
                                "-c",
                                "user.email=test@telpher.test"));
        command.addAll(List.of(arguments));
        Script.Result result = new Script(command, tree, System.getenv()).await();
        assertThat(result.status()).as(result.errors()).isZero();
    }

    /// The jar with one more public class in an exported package.
    private Path withAnotherClass(Path jar) throws IOException {
        Path source = Files.createDirectories(temp.resolve("src")).resolve("Other.java");
        Files.writeString(source, "package io.telpher; public class Other {}");
        int status =
                ToolProvider.getSystemJavaCompiler()
                        .run(null, null, null, "-d", temp.toString(), source.toString());
        assertThat(status).isZero();
        Path made = temp.resolve("other.jar");
        try (JarFile from = new JarFile(jar.toFile());
                OutputStream file = Files.newOutputStream(made);
                JarOutputStream to = new JarOutputStream(file)) {
            for (JarEntry entry : from.stream().toList()) {
                to.putNextEntry(new JarEntry(entry.getName()));
                from.getInputStream(entry).transferTo(to);
            }
            to.putNextEntry(new JarEntry("io/telpher/Other.class"));
            to.write(Files.readAllBytes(temp.resolve("io/telpher/Other.class")));
        }
        return made;
    }

    /// The jar that this test run made.
    private static Path built(String module) throws IOException {
        Path dist = Script.sourceTree().resolve("cli/target/dist/lib");
        try (Stream<Path> jars = Files.list(dist)) {
            return jars.filter(jar -> jar.getFileName().toString().startsWith(module + "-"))
                    .findFirst()
                    .orElseThrow();
        }
    }

    /// What lies in a repository, by name without version.
    private static Map<String, Path> files(Path repository) throws IOException {
        Map<String, Path> found = new TreeMap<>();
        try (Stream<Path> all = Files.walk(repository)) {
            all.filter(file -> file.toString().matches(".*\\.(jar|pom|json)"))
                    .forEach(
                            file -> {
                                String module =
                                        file.getParent().getParent().getFileName().toString();
                                String rest =
                                        file.getFileName()
                                                .toString()
                                                .substring(module.length())
                                                .replaceFirst("^-[0-9][0-9.]*[0-9]", "")
                                                .replaceFirst("^-(SNAPSHOT|[0-9.]+-[0-9]+)", "");
                                found.put(module + rest, file);
                            });
        }
        return found;
    }

    private static List<String> entries(Path jar) throws IOException {
        try (JarFile open = new JarFile(jar.toFile())) {
            return open.stream().map(JarEntry::getName).toList();
        }
    }
}

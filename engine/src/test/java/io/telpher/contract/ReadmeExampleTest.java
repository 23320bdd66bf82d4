package io.telpher.contract;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.RemoteMemory;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Compiles the programs of the README and of docs/architecture.md, and runs them and the README's
/// shell lines, as they stand there.
class ReadmeExampleTest {
    private static final Path TREE = Path.of(Files.exists(Path.of("README.md")) ? "." : "..");
    private static final String SECRET = "correct horse battery staple";

    @TempDir Path folder;

    private final List<Process> processes = new ArrayList<>();

    @AfterEach
    void killAll() {
        for (Process process : processes) {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
        }
    }

    /// Makes the folder look like a source tree that was built.
    @BeforeEach
    void prepare() throws Exception {
        assumeTrue(Files.exists(TREE.resolve("telpher")), "there is no source tree here");
        Matcher built = Pattern.compile("-cp (\\S+)").matcher(readme());
        assertThat(built.find()).isTrue();
        Path classes = folder.resolve(built.group(1));
        Files.createDirectories(classes.getParent());
        URI here = Endpoint.class.getProtectionDomain().getCodeSource().getLocation().toURI();
        Files.createSymbolicLink(classes, Path.of(here)); // a folder, or a jar
        Path launcher = TREE.resolve("telpher");
        Files.copy(launcher, folder.resolve("telpher"), StandardCopyOption.COPY_ATTRIBUTES);
    }

    private static String readme() throws IOException {
        return Files.readString(TREE.resolve("README.md"));
    }

    private static List<String> blocks(String language, String after) throws IOException {
        return blocks(readme(), language, after);
    }

    private static List<String> blocks(String text, String language, String after) {
        int start = text.indexOf(after);
        assertThat(start).as("the page has %s", after).isNotNegative();
        return Pattern.compile("```" + language + "\\n(.*?)```", Pattern.DOTALL)
                .matcher(text.substring(start))
                .results()
                .map(block -> block.group(1))
                .toList();
    }

    /// Compiles the program that follows a file name in the README, without a warning, and saves
    /// it.
    ///
    /// @return the program
    private String program(String file) throws IOException {
        String program = blocks("java", "`" + file + "`:").getFirst();
        compile(file, program);
        return program;
    }

    /// @return the folder of the classes
    private Path compile(String file, String program) throws IOException {
        Path source = Files.writeString(folder.resolve(file), program);
        Path classes = Files.createDirectories(folder.resolve("classes"));
        int result =
                ToolProvider.getSystemJavaCompiler()
                        .run(
                                null,
                                null,
                                null,
                                "-Xlint:all",
                                "-Werror",
                                "-proc:none",
                                "-cp",
                                System.getProperty("java.class.path"),
                                "-d",
                                classes.toString(),
                                source.toString());
        assertThat(result).as("the program %s compiles", file).isZero();
        return classes;
    }

    /// Runs lines of the README.
    ///
    /// @param lines what a reader types, except for building
    /// @param typed what is read from the terminal
    private Process shell(String lines, String typed) throws IOException {
        assertThat(lines).contains("java25() {");
        ProcessBuilder builder =
                new ProcessBuilder("sh", "-ec", lines.replace("./telpher build\n", ""))
                        .directory(folder.toFile())
                        .redirectErrorStream(true);
        builder.environment().put("JAVA_HOME", System.getProperty("java.home"));
        builder.environment().put("TELPHER_NO_DOWNLOAD", "1");
        Process process = builder.start();
        processes.add(process);
        try (var terminal = process.getOutputStream()) {
            terminal.write(typed.getBytes(UTF_8));
        }
        return process;
    }

    private static String output(Process process) throws Exception {
        String output = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
        assertThat(process.exitValue()).as(output).isZero();
        return output;
    }

    @Test
    void twoProcesses() throws Exception {
        String program = program("Hello.java");
        assertThat(readme()).contains("15 lines besides the import");
        assertThat(program.lines().filter(line -> !line.isBlank() && !line.startsWith("import ")))
                .hasSize(15)
                .allMatch(line -> line.length() <= 110);
        Process both = shell(blocks("sh", "`Hello.java`:").getFirst(), "");
        assertThat(output(both)).isEqualTo("got: hello from another process\n");
        assertThat(folder.resolve("address")).doesNotExist();
    }

    @Test
    void twoMachines() throws Exception {
        String program = program("Remote.java");
        String java25 =
                blocks("sh", "`Hello.java`:")
                        .getFirst()
                        .lines()
                        .filter(line -> line.startsWith("java25()"))
                        .findFirst()
                        .orElseThrow();
        List<String> lines = blocks("sh", "`Remote.java`:");
        // One machine has to do, with whatever port is free.
        String port = Integer.toString(Ports.free());
        Files.writeString(folder.resolve("Remote.java"), program.replace("7070", port));
        String onBoth = java25 + "\n" + lines.getFirst();
        String first = lines.get(1).replace("7070", port);
        String second = lines.get(2).replace("FIRST-MACHINE", "localhost");
        Process server = shell(onBoth + first, SECRET + "\n");
        await().atMost(Duration.ofSeconds(60)).until(() -> isListening(Integer.parseInt(port)));
        Process client = shell(onBoth + second, SECRET + "\n");
        assertThat(output(client)).isEmpty();
        assertThat(output(server)).isEqualTo("got 100 bytes: hello from another machine\n");
    }

    private static boolean isListening(int port) throws IOException {
        String needle = "(?s).*:%04X [0:]+ 0A .*".formatted(port);
        for (String table : new String[] {"tcp", "tcp6"}) {
            Path file = Path.of("/proc/net", table);
            if (Files.exists(file) && Files.readString(file).matches(needle)) {
                return true;
            }
        }
        return false;
    }

    /// This process tells one that is connected to it where another endpoint is.
    @Test
    void anAddressTravelsOverConnections() throws Exception {
        String methods =
                blocks(
                                Files.readString(TREE.resolve("docs/architecture.md")),
                                "java",
                                "C tells A, A tells B, B connects to C:")
                        .getFirst();
        String imports = "import io.telpher.*;\nimport java.lang.foreign.*;\nimport java.time.*;\n";
        String program = imports + "class Introduction {\n" + methods + "}\n";
        String classes = compile("Introduction.java", program).toString();
        try (Participant a = new Participant();
                PeerProcess b = PeerProcess.start();
                LocalPeer c = new LocalPeer()) {
            a.open(o -> o);
            b.run(self -> self.open(o -> o));
            c.run(self -> self.open(o -> o));
            b.dial(a);
            Connection toB = a.connection();
            c.dial(a);
            c.tell(self -> introduce(classes, "tell", self.endpoint(), self.connection()));
            introduce(classes, "handOn", a.connection(), toB);
            CompletableFuture<Boolean> accepted = c.begin(Participant::accept);
            b.tell(
                    self ->
                            self.use(
                                    (Connection)
                                            introduce(
                                                    classes,
                                                    "follow",
                                                    self.endpoint(),
                                                    self.connection())));
            Peer.result(accepted);
            byte[] target = c.add("target", Kind.TELPHER, 1000).toBytes();
            b.tell(
                    self -> {
                        self.add("source", Kind.TELPHER, 1000);
                        self.fill("source", 0, 1000, 3);
                        self.write("source", 0, 1000, RemoteMemory.ofBytes(target))
                                .assertDone(1000);
                    });
            c.check("target", 0, 1000, 3);
        }
    }

    /// Calls a method of the page, in whatever process.
    private static Object introduce(String classes, String name, Object... arguments)
            throws Exception {
        URL folder = Path.of(classes).toUri().toURL();
        try (URLClassLoader loader = new URLClassLoader(new URL[] {folder})) {
            for (Method method : loader.loadClass("Introduction").getDeclaredMethods()) {
                if (method.getName().equals(name)) {
                    method.setAccessible(true);
                    return method.invoke(null, arguments);
                }
            }
            throw new AssertionError("the page has no method " + name);
        }
    }
}

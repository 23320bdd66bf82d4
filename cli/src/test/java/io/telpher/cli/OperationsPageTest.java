package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// `docs/operations.md` has what operators look up by its name.
class OperationsPageTest {
    private static final Path ROOT = Path.of("..");
    private static final Path CLI = ROOT.resolve("cli/src/main/java/io/telpher/cli");

    private String page = "";

    @BeforeEach
    void read() throws IOException {
        Path file = ROOT.resolve("docs/operations.md");
        assumeTrue(Files.exists(file), "the sources are not here, only the tests");
        page = Files.readString(file);
    }

    /// @return what a pattern's group matches in files of the sources
    private static Set<String> found(Path folder, String files, String pattern) throws IOException {
        Set<String> found = new TreeSet<>();
        List<Path> all;
        try (Stream<Path> list = Files.list(folder)) {
            all = list.filter(file -> file.getFileName().toString().matches(files)).toList();
        }
        for (Path file : all) {
            Matcher matcher = Pattern.compile(pattern).matcher(Files.readString(file));
            while (matcher.find()) {
                found.add(matcher.group(1));
            }
        }
        return found;
    }

    @Test
    void everyCheckOfDoctor() throws IOException {
        String name = "String name\\(\\) \\{\\s+return \"([a-z-]+)\"";
        assertThat(found(CLI.resolve("doctor"), ".*Check\\.java", name))
                .hasSizeGreaterThan(30)
                .allSatisfy(check -> assertThat(page).contains("`" + check + "`"));
    }

    @Test
    void everyEventOfFlightRecorder() throws IOException {
        Path engine = ROOT.resolve("engine/src/main/java/io/telpher/internal/engine");
        assertThat(found(engine, "Recordings\\.java", "@Name\\(\"(io\\.telpher\\.\\w+)\""))
                .hasSizeGreaterThan(10)
                .allSatisfy(event -> assertThat(page).contains("`" + event + "`"));
    }

    @Test
    void everySeriesForPrometheus() throws IOException {
        Set<String> named = new TreeSet<>();
        Matcher words = Pattern.compile("`((?:telpher|\\.\\.\\.)_[a-z_{},]+)`").matcher(page);
        while (words.find()) {
            expand(words.group(1).replace("...", "telpher_endpoint"), named);
        }
        assertThat(named)
                .containsAll(
                        found(CLI.resolve("watch"), "PrometheusText\\.java", "\"(telpher_\\w+)\""));
    }

    /// As a shell does with braces.
    private static void expand(String text, Set<String> to) {
        int open = text.indexOf('{');
        if (open < 0) {
            to.add(text);
            return;
        }
        int close = text.indexOf('}', open);
        for (String one : text.substring(open + 1, close).split(",")) {
            expand(text.substring(0, open) + one + text.substring(close + 1), to);
        }
    }
}

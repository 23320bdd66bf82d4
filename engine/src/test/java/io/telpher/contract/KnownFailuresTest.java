package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/// `docs/known-failures-elsewhere.md` names tests: they exist.
class KnownFailuresTest {
    private static final Path PAGE = Path.of("../docs/known-failures-elsewhere.md");

    @Test
    void everyRowNamesATestThatExists() throws IOException {
        assumeTrue(Files.exists(PAGE), "the sources are not here, only the tests");
        List<String> missing = new ArrayList<>();
        int rows = 0;
        int pythons = 0;
        for (String line : Files.readAllLines(PAGE)) {
            if (!line.startsWith("| ") || line.startsWith("| where") || line.startsWith("|---")) {
                continue;
            }
            rows++;
            Matcher tests = Pattern.compile("`([A-Z]\\w+)\\.(\\w+)`").matcher(line);
            boolean any = false;
            while (tests.find()) {
                any = true;
                if (!source(tests.group(1)).contains("void " + tests.group(2) + "(")) {
                    missing.add(tests.group());
                }
            }
            Matcher python = Pattern.compile("`(test_\\w+)` \\(`(python/\\S+)`\\)").matcher(line);
            while (python.find()) {
                pythons++;
                Path file = Path.of("..", python.group(2));
                if (!Files.readString(file).contains("def " + python.group(1) + "(")) {
                    missing.add(python.group());
                }
            }
            if (!any) {
                missing.add("no test in: " + line);
            }
        }
        assertThat(missing).isEmpty();
        assertThat(rows).isGreaterThan(40);
        assertThat(pythons).isPositive();
    }

    private static String source(String type) throws IOException {
        for (String module : List.of("engine", "bootstrap", "cli", "proof")) {
            Path tests = Path.of("..", module, "src", "test", "java");
            try (Stream<Path> files = Files.walk(tests)) {
                List<Path> found =
                        files.filter(file -> file.getFileName().toString().equals(type + ".java"))
                                .toList();
                if (!found.isEmpty()) {
                    return Files.readString(found.getFirst());
                }
            }
        }
        return "";
    }
}

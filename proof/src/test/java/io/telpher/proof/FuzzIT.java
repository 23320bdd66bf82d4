package io.telpher.proof;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Lets Jazzer look for inputs that do harm, for a few seconds each; `-Dtelpher.fuzz.seconds=3600`
/// for longer. Each target gets a JVM of its own, since Jazzer rewrites the classes that it runs.
/// Two run at a time, since each is one thread, and no other class beside them.
///
/// An input that does harm is shown, and kept in `target/fuzz`: with its fix it goes to the corpus.
class FuzzIT {
    private static final int SECONDS = Integer.getInteger("telpher.fuzz.seconds", 2);

    @TempDir Path found;

    @ParameterizedTest
    @EnumSource
    @Execution(ExecutionMode.CONCURRENT)
    void nothingHarmfulIsFound(Fuzzed fuzzed) throws IOException, InterruptedException {
        String machine = System.getProperty("os.arch");
        assumeTrue(machine.equals("amd64"), "Jazzer has a native part, and none for " + machine);
        Path kept = Files.createDirectories(Path.of("target", "fuzz").toAbsolutePath());
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(
                List.of(
                        "-ea",
                        "-Xmx512m",
                        "-XX:+UseSerialGC",
                        "-XX:+EnableDynamicAgentLoading",
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        System.getProperty("java.class.path"),
                        "com.code_intelligence.jazzer.Jazzer",
                        "--target_class=" + fuzzed.type.getName(),
                        "--instrumentation_includes=io.telpher.**",
                        "--reproducer_path=" + kept,
                        "-artifact_prefix=" + kept + "/" + fuzzed.type.getSimpleName() + "-",
                        "-max_total_time=" + SECONDS,
                        "-timeout=10",
                        "-max_len=20000",
                        "-print_final_stats=1",
                        // The first folder gets what is found.
                        found.toString(),
                        fuzzed.corpus().toString()));
        Process jazzer =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .directory(kept.toFile())
                        .start();
        jazzer.getOutputStream().close();
        String said = new String(jazzer.getInputStream().readAllBytes(), UTF_8);
        int status = jazzer.waitFor();
        assertThat(status).as("Jazzer on %s:%n%s", fuzzed, said).isZero();
        assertThat(said).as("Jazzer is guided by what the code does").contains(" cov: ");
        System.out.println(fuzzed + ": " + summary(said) + ", found " + count(found));
    }

    private static String summary(String said) {
        return said.lines()
                        .filter(line -> line.startsWith("stat::number_of_executed_units"))
                        .findFirst()
                        .orElseThrow()
                        .replaceAll("\\D+", "")
                + " inputs";
    }

    private static long count(Path folder) throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.count();
        }
    }
}

package io.telpher.proof;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Runs all `*Stress` classes by jcstress, a short while each; `-Dtelpher.stress.millis=60000` for
/// longer. The harness runs in a process of its own and starts a JVM for each.
@Timeout(300)
class JcstressIT {
    private static final int MILLIS = Integer.getInteger("telpher.stress.millis", 1000);

    /// How many classes there are: one that is not found is not run either.
    private static final int TESTS = 9;

    @TempDir Path folder;

    @Test
    void noForbiddenOutcomeIsSeen() throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(
                List.of(
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        System.getProperty("java.class.path"),
                        "org.openjdk.jcstress.Main",
                        "-v",
                        "-f=1",
                        "-iters=2",
                        "-time=" + MILLIS / 2,
                        // One pair of actors at a time, on whatever processors there are.
                        "-c=2",
                        "-af=NONE",
                        "-sc=false",
                        // Rings are not cheap to make: few at a time, used again.
                        "-strideSize=32",
                        "-strideCount=1",
                        "-jvmArgs=--enable-native-access=ALL-UNNAMED -ea"));
        Process harness =
                new ProcessBuilder(command)
                        .redirectErrorStream(true)
                        .directory(folder.toFile())
                        .start();
        harness.getOutputStream().close();
        String said = new String(harness.getInputStream().readAllBytes(), UTF_8);
        assertThat(harness.waitFor()).as(said).isZero();
        Matcher results = Pattern.compile("Results: (\\d+) planned; (\\d+) passed").matcher(said);
        int passed = 0;
        while (results.find()) {
            passed = Integer.parseInt(results.group(2));
        }
        assertThat(passed).as(said).isEqualTo(TESTS);
        said.lines()
                .filter(line -> line.matches(" +-?\\d+, .*"))
                .distinct()
                .forEach(System.out::println);
    }
}

package io.telpher.cli.bench;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Runs `telpher bench --pattern`, with more ranks than two.
class BenchPatternTest {
    @TempDir Path temp;

    @ParameterizedTest
    @ValueSource(strings = {"ring", "all-to-all", "incast"})
    void aPatternRunsManyProcesses(String pattern) throws IOException {
        Path json = temp.resolve("out.json");
        Tool.Output output =
                BenchProcess.run(
                        Map.of(),
                        "--path=mapped",
                        "--op=write,notify",
                        "--sizes=4K",
                        "--depth=2",
                        "--pattern=" + pattern,
                        "--ranks=3",
                        "--seconds=0.05",
                        "--json=" + json);
        assertThat(output.exitCode()).as(output.error() + output.text()).isZero();
        assertThat(output.text()).contains("3 ranks", "all data right");
        assertThat(json).content().contains(pattern + " of 3");
        boolean incast = pattern.equals("incast");
        assertThat(output.text().contains("fairness")).isEqualTo(incast);
        Map<String, Object> fairness =
                BenchProcess.metrics(json)
                        .get("fairness, notify of 4K at depth 2, incast of 3 over mapped");
        if (incast) {
            assertThat(fairness)
                    .containsEntry("unit", "Jain's index")
                    .containsEntry("reference", 1L);
            // Of two senders: 0.5 when one of them gets everything.
            assertThat(BenchProcess.value(fairness, "value")).isBetween(0.5, 1.0);
        } else {
            assertThat(fairness).isNull();
        }
    }

    @Test
    void aRankThatIsKilledEndsItWithAMessage() throws Exception {
        Path text = temp.resolve("text");
        Path errors = temp.resolve("errors");
        Process bench =
                new ProcessBuilder(
                                BenchProcess.command(
                                        "--path=mapped",
                                        "--op=write",
                                        "--sizes=4K",
                                        "--depth=2",
                                        "--pattern=all-to-all",
                                        "--ranks=3",
                                        "--seconds=60"))
                        .redirectOutput(text.toFile())
                        .redirectError(errors.toFile())
                        .start();
        try {
            // The ranks are connected when the head of the table is printed.
            await().atMost(Duration.ofSeconds(60))
                    .until(() -> Files.readString(text).contains("path mapped"));
            List<ProcessHandle> ranks = bench.children().toList();
            assertThat(ranks).hasSize(2);
            ranks.getLast().destroyForcibly();
            assertThat(bench.waitFor(50, TimeUnit.SECONDS)).as("it ends").isTrue();
            assertThat(bench.exitValue()).as(Files.readString(errors)).isEqualTo(1);
            assertThat(errors).content().startsWith("telpher bench: ").doesNotContain("\tat ");
            assertThat(text).content().doesNotContain("all data right");
            await().atMost(Duration.ofSeconds(20)).until(() -> !ranks.getFirst().isAlive());
        } finally {
            Tool.end(bench);
        }
    }
}

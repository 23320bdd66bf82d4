package io.telpher.cli.soak;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.cli.JavaCommand;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/// Runs `telpher soak` as a process of its own.
class SoakTest {
    private static final int LIMIT_SECONDS = 300;

    @TempDir Path folder;
    private final List<Process> started = new ArrayList<>();

    @AfterEach
    void end() {
        started.forEach(Process::destroyForcibly);
    }

    private Process start(String... arguments) throws IOException {
        List<String> all = new ArrayList<>(List.of("soak", "--every", "1"));
        all.addAll(List.of(arguments));
        List<String> command =
                JavaCommand.of(List.of("-Djava.io.tmpdir=" + folder), all.toArray(String[]::new));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        started.add(process);
        return process;
    }

    private static String output(Process process) throws Exception {
        String text = new String(process.getInputStream().readAllBytes(), UTF_8);
        assertThat(process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS)).isTrue();
        return text;
    }

    private List<String> names() throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(f -> f.getFileName().toString())
                    .filter(name -> !name.startsWith("hsperf"))
                    .toList();
        }
    }

    @Test
    void everyPathSurvivesEveryFault() throws Exception {
        Process soak = start("--minutes", "0.35");
        String text = output(soak);
        assertThat(soak.exitValue()).as(text).isZero();
        assertThat(text)
                .contains("soak of 3 ranks over mapped,cma,shm-ring,tcp,self, seed ")
                .containsPattern("[1-9][0-9,]* checked")
                .as("one or two of the seven may have met a rank that was just down")
                .containsPattern("faults \\((?:[a-z ]+ [1-9][0-9]*, ){4,}")
                .endsWith("all right\n");
        assertThat(names()).isEmpty();
    }

    @Test
    void aByteThatChangesIsFound() throws Exception {
        Path events = folder.resolve("events");
        Process soak = start("--plant", "FLIP", "--path", "tcp,mapped", "--folder", "" + events);
        String text = output(soak);
        assertThat(soak.exitValue()).as(text).isEqualTo(1);
        assertThat(text)
                .containsPattern(
                        "FAILED: .*(byte \\d+ of slot 0 is|came before its bytes|read \\w+: byte)")
                .contains("the last events of every rank are in " + events);
        assertThat(events.resolve("rank-0.events")).content().contains("posts write");
        assertThat(events.resolve("driver.events")).content().contains("FAILED");
        assertThat(events.resolve("driver.events")).content().doesNotContain("telpher1:");
    }

    /// By a line in the middle: two come during the warm-up, and the end after a minute.
    @Test
    void everythingThatLeaksIsFound() throws Exception {
        Process soak =
                start("--plant", "LEAK", "--minutes", "1", "--line", "14", "--path", "shm-ring");
        String text = output(soak);
        assertThat(soak.exitValue()).as(text).isEqualTo(1);
        assertThat(text)
                .containsPattern("\n0:00:1[4-9]  [0-9,]+ operations, .*; wrong 0; warming up\n")
                .containsPattern("\n0:00:[45][0-9]  .*; wrong 0; something leaks: descriptors of")
                .contains("FAILED: something leaks: descriptors of rank 0")
                .contains("; threads of rank 0")
                .contains("; MB of memory of rank 0");
    }

    @Test
    void aRankThatEndsByItselfIsFound() throws Exception {
        Process soak = start("--plant", "DIE", "--path", "self");
        String text = output(soak);
        assertThat(soak.exitValue()).as(text).isEqualTo(1);
        assertThat(text).contains("rank 1 (process ").contains("ended by itself with exit code 7");
    }

    @Test
    void aSignalEndsItWithTheVerdictSoFar() throws Exception {
        Process soak = start("--path", "cma");
        BufferedReader out =
                new BufferedReader(new InputStreamReader(soak.getInputStream(), UTF_8));
        assertThat(out.readLine()).startsWith("soak of 3 ranks over cma");
        List<ProcessHandle> ranks = soak.descendants().toList();
        while (ranks.size() < 3) {
            Thread.sleep(20);
            ranks = soak.descendants().toList();
        }
        soak.toHandle().destroy(); // SIGTERM, and its output stays readable
        assertThat(out.readLine()).contains("operations", "wrong 0");
        assertThat(out.readLine()).isEqualTo("interrupted; nothing wrong so far");
        assertThat(out.readLine()).isNull();
        assertThat(soak.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS)).isTrue();
        assertThat(soak.exitValue()).isEqualTo(128 + 15);
        for (ProcessHandle rank : ranks) {
            rank.onExit().get(20, TimeUnit.SECONDS);
        }
        assertThat(names()).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "--minutes=0",
                "--minutes=soon",
                "--ranks=1",
                "--path=moon",
                "--transport=moon",
                "--every=0",
                "--line=0",
                "--metrics=9464"
            })
    void wrongOptionsAreNamedAndEndWithTwo(String option) {
        StringWriter errors = new StringWriter();
        CommandLine line = new CommandLine(new SoakCommand()).setErr(new PrintWriter(errors));
        assertThat(line.execute(option)).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).contains(option.split("=")[0]).doesNotContain("\tat ");
    }

    @Test
    void pathsAndTransportsThatExcludeEachOtherAreNamed() {
        StringWriter errors = new StringWriter();
        CommandLine line = new CommandLine(new SoakCommand()).setErr(new PrintWriter(errors));
        assertThat(line.execute("--path=cma", "--transport=tcp")).isEqualTo(2);
        assertThat(errors.toString()).contains("no path is left");
    }
}

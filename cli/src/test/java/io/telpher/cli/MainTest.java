package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

class MainTest {
    private final StringWriter output = new StringWriter();
    private final StringWriter errors = new StringWriter();

    @Test
    void versionNamesTheJvmAndTheSystem() {
        assertThat(run("--version")).isZero();
        assertThat(output.toString())
                .startsWith("telpher ")
                .contains("Java " + Runtime.version(), System.getProperty("os.arch"));
    }

    @Test
    void usageWithoutACommandIsAnError() {
        assertThat(run()).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).startsWith("Missing command").contains("Usage: telpher");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "nonsense",
                "--nonsense",
                "bench --nonsense",
                "soak --nonsense",
                "doctor --nonsense",
                "doctor one two",
                "explain --nonsense",
                "topo --nonsense",
                "topo --xml --json",
                "config nonsense",
                "completion",
                "help nonsense"
            })
    void wrongUsageEndsWithTwo(String arguments) {
        assertThat(run(arguments.split(" "))).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).isNotBlank().doesNotContain("\tat ");
        assertThat(output.toString()).isEmpty();
    }

    @Test
    void aMisspeltCommandGetsAProposal() {
        assertThat(run("docter")).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).contains("docter", "Did you mean", "telpher doctor");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "bench",
                "soak",
                "doctor",
                "explain",
                "topo",
                "config",
                "completion",
                "top",
                "serve-metrics",
                "rendezvous",
                "fullmesh"
            })
    void helpIsNoError(String command) {
        assertThat(run(command.isEmpty() ? new String[] {"help"} : new String[] {"help", command}))
                .isZero();
        assertThat(output.toString()).contains("Usage: telpher").doesNotContain("doctor-helper");
        assertThat(errors.toString()).isEmpty();
    }

    private int run(String... arguments) {
        return Main.commandLine()
                .setOut(new PrintWriter(output))
                .setErr(new PrintWriter(errors))
                .execute(arguments);
    }
}

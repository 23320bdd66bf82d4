package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import org.junit.jupiter.api.Test;
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

    private int run(String... arguments) {
        return Main.commandLine()
                .setOut(new PrintWriter(output))
                .setErr(new PrintWriter(errors))
                .execute(arguments);
    }
}

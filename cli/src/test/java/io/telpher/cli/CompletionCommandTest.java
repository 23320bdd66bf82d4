package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

class CompletionCommandTest {
    @TempDir Path folder;

    private static String script(String shell) {
        StringWriter output = new StringWriter();
        CommandLine line = Main.commandLine().setOut(new PrintWriter(output));
        assertThat(line.execute("completion", shell)).isZero();
        return output.toString();
    }

    @Test
    void bashCompletesCommandsAndOptions() throws IOException {
        assumeTrue(Tool.find("bash") != null, "needs the package bash");
        Path file = Files.writeString(folder.resolve("script"), script("bash"));
        assertThat(complete(file, "telpher do")).isEqualTo("doctor");
        assertThat(complete(file, "telpher doctor --js")).isEqualTo("--json");
        assertThat(complete(file, "telpher topo --sv")).isEqualTo("--svg");
        assertThat(complete(file, "telpher completion z")).isEqualTo("zsh");
        assertThat(complete(file, "telpher bench-")).as("hidden commands").isEmpty();
    }

    private static String complete(Path script, String words) {
        int last = words.split(" ").length - 1;
        String ask =
                "source %s; COMP_WORDS=(%s); COMP_CWORD=%d; _complete_telpher;"
                                .formatted(script, words, last)
                        + " printf '%s ' \"${COMPREPLY[@]}\"";
        Tool.Output output = Tool.run(List.of("bash", "-c", ask), Map.of(), 20);
        assertThat(output.exitCode()).as(output.error()).isZero();
        return output.text().strip();
    }

    @Test
    void zshReadsTheScript() throws IOException {
        assertThat(script("zsh")).startsWith("autoload").contains("bashcompinit", "doctor");
        String zsh = Tool.find("zsh");
        assumeTrue(zsh != null, "needs the package zsh");
        Path file = Files.writeString(folder.resolve("script"), script("zsh"));
        Tool.Output output = Tool.run(List.of(zsh, "-f", file.toString()), Map.of(), 20);
        assertThat(output.exitCode()).as(output.error()).isZero();
    }

    @Test
    void otherShellsAreWrongUsage() {
        StringWriter errors = new StringWriter();
        CommandLine line = Main.commandLine().setErr(new PrintWriter(errors));
        assertThat(line.execute("completion", "fish")).isEqualTo(CommandLine.ExitCode.USAGE);
        assertThat(errors.toString()).contains("fish", "bash", "zsh");
    }
}

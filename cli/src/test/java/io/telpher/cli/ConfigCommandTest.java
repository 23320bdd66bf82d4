package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

class ConfigCommandTest {
    private final StringWriter output = new StringWriter();
    private final StringWriter errors = new StringWriter();

    private int show(Map<String, String> environment, String... arguments) {
        ConfigCommand command = new ConfigCommand();
        CommandLine line =
                new CommandLine(command)
                        .setOut(new PrintWriter(output))
                        .setErr(new PrintWriter(errors));
        line.parseArgs(arguments);
        return command.show(environment);
    }

    @Test
    void originsAreShown() {
        assertThat(show(Map.of("TELPHER_LANES", "3", "NCCL_SOCKET_IFNAME", "eth7"))).isZero();
        assertThat(output.toString().lines())
                .anyMatch(l -> l.matches("lanes +3 +TELPHER_LANES +TELPHER_LANES"))
                .anyMatch(l -> l.matches("interfaces +eth7 +NCCL_SOCKET_IFNAME .*"))
                .anyMatch(l -> l.matches("deadline +30s +default +TELPHER_DEADLINE"));
        assertThat(errors.toString()).isEmpty();
    }

    @Test
    void variablesOfDevicesHaveNcclsFormBesideTheirOwn() {
        assertThat(
                        show(
                                Map.of(
                                        "NCCL_IB_HCA", "=mlx5_0:1",
                                        "NCCL_IB_TC", "106",
                                        "TELPHER_IB_TC", "41",
                                        "TELPHER_IB_HCAS", "mlx5")))
                .isZero();
        assertThat(output.toString().lines())
                .anyMatch(l -> l.matches("- +=mlx5_0:1 +NCCL_IB_HCA +TELPHER_IB_HCA"))
                .anyMatch(l -> l.matches("- +41 +TELPHER_IB_TC +TELPHER_IB_TC"))
                .anyMatch(l -> l.matches("- +- +default +TELPHER_P2P_LEVEL"));
        assertThat(errors.toString().lines())
                .singleElement()
                .asString()
                .contains("TELPHER_IB_HCAS", "did you mean TELPHER_IB_HCA?");
    }

    @Test
    void jsonHasOneObjectForEachSetting() {
        assertThat(show(Map.of("TELPHER_LANES", "3"), "--json")).isZero();
        assertThat(output.toString().lines())
                .allMatch(l -> l.startsWith("{\"option\":") && l.endsWith("}"))
                .anyMatch(
                        l ->
                                l.contains(
                                        "\"value\":\"3\",\"origin\":\"TELPHER_LANES\","
                                                + "\"variable\":\"TELPHER_LANES\""));
    }

    @Test
    void whatCannotBeUnderstoodEndsWithOne() {
        assertThat(show(Map.of("TELPHER_PORT", "x"))).isEqualTo(CommandLine.ExitCode.SOFTWARE);
        assertThat(errors.toString()).contains("TELPHER_PORT=x", "whole number");
        assertThat(output.toString()).isEmpty();
    }

    @Test
    void misspeltVariablesAreNamedAndSecretsAreNot() {
        Map<String, String> environment =
                Map.of("TELPHER_PROT", "1", "TELPHER_SECRET", "correct horse battery");
        assertThat(show(environment)).isZero();
        assertThat(errors.toString()).contains("TELPHER_PROT", "did you mean TELPHER_PORT?");
        assertThat(output.toString() + errors).doesNotContain("horse");
    }

    @Test
    void everyVariableOfTheLaunchersIsKnown() throws IOException {
        // The abbreviated form in its comment, `TELPHER_JDK_URL, _JDK_SHA256`, does not match.
        String launchers =
                Files.readString(Path.of("..", "telpher"))
                        + Files.readString(Path.of("..", "scripts", "image", "telpher"));
        Matcher names = Pattern.compile("TELPHER_[A-Z0-9_]*[A-Z0-9]").matcher(launchers);
        TreeSet<String> unknown = new TreeSet<>();
        while (names.find()) {
            unknown.addAll(Settings.unknown(Map.of(names.group(), "")));
        }
        assertThat(unknown).as("add them to Settings.TOOLS").isEmpty();
    }
}

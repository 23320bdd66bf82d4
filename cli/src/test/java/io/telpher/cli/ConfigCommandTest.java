package io.telpher.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
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
                .anyMatch(l -> l.matches("- +- +default +TELPHER_P2P_LEVEL"))
                .anyMatch(l -> l.matches("- +1 +default +TELPHER_CUMEM_ENABLE"))
                .anyMatch(l -> l.matches("- +17 +default +TELPHER_IB_TIMEOUT"))
                .anyMatch(l -> l.matches("- +7 +default +TELPHER_IB_RETRY_CNT"));
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
    void soDoesOneOfADeviceAlsoWhereThatIsMissing() {
        assertThat(show(Map.of("TELPHER_IB_TC", "banana")))
                .isEqualTo(CommandLine.ExitCode.SOFTWARE);
        assertThat(errors.toString()).contains("TELPHER_IB_TC=banana", "from -1 to 255");
        assertThat(output.toString()).isEmpty();
        assertThat(show(Map.of("TELPHER_P2P_DISABLE", "true")))
                .isEqualTo(CommandLine.ExitCode.SOFTWARE);
        assertThat(errors.toString()).contains("TELPHER_P2P_DISABLE=true", "correct or unset it");
        assertThat(show(Map.of("NCCL_IB_TC", "banana"))).as("another program's").isZero();
        assertThat(output.toString().lines())
                .anyMatch(l -> l.matches("- +0 +default +TELPHER_IB_TC"));
    }

    @Test
    void ncclsVariablesOfGpusAreShownAsFarAsTheyCount() {
        assertThat(
                        show(
                                Map.of(
                                        "NCCL_P2P_DISABLE", "yes",
                                        "NCCL_P2P_LEVEL", "pxb",
                                        "NCCL_P2P_DIRECT_DISABLE", "0x1",
                                        "NCCL_CUMEM_ENABLE", "off")))
                .isZero();
        assertThat(output.toString().lines())
                .anyMatch(l -> l.matches("- +0 +default +TELPHER_P2P_DISABLE"))
                .anyMatch(l -> l.matches("- +- +default +TELPHER_P2P_LEVEL"))
                .anyMatch(
                        l ->
                                l.matches(
                                        "- +0x1 +NCCL_P2P_DIRECT_DISABLE"
                                                + " +TELPHER_P2P_DIRECT_DISABLE"))
                .anyMatch(l -> l.matches("- +1 +default +TELPHER_CUMEM_ENABLE"));
    }

    @Test
    void ofNcclsSwitchesOfPeersTheOneThatDecidesIsShown() {
        Map<String, String> both = Map.of("NCCL_P2P_DISABLE", "1", "NCCL_P2P_LEVEL", "PXB");
        assertThat(show(both)).isZero();
        assertThat(output.toString().lines())
                .anyMatch(l -> l.matches("- +1 +NCCL_P2P_DISABLE +TELPHER_P2P_DISABLE"))
                .anyMatch(l -> l.matches("- +- +default +TELPHER_P2P_LEVEL"));
        output.getBuffer().setLength(0);
        assertThat(show(Map.of("NCCL_P2P_DISABLE", "1", "TELPHER_P2P_LEVEL", "sys"))).isZero();
        assertThat(output.toString().lines())
                .anyMatch(l -> l.matches("- +0 +default +TELPHER_P2P_DISABLE"))
                .anyMatch(l -> l.matches("- +sys +TELPHER_P2P_LEVEL +TELPHER_P2P_LEVEL"));
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
    void everyVariableThatIsReadIsKnown() throws IOException {
        Path tree = Script.sourceTree();
        assumeThat(tree.resolve("engine/src/main")).as("a source tree").isDirectory();
        List<Path> sources = new ArrayList<>(List.of(tree.resolve("telpher")));
        for (String folder :
                List.of("scripts/image", "engine/src/main", "bootstrap/src/main", "cli/src/main")) {
            sources.addAll(files(tree.resolve(folder)));
        }
        sources.addAll(files(tree.resolve("python/telpher")));
        // Prefixes, such as `TELPHER_IB_`, do not match.
        Pattern name = Pattern.compile("TELPHER_[A-Z0-9_]*[A-Z0-9](?![A-Z0-9_])");
        TreeSet<String> names = new TreeSet<>();
        for (Path source : sources) {
            Matcher found = name.matcher(Files.readString(source));
            while (found.find()) {
                names.add(found.group());
            }
        }
        assertThat(names).contains("TELPHER_NO_BUILD", "TELPHER_LOCAL_RANK", "TELPHER_JARS");
        Map<String, String> all = new HashMap<>();
        names.forEach(each -> all.put(each, ""));
        assertThat(Settings.unknown(all)).as("add them to Settings.TOOLS").isEmpty();
    }

    private static List<Path> files(Path folder) throws IOException {
        try (Stream<Path> all = Files.walk(folder)) {
            return all.filter(
                            file ->
                                    file.toString().matches(".*\\.(java|py|sh)")
                                            || file.endsWith("telpher")
                                            || file.endsWith("telpher-tests"))
                    .filter(Files::isRegularFile)
                    .toList();
        }
    }
}

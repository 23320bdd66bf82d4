package io.telpher.cli.doctor;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.cli.JavaCommand;
import io.telpher.cli.Main;
import io.telpher.cli.Tool;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/// Runs `telpher doctor` and `telpher explain` on this machine, as processes of their own.
class DoctorCommandTest {
    private static final Pattern LINE =
            Pattern.compile(
                    "\\{\"severity\":\"(info|warning|error)\",\"check\":\"([a-z-]+)\","
                            + "\"summary\":\"([^\"]|\\\\\")+\",\"evidence\":\"([^\"]|\\\\\")+\","
                            + "\"remedy\":\"([^\"]|\\\\\")*\",\"verify\":\"([^\"]|\\\\\")*\"}");

    private static final Map<String, String> SECRET =
            Map.of("TELPHER_SECRET", "0123456789abcdef0123");

    @TempDir Path folder;

    private static Tool.Output telpher(Map<String, String> environment, String... arguments) {
        return Tool.run(JavaCommand.of(List.of(), arguments), environment, 100);
    }

    private static EndpointOptions options() {
        return EndpointOptions.DEFAULTS.withTransports(List.of("tcp"));
    }

    @Test
    void everyFindingOfThisMachineIsALineOfJson() {
        Tool.Output output = telpher(Map.of(), "doctor", "--json");
        List<String> checks = new ArrayList<>();
        boolean errors = false;
        for (String line : output.text().lines().toList()) {
            assertThat(line).matches(LINE);
            assertThat(line).doesNotContain("check itself failed");
            checks.add(line.replaceFirst(".*\"check\":\"", "").replaceFirst("\".*", ""));
            errors |= line.startsWith("{\"severity\":\"error\"");
        }
        assertThat(output.exitCode()).as(output.error()).isEqualTo(errors ? 1 : 0);
        assertThat(checks)
                .containsAll(Doctor.checks(null, null).stream().map(Check::name).toList())
                .doesNotContain("peer");
    }

    @Test
    void anErrorEndsWithOneAndTheTableSaysWhatToDo() {
        Tool.Output output = telpher(Map.of("TELPHER_PORT", "seven"), "doctor", "--only=settings");
        assertThat(output.exitCode()).as(output.error() + output.text()).isEqualTo(1);
        assertThat(output.text())
                .containsPattern("error +settings +a variable cannot be understood")
                .containsPattern("seen: +TELPHER_PORT=seven")
                .containsPattern("remedy: +correct or unset it")
                .containsPattern("verify: +telpher config");
        assertThat(output.text() + output.error()).doesNotContain("\tat ");
    }

    @Test
    void aPeerIsVisited() throws IOException {
        try (Endpoint endpoint = Endpoint.open(options())) {
            Path file = Files.writeString(folder.resolve("address"), endpoint.address().text());
            Tool.Output output = telpher(Map.of(), "doctor", "--only=peer,kernel", "@" + file);
            assertThat(output.text())
                    .contains("127.0.0.1:", " answers", "connected; full packets arrive");
            Tool.Output explained = telpher(Map.of(), "explain", "@" + file);
            assertThat(explained.exitCode()).as(explained.error()).isZero();
            assertThat(explained.text()).contains("(tcp ", "in use", "loopback is used");
        }
    }

    @Test
    void aPeerIsExplainedByHostAndPort() {
        EndpointOptions known =
                options()
                        .withInterfaces(List.of("127.0.0.1"))
                        .withSecret(SECRET.get("TELPHER_SECRET").getBytes(UTF_8));
        String where;
        try (Endpoint endpoint = Endpoint.open(known)) {
            where = "127.0.0.1:" + endpoint.port();
            Tool.Output explained = telpher(SECRET, "explain", where);
            assertThat(explained.exitCode()).as(explained.error()).isZero();
            assertThat(explained.text()).contains("(tcp ", "in use", where);
        }
        Tool.Output gone = telpher(SECRET, "explain", where);
        assertThat(gone.exitCode()).isEqualTo(1);
        assertThat(gone.text()).startsWith("no connection with endpoint at [" + where + "]");
    }

    @Test
    void aWrongSecretAndADeadPeerAreToldApart() throws IOException {
        Path file;
        EndpointOptions known =
                options()
                        .withInterfaces(List.of("127.0.0.1"))
                        .withSecret("another secret, another".getBytes(UTF_8));
        try (Endpoint endpoint = Endpoint.open(known)) {
            file = Files.writeString(folder.resolve("address"), endpoint.address().text());
            String port = endpoint.explain().replaceFirst("(?s).*127\\.0\\.0\\.1:(\\d+).*", "$1");
            Tool.Output output =
                    telpher(SECRET, "doctor", "--json", "--only=peer", "127.0.0.1:" + port);
            assertThat(output.exitCode()).as(output.error()).isEqualTo(1);
            assertThat(output.text()).contains("refuses this secret").doesNotContain("0123456789");
        }
        Tool.Output output = telpher(Map.of(), "doctor", "--json", "--only=peer", "@" + file);
        assertThat(output.exitCode()).as(output.error()).isEqualTo(1);
        assertThat(output.text()).contains("nobody answers at", "no connection with the peer");
        assertThat(telpher(Map.of(), "explain", "@" + file))
                .satisfies(
                        o -> assertThat(o.exitCode()).isEqualTo(1),
                        o -> assertThat(o.text()).contains("no connection with", "127.0.0.1:"),
                        o -> assertThat(o.error()).contains("no connection"));
    }

    @Test
    void withoutAPeerThePathsOfThisMachineAreExplained() {
        Tool.Output output = telpher(Map.of(), "explain");
        assertThat(output.exitCode()).as(output.error()).isZero();
        assertThat(output.text())
                .contains("shm: in use", "tcp: in use", "between two processes", "cma: ");
        Tool.Output tcp = telpher(Map.of("TELPHER_TRANSPORTS", "tcp"), "explain");
        assertThat(tcp.text())
                .contains("shm: not among the allowed transports", "writes go by tcp");
    }

    @ParameterizedTest
    @ValueSource(strings = {"nonsense", "@/no/such/file", "telpher1:c2VjcmV0", "::1:70", "[::1]"})
    void whatIsNoPeerIsWrongUsage(String peer) {
        for (String command : List.of("doctor", "explain")) {
            StringWriter errors = new StringWriter();
            int code =
                    new CommandLine(new Main())
                            .addSubcommand(new DoctorCommand())
                            .addSubcommand(new ExplainCommand())
                            .setExpandAtFiles(false)
                            .setErr(new PrintWriter(errors))
                            .execute(command, peer);
            assertThat(code).isEqualTo(2);
            assertThat(errors.toString()).isNotBlank().doesNotContain("c2VjcmV0", "\tat ");
        }
    }

    @Test
    void aCheckThatDoesNotExistIsWrongUsage() {
        StringWriter errors = new StringWriter();
        CommandLine line = new CommandLine(new DoctorCommand()).setErr(new PrintWriter(errors));
        assertThat(line.execute("--only=peer")).isEqualTo(2);
        assertThat(errors.toString()).contains("no check 'peer'", "cpu-quota", "needs a peer");
    }

    @Test
    void aFileWithoutAnAddressIsNamed() throws IOException {
        Path file = Files.write(folder.resolve("noise"), new byte[] {(byte) 0xff, 1, 2});
        Tool.Output output = telpher(Map.of(), "explain", "@" + file);
        assertThat(output.exitCode()).isEqualTo(2);
        assertThat(output.error()).contains(file.toString(), "holds no endpoint address");
    }
}

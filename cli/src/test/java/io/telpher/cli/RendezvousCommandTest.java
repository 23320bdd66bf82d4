package io.telpher.cli;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Endpoint;
import io.telpher.bootstrap.Rendezvous;
import io.telpher.bootstrap.RendezvousOptions;
import io.telpher.bootstrap.RendezvousServer;
import io.telpher.cli.bench.Ports;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

class RendezvousCommandTest {
    private static final String SECRET = "a secret of the command's test";
    private static final Map<String, String> GOOD = Map.of("TELPHER_SECRET", SECRET);
    private final StringWriter errors = new StringWriter();

    private int run(Map<String, String> environment, String... arguments) {
        return new CommandLine(new RendezvousCommand(environment))
                .setErr(new PrintWriter(errors))
                .execute(arguments);
    }

    @Test
    void wrongUsageIsNamed() {
        assertThat(run(GOOD)).isEqualTo(2);
        assertThat(errors.toString()).contains("--listen");
        assertThat(run(GOOD, "--listen", "65536")).isEqualTo(2);
        assertThat(errors.toString()).contains("--listen 65536 is not a TCP port");
        assertThat(run(Map.of("TELPHER_SECRET", "short"), "--listen", "7171")).isEqualTo(2);
        assertThat(errors.toString()).contains("TELPHER_SECRET must have 16 to 64 bytes");
    }

    @Test
    void takenPortIsAFailure() {
        int port = Ports.free();
        try (RendezvousServer server = RendezvousServer.listen(port, SECRET.getBytes(UTF_8))) {
            assertThat(run(GOOD, "--listen", "" + server.port())).isEqualTo(1);
        }
        assertThat(errors.toString()).startsWith("telpher: ").contains("" + port);
    }

    @Test
    void servesUntilASignalComes() throws Exception {
        int port = Ports.free();
        ProcessBuilder builder =
                new ProcessBuilder(
                        JavaCommand.of(
                                List.of(),
                                "rendezvous",
                                "--listen",
                                "" + port,
                                "--metrics",
                                "127.0.0.1:0"));
        builder.environment().put("TELPHER_SECRET", SECRET);
        Process process = builder.redirectErrorStream(true).start();
        try (BufferedReader out =
                        new BufferedReader(new InputStreamReader(process.getInputStream(), UTF_8));
                Endpoint endpoint = Endpoint.open()) {
            String metrics = out.readLine();
            assertThat(metrics).startsWith("metrics on http://127.0.0.1:");
            assertThat(out.readLine()).isEqualTo("rendezvous on port " + port);
            RendezvousOptions options =
                    RendezvousOptions.of(
                            URI.create("tcp://localhost:" + port), "j", SECRET.getBytes(UTF_8));
            try (Rendezvous rendezvous = Rendezvous.open(options)) {
                assertThat(rendezvous.join(0, 1, endpoint.address(), Duration.ofSeconds(30)))
                        .hasSize(1);
                URI page = URI.create(metrics.substring("metrics on ".length()));
                String opened = "telpher_connections_opened_total{pid=\"" + process.pid() + "\"";
                long end = System.nanoTime() + 30_000_000_000L;
                String text = "";
                while (!text.matches("(?s).*" + Pattern.quote(opened) + "[^\n]* [1-9]\n.*")) {
                    assertThat(System.nanoTime()).as(text).isLessThan(end);
                    Thread.sleep(50);
                    try (InputStream in = page.toURL().openStream()) {
                        text = new String(in.readAllBytes(), UTF_8);
                    }
                }
            }
            process.toHandle().destroy(); // SIGTERM, and its output stays readable
            assertThat(process.waitFor(20, TimeUnit.SECONDS)).isTrue();
            assertThat(process.exitValue()).isEqualTo(128 + 15);
            assertThat(out.readLine()).isNull();
        } finally {
            process.destroyForcibly();
        }
    }
}

package io.telpher.cli;

import io.telpher.TelpherException;
import io.telpher.bootstrap.RendezvousServer;
import io.telpher.cli.watch.MetricsOption;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// `telpher rendezvous`.
@Command(
        name = "rendezvous",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Serves the rendezvous where the ranks of jobs exchange addresses, until it is ended"
                    + " by a signal.",
            "",
            "Ranks find it by TELPHER_RENDEZVOUS=tcp://HOST:PORT. They and this server need the same"
                    + " TELPHER_SECRET (16 to 64 bytes).%n"
        },
        footer = {"", "Exit code: 1 it cannot listen, 2 wrong usage, 128 + n ended by signal n."})
public final class RendezvousCommand implements Callable<Integer> {
    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Option(
            names = "--listen",
            paramLabel = "PORT",
            required = true,
            description = "TCP port, on every address of this host.")
    private int port;

    @CommandLine.Mixin private MetricsOption metrics;

    private final Map<String, String> environment;

    /// With the variables of this process.
    public RendezvousCommand() {
        this(System.getenv());
    }

    RendezvousCommand(Map<String, String> environment) {
        this.environment = environment;
    }

    @Override
    public Integer call() throws InterruptedException {
        if (port < 1 || port > 65_535) {
            throw wrong("--listen " + port + " is not a TCP port: 1 to 65535");
        }
        byte[] secret = secret();
        try (MetricsOption.Served _ = metrics.start()) {
            RendezvousServer server = RendezvousServer.listen(port, secret);
            Runtime.getRuntime().addShutdownHook(new Thread(server::close));
            PrintWriter out = spec.commandLine().getOut();
            out.println("rendezvous on port " + server.port());
            out.flush();
            new CountDownLatch(1).await(); // a signal ends the JVM
            return CommandLine.ExitCode.OK;
        } catch (TelpherException e) {
            spec.commandLine().getErr().println("telpher: " + e.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
    }

    private byte[] secret() {
        @Nullable String secret = environment.get("TELPHER_SECRET");
        byte[] bytes = secret == null ? new byte[0] : secret.getBytes(StandardCharsets.UTF_8);
        if (bytes.length < 16 || bytes.length > 64) {
            throw wrong(
                    "TELPHER_SECRET must have 16 to 64 bytes, it has %d: take one from head -c 24 /dev/urandom | base64"
                            .formatted(bytes.length));
        }
        return bytes;
    }

    private CommandLine.ParameterException wrong(String message) {
        return new CommandLine.ParameterException(spec.commandLine(), message);
    }
}

package io.telpher.cli.watch;

import io.telpher.internal.observe.MetricsReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import picocli.CommandLine;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// `telpher serve-metrics`.
@Command(
        name = "serve-metrics",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Serves the counters of running processes as a page for Prometheus, until it is ended by a"
                    + " signal.",
            "",
            "It has each process publish about once a second, and disturbs none. It must run"
                    + " as their user, or as root.%n"
        },
        footer = {
            "",
            "Exit code: 1 it cannot listen or a process cannot be read, 2 wrong usage, 128 + n ended"
                    + " by signal n."
        })
public final class ServeMetricsCommand implements Callable<Integer> {
    /// What to show.
    static final class Which {
        @Option(
                names = "--pid",
                paramLabel = "PID",
                description = "This process; may be given more than once.")
        private List<Long> pids = List.of();

        @Option(
                names = "--all",
                description = "Every process of this user, also those that start later.")
        private boolean all;
    }

    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @ArgGroup(multiplicity = "1")
    private Which which = new Which();

    @Option(
            names = "--listen",
            paramLabel = "HOST:PORT",
            defaultValue = "127.0.0.1:9464",
            description =
                    "Where to serve the page; default: ${DEFAULT-VALUE}. Whoever reaches it can read"
                            + " it.")
    private String listen = "";

    @Override
    public Integer call() throws InterruptedException, IOException {
        PrintWriter err = spec.commandLine().getErr();
        InetSocketAddress address;
        try {
            address = MetricsServer.parse(listen);
        } catch (IllegalArgumentException e) {
            throw new CommandLine.ParameterException(
                    spec.commandLine(), "--listen: " + e.getMessage());
        }
        for (long pid : which.pids) {
            try {
                MetricsReader.read(pid);
            } catch (MetricsReader.Gone | MetricsReader.Unreadable e) {
                err.println("telpher serve-metrics: " + e.getMessage());
                return CommandLine.ExitCode.SOFTWARE;
            }
        }
        MetricsServer server;
        try {
            server =
                    MetricsServer.start(
                            address, which.all ? MetricsReader::processes : () -> which.pids);
        } catch (IOException e) {
            err.println(
                    "telpher serve-metrics: cannot listen on %s: %s"
                            .formatted(listen, e.getMessage()));
            return CommandLine.ExitCode.SOFTWARE;
        }
        PrintWriter out = spec.commandLine().getOut();
        out.println("metrics on " + server.url());
        out.flush();
        new CountDownLatch(1).await(); // a signal ends the JVM
        return CommandLine.ExitCode.OK;
    }
}

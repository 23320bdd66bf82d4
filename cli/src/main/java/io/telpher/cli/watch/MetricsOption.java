package io.telpher.cli.watch;

import io.telpher.TelpherException;
import io.telpher.internal.observe.MetricsReader;
import java.io.IOException;
import java.io.PrintWriter;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Option;

/// `--metrics` of commands that run long: a mixin.
public final class MetricsOption {
    /// A page that is served until this is closed.
    public interface Served extends AutoCloseable {
        @Override
        void close();
    }

    @CommandLine.Spec(CommandLine.Spec.Target.MIXEE)
    private CommandLine.Model.CommandSpec command;

    @Option(
            names = "--metrics",
            paramLabel = "HOST:PORT",
            description =
                    "Serves the counters of this process and of those that it starts as a page for"
                            + " Prometheus, such as on 127.0.0.1:9464.")
    private @Nullable String where;

    /// Starts to serve, where that was asked for, and says so in one line.
    ///
    /// @throws CommandLine.ParameterException when the option is not of its form
    /// @throws TelpherException.Unsupported when it cannot listen there
    public Served start() {
        String listen = where;
        if (listen == null) {
            return () -> {};
        }
        InetSocketAddress address;
        try {
            address = MetricsServer.parse(listen);
        } catch (IllegalArgumentException e) {
            throw new CommandLine.ParameterException(
                    command.commandLine(), "--metrics: " + e.getMessage());
        }
        MetricsServer server;
        try {
            server = MetricsServer.start(address, MetricsOption::own);
        } catch (IOException e) {
            throw new TelpherException.Unsupported(
                    "--metrics: cannot listen on %s: %s".formatted(listen, e.getMessage()));
        }
        PrintWriter out = command.commandLine().getOut();
        out.println("metrics on " + server.url());
        out.flush();
        return server::close;
    }

    /// This process and those that it has started, as far as they publish anything.
    private static List<Long> own() throws IOException {
        Set<Long> family =
                Stream.concat(
                                Stream.of(ProcessHandle.current()),
                                ProcessHandle.current().descendants())
                        .map(ProcessHandle::pid)
                        .collect(Collectors.toSet());
        return MetricsReader.processes().stream().filter(family::contains).toList();
    }
}

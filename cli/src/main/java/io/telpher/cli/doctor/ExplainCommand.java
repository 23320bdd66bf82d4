package io.telpher.cli.doctor;

import io.telpher.Connection;
import io.telpher.Endpoint;
import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import io.telpher.cli.PeerArgument;
import java.io.PrintWriter;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/// `telpher explain`.
@Command(
        name = "explain",
        mixinStandardHelpOptions = true,
        description = {
            "Says which paths there are, which one is chosen, and why not the others.",
            "",
            "With a peer: connects, as a program would, and leaves; the peer's program sees a"
                    + " connection that comes and goes. Without: what this machine has, tried with"
                    + " a second process.%n"
        },
        footer = {"", "Exit code: 0 good, 1 no connection, 2 wrong usage."})
public final class ExplainCommand implements Callable<Integer> {
    /// More lanes join after the first; most connections have all of theirs within milliseconds.
    private static final int LANES_MILLIS = 2000;

    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Parameters(
            paramLabel = PeerArgument.LABEL,
            arity = "0..1",
            description =
                    "A file that holds the peer's address, or its host and port; these need its"
                            + " secret in TELPHER_SECRET.")
    private @Nullable String peer;

    @Override
    public Integer call() {
        PrintWriter out = spec.commandLine().getOut();
        EndpointAddress address = peer == null ? null : address(peer);
        try {
            String failure = address == null ? here(out) : there(out, address);
            out.flush();
            if (failure == null) {
                return CommandLine.ExitCode.OK;
            }
            spec.commandLine().getErr().println("telpher explain: " + failure);
        } catch (TelpherException.ConnectFailed e) {
            // All reasons stand in its message too, on one line.
            out.println("no connection with " + address);
            e.attempts().forEach(attempt -> out.println("  " + attempt));
            out.flush();
            spec.commandLine().getErr().println("telpher explain: no connection");
        }
        return CommandLine.ExitCode.SOFTWARE;
    }

    private EndpointAddress address(String text) {
        try {
            return PeerArgument.parse(text);
        } catch (IllegalArgumentException e) {
            throw new CommandLine.ParameterException(
                    spec.commandLine(), String.valueOf(e.getMessage()));
        }
    }

    private static @Nullable String here(PrintWriter out) {
        try (Endpoint endpoint = Endpoint.open(LiveProbes.options())) {
            out.println("transports of this machine");
            out.print(endpoint.explain().indent(2));
        }
        Probes.Meeting meeting = new LiveProbes().meeting();
        if (meeting.failure() != null) {
            return "no connection between two processes of this host: " + meeting.failure();
        }
        out.println("between two processes of this host, writes go by " + meeting.path());
        out.print(meeting.explanation().indent(2));
        return null;
    }

    private static @Nullable String there(PrintWriter out, EndpointAddress address) {
        try (Endpoint endpoint = Endpoint.open(LiveProbes.options());
                Connection connection = endpoint.connect(address)) {
            out.print(LiveProbes.settled(connection, LANES_MILLIS));
            return null;
        }
    }
}

package io.telpher.cli.doctor;

import io.telpher.EndpointAddress;
import io.telpher.cli.Json;
import io.telpher.cli.PeerArgument;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// `telpher doctor`.
@Command(
        name = "doctor",
        mixinStandardHelpOptions = true,
        description = {
            "Says what works on this machine, what does not, and what to do about it.",
            "",
            "With a peer: also the ways to it, by connecting and sending a few messages. The"
                    + " peer's program sees a connection that comes and goes.%n"
        },
        footer = {"", "Exit code: 0 no errors (there may be warnings), 1 errors, 2 wrong usage."})
public final class DoctorCommand implements Callable<Integer> {
    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Parameters(
            paramLabel = PeerArgument.LABEL,
            arity = "0..1",
            description =
                    "A file that holds the peer's address, or its host and port; these need its"
                            + " secret in TELPHER_SECRET.")
    private @Nullable String peer;

    @Option(
            names = "--json",
            description =
                    "Prints one JSON object per line: severity (info, warning, error), check,"
                            + " summary, evidence, remedy, verify.")
    private boolean json;

    @Option(
            names = {"-v", "--verbose"},
            description = "Shows the evidence of what is good, too.")
    private boolean verbose;

    @Option(
            names = "--only",
            paramLabel = "LIST",
            split = ",",
            description = "Runs these checks only, such as mtu,peer.")
    private List<String> only = new ArrayList<>();

    @Option(
            names = "--cables",
            paramLabel = "FILE",
            description =
                    "Compares the cables of RoCE ports with a plan: lines 'PORT ADDRESS', the port"
                            + " an RDMA device or interface, the address the peer's at that cable.")
    private @Nullable Path cables;

    @Override
    public Integer call() {
        EndpointAddress address;
        CablePlan plan;
        try {
            address = peer == null ? null : PeerArgument.parse(peer);
            plan = cables == null ? null : CablePlan.read(cables);
        } catch (IOException e) {
            throw new CommandLine.ParameterException(
                    spec.commandLine(), "cannot read the plan of cables: " + e, e);
        } catch (IllegalArgumentException e) {
            throw new CommandLine.ParameterException(
                    spec.commandLine(), String.valueOf(e.getMessage()));
        }
        List<Check> checks = chosen(Doctor.checks(address, plan));
        PrintWriter out = spec.commandLine().getOut();
        Map<Finding.Severity, Integer> count = new EnumMap<>(Finding.Severity.class);
        Doctor.examine(
                Host.here(),
                checks,
                finding -> {
                    count.merge(finding.severity(), 1, Integer::sum);
                    out.println(json ? Json.object(finding.fields()) : text(finding, verbose));
                    out.flush();
                });
        int errors = count.getOrDefault(Finding.Severity.ERROR, 0);
        if (!json) {
            int warnings = count.getOrDefault(Finding.Severity.WARNING, 0);
            out.println(warnings + " warnings, " + errors + " errors");
            out.flush();
        }
        return errors == 0 ? CommandLine.ExitCode.OK : CommandLine.ExitCode.SOFTWARE;
    }

    private List<Check> chosen(List<Check> all) {
        List<String> names = all.stream().map(Check::name).toList();
        for (String name : only) {
            if (!names.contains(name)) {
                throw new CommandLine.ParameterException(
                        spec.commandLine(),
                        "--only: there is no check '%s'; there are %s%s"
                                .formatted(
                                        name,
                                        String.join(", ", names),
                                        (peer == null ? "; peer needs a peer" : "")
                                                + (cables == null
                                                        ? "; cables needs --cables or a peer with RDMA"
                                                        : "")));
            }
        }
        return all.stream().filter(c -> only.isEmpty() || only.contains(c.name())).toList();
    }

    /// @return one line for what is good, and all that is known of what is not
    static String text(Finding finding, boolean verbose) {
        StringBuilder text =
                new StringBuilder(
                        "%-8s %-23s %s"
                                .formatted(
                                        finding.severity().word(),
                                        finding.check(),
                                        finding.summary()));
        boolean good = finding.severity() == Finding.Severity.INFO;
        if (!good || verbose) {
            line(text, "seen", finding.evidence());
        }
        if (!good || (verbose && !finding.remedy().isEmpty())) {
            line(text, "remedy", finding.remedy());
            line(text, "verify", finding.verify());
        }
        return text.toString();
    }

    private static void line(StringBuilder text, String name, String value) {
        text.append("%n         %-8s%s".formatted(name + ":", value));
    }
}

package io.telpher.cli.topo;

import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.device.Runtimes;
import io.telpher.spi.Availability;
import io.telpher.topology.Topology;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// `telpher topo`.
@Command(
        name = "topo",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Shows how GPUs, network cards and NUMA nodes are connected.",
            "",
            "Path types are NCCL's; the legend below the matrix explains those that occur.%n"
        },
        footer = {
            "",
            "NCCL_TOPO_FILE is read as NCCL reads it: it says how the devices of this machine hang"
                    + " together.",
            "Exit code: 0 good, 1 a file cannot be read or written, or a measured copy hangs or"
                    + " arrives wrong, 2 wrong usage."
        })
public final class TopoCommand implements Callable<Integer> {
    private static final String STDOUT = "-";
    private static final String AMD = "0x1002";

    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Option(
            names = "--from",
            paramLabel = "FILE",
            description =
                    "Shows the machine that a file describes: NCCL's XML, as --xml and"
                            + " NCCL_TOPO_DUMP_FILE write it.")
    private @Nullable Path from;

    @Option(
            names = "--json",
            description =
                    "Prints one JSON object per line: nodes, links, and the path of each pair of"
                            + " devices.")
    private boolean json;

    @Option(
            names = "--xml",
            arity = "0..1",
            fallbackValue = STDOUT,
            paramLabel = "FILE",
            description = "Writes NCCL's XML to the file, or prints it.")
    private @Nullable String xml;

    @Option(
            names = "--measure",
            description =
                    "Copies between all pairs of GPUs that this process sees, one pair at a time,"
                            + " and compares every byte: GB/s and microseconds.")
    private boolean measure;

    @Option(names = "--svg", paramLabel = "FILE", description = "Writes a drawing to the file.")
    private @Nullable String svg;

    @Override
    public Integer call() {
        boolean printsXml = STDOUT.equals(xml);
        boolean printsSvg = STDOUT.equals(svg);
        if ((json ? 1 : 0) + (printsXml ? 1 : 0) + (printsSvg ? 1 : 0) > 1) {
            throw new CommandLine.ParameterException(
                    spec.commandLine(),
                    "--json, --xml and --svg: one of them can be printed; name files for the"
                            + " others");
        }
        if (measure && (from != null || printsXml || printsSvg)) {
            throw new CommandLine.ParameterException(
                    spec.commandLine(),
                    "--measure copies between GPUs of this machine: leave out --from, and name"
                            + " files for --xml and --svg");
        }
        PrintWriter out = spec.commandLine().getOut();
        try {
            Topology machine = from == null ? Topology.here() : Topology.read(from);
            if (json) {
                TopoJson.print(machine, out);
            }
            if (xml != null) {
                write(xml, machine.toXml(), out);
            }
            if (svg != null) {
                write(svg, new TopoSvg(machine).text(), out);
            }
            if (!json && xml == null && svg == null) {
                TopoText.print(machine, out);
                if (from == null) {
                    hip(machine, out);
                }
            }
            if (from == null && (json || (xml == null && svg == null))) {
                PeerAbilities.print(PeerAbilities.of(machine), json, out);
            }
            out.flush();
            return measure && !new PeerMeasure(machine, json, out).run()
                    ? CommandLine.ExitCode.SOFTWARE
                    : CommandLine.ExitCode.OK;
        } catch (IOException | IllegalArgumentException e) {
            out.flush();
            spec.commandLine().getErr().println("telpher topo: " + reason(e));
            return CommandLine.ExitCode.SOFTWARE;
        }
    }

    /// Whether Telpher could use the GPUs of AMD, where there are some.
    private static void hip(Topology machine, PrintWriter out) {
        boolean onBus = machine.gpus().stream().anyMatch(gpu -> gpu.pci().vendor().equals(AMD));
        for (GpuRuntime runtime : Runtimes.all()) {
            if (runtime.name().equals("hip")) {
                switch (runtime.probe()) {
                    case Availability.Available(String detail) ->
                            out.println("note: " + detail + "; unproven with Telpher");
                    case Availability.Missing(String reason, String remedy) -> {
                        if (onBus) {
                            out.println("note: " + reason + " (" + remedy + ")");
                        }
                    }
                }
            }
        }
    }

    private static void write(String file, String text, PrintWriter out) throws IOException {
        if (file.equals(STDOUT)) {
            out.print(text);
        } else {
            Files.writeString(Path.of(file), text);
        }
    }

    /// The JDK's messages of these are the file's name alone.
    private static String reason(Exception e) {
        return switch (e) {
            case NoSuchFileException n -> n.getFile() + ": no such file or folder";
            case AccessDeniedException a -> a.getFile() + ": permission denied";
            case IOException io -> io.toString();
            default -> String.valueOf(e.getMessage());
        };
    }
}

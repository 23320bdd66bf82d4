package io.telpher.cli.soak;

import io.telpher.TelpherException;
import io.telpher.cli.watch.MetricsOption;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// `telpher soak`.
@Command(
        name = "soak",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Runs random operations and faults over processes of this host, and checks every byte.",
            "",
            "Ranks write, read, send, notify and count over every path, in every style. They are"
                    + " killed and started again, stopped, cut off, and made to close their memory and"
                    + " connections. A line each minute says how it goes.%n"
        },
        footer = {
            "",
            "Exit code: 0 all right, 1 something was wrong, 2 wrong usage, 128 + n ended by signal n,"
                    + " after the verdict so far."
        })
public final class SoakCommand implements Callable<Integer> {
    private static final double SECONDS_A_MINUTE = 60;

    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Option(
            names = "--minutes",
            paramLabel = "N",
            defaultValue = "10",
            description =
                    "How long, once every rank works; 0.5 and 1440 are fine too. Default:"
                            + " ${DEFAULT-VALUE}.")
    private double minutes;

    @Option(
            names = "--ranks",
            paramLabel = "N",
            defaultValue = "3",
            description = "Processes. Default: ${DEFAULT-VALUE}.")
    private int ranks;

    @Option(
            names = "--path",
            paramLabel = "LIST",
            split = ",",
            description = "Paths: mapped, cma, shm-ring, tcp, self. Default: all.")
    private List<String> paths = new ArrayList<>();

    @Option(
            names = "--transport",
            paramLabel = "LIST",
            split = ",",
            description = "Transports: shm, tcp, self. Default: all.")
    private List<String> transports = new ArrayList<>();

    @Option(
            names = "--seed",
            paramLabel = "S",
            description =
                    "Draws the same operations and faults again, as far as timing allows. Default: a"
                            + " new one, which is printed.")
    private @Nullable Long seed;

    @Option(
            names = "--every",
            paramLabel = "S",
            defaultValue = "2",
            description = "Seconds between two faults, on average. Default: ${DEFAULT-VALUE}.")
    private double every;

    @Option(
            names = "--folder",
            paramLabel = "DIR",
            description =
                    "Keeps the last events of every rank there. Default: a temporary folder, which"
                            + " stays only if something was wrong.")
    private @Nullable Path folder;

    @Option(names = "--line", hidden = true, defaultValue = "" + SECONDS_A_MINUTE)
    private double line;

    @Option(names = "--plant", hidden = true, defaultValue = "NONE")
    private Plant plant;

    @CommandLine.Mixin private MetricsOption metrics;

    @Override
    public Integer call() throws InterruptedException {
        SoakOptions options;
        try {
            options = options();
        } catch (IllegalArgumentException e) {
            throw new CommandLine.ParameterException(spec.commandLine(), e.getMessage());
        }
        try (MetricsOption.Served _ = metrics.start()) {
            Soak soak = new Soak(options, spec.commandLine().getOut());
            Thread hook = new Thread(soak::interrupt, "soak-interrupted");
            Runtime.getRuntime().addShutdownHook(hook);
            return soak.run() ? CommandLine.ExitCode.OK : CommandLine.ExitCode.SOFTWARE;
        } catch (IOException | TelpherException e) {
            spec.commandLine().getErr().println("telpher soak: " + e.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
    }

    private SoakOptions options() {
        List<SoakPath> wanted =
                paths.isEmpty()
                        ? List.of(SoakPath.values())
                        : paths.stream().map(SoakPath::parse).toList();
        for (String transport : transports) {
            if (Arrays.stream(SoakPath.values()).noneMatch(p -> p.transport().equals(transport))) {
                throw new IllegalArgumentException(
                        "there is no transport '" + transport + "': take some of shm, tcp, self");
            }
        }
        return new SoakOptions(
                minutes * SECONDS_A_MINUTE,
                ranks,
                wanted.stream()
                        .filter(p -> transports.isEmpty() || transports.contains(p.transport()))
                        .toList(),
                seed == null ? new Random().nextInt(Integer.MAX_VALUE) : seed,
                every,
                line,
                folder,
                plant);
    }
}

package io.telpher.cli;

import io.telpher.TelpherException;
import io.telpher.cli.bench.BenchCommand;
import io.telpher.cli.bench.BenchRankCommand;
import io.telpher.cli.bench.FullmeshCommand;
import io.telpher.cli.doctor.DoctorCommand;
import io.telpher.cli.doctor.ExplainCommand;
import io.telpher.cli.doctor.HelperCommand;
import io.telpher.cli.soak.SoakCommand;
import io.telpher.cli.soak.SoakRankCommand;
import io.telpher.cli.topo.TopoCommand;
import io.telpher.cli.watch.ServeMetricsCommand;
import io.telpher.cli.watch.TopCommand;
import java.lang.module.ModuleDescriptor;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.IVersionProvider;

/// Entry point of the `telpher` command.
///
/// A new subcommand is a class of its own, listed in [#SUBCOMMANDS].
@Command(
        name = "telpher",
        description = "Moves bytes between processes, hosts and accelerators.",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        synopsisSubcommandLabel = "COMMAND",
        footer = {
            "",
            "In a source tree the launcher also knows: build, test, image, wheel, format, jdk."
        })
public final class Main implements Runnable {
    private static final Class<?>[] SUBCOMMANDS = {
        BenchCommand.class,
        FullmeshCommand.class,
        SoakCommand.class,
        DoctorCommand.class,
        ExplainCommand.class,
        TopoCommand.class,
        TopCommand.class,
        ServeMetricsCommand.class,
        ConfigCommand.class,
        CompletionCommand.class,
        RendezvousCommand.class,
        BenchRankCommand.class,
        SoakRankCommand.class,
        HelperCommand.class,
        CommandLine.HelpCommand.class
    };

    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    /// Runs one command and ends the process with its exit code: 0 done, 1 failed, 2 wrong usage.
    public static void main(String[] args) {
        System.exit(commandLine().execute(args));
    }

    static CommandLine commandLine() {
        // Here @FILE names the file of an address, whose content must not become an argument.
        CommandLine line = new CommandLine(new Main()).setExpandAtFiles(false);
        line.setExecutionExceptionHandler(Main::failed);
        for (Class<?> subcommand : SUBCOMMANDS) {
            line.addSubcommand(subcommand);
        }
        return line;
    }

    /// Whether something thrown tells of a fault of the program: what the engine refuses, or the
    /// environment says wrongly, does not.
    public static boolean isFault(@Nullable Throwable thrown) {
        return !(thrown instanceof TelpherException || thrown instanceof IllegalArgumentException);
    }

    /// Where it is no fault of the program the message is enough. One comes with its stack.
    private static int failed(Exception e, CommandLine command, CommandLine.ParseResult unused)
            throws Exception {
        if (!isFault(e)) {
            command.getErr()
                    .println(command.getCommandSpec().qualifiedName() + ": " + e.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
        throw e;
    }

    @Override
    public void run() {
        throw new CommandLine.ParameterException(spec.commandLine(), "Missing command");
    }

    /// Reports the version that the build stamped into the module, next to the facts a bug report
    /// needs.
    static final class Version implements IVersionProvider {
        @Override
        public String[] getVersion() {
            String version =
                    Optional.ofNullable(Main.class.getModule().getDescriptor())
                            .flatMap(ModuleDescriptor::rawVersion)
                            .orElse("(development)");
            return new String[] {
                "telpher " + version,
                "Java " + Runtime.version(),
                System.getProperty("os.name")
                        + " "
                        + System.getProperty("os.version")
                        + " "
                        + System.getProperty("os.arch")
            };
        }
    }
}

package io.telpher.cli;

import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// The command line that starts this very program once more, for commands that need a second
/// process.
public final class JavaCommand {
    private JavaCommand() {}

    /// @param flags JVM flags beside this process's own
    /// @param arguments the subcommand and what it takes; others can read them
    /// @return the same JVM, modules and flags as this process's
    public static List<String> of(List<String> flags, String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        for (String flag : ManagementFactory.getRuntimeMXBean().getInputArguments()) {
            if (isInherited(flag)) {
                command.add(flag);
            }
        }
        command.addAll(flags);
        String modulePath = System.getProperty("jdk.module.path");
        Module module = Main.class.getModule();
        if (modulePath != null && module.isNamed()) {
            command.addAll(List.of("-p", modulePath));
            command.addAll(List.of("-m", module.getName() + "/" + Main.class.getName()));
        } else {
            command.addAll(List.of("-cp", System.getProperty("java.class.path")));
            command.add(Main.class.getName());
        }
        command.addAll(List.of(arguments));
        return command;
    }

    /// Debuggers, recordings and an AOT cache that is being made belong to one process; the module
    /// path is set above.
    static boolean isInherited(String flag) {
        return !flag.startsWith("-agentlib:jdwp")
                && !flag.startsWith("-javaagent")
                && !flag.startsWith("-XX:StartFlightRecording")
                && !flag.startsWith("-XX:AOTCacheOutput")
                && !flag.startsWith("--module-path")
                && !flag.startsWith("-Djdk.module");
    }
}

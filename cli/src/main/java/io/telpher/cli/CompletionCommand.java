package io.telpher.cli;

import java.util.concurrent.Callable;
import picocli.AutoComplete;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/// `telpher completion`.
@Command(
        name = "completion",
        mixinStandardHelpOptions = true,
        description = "Prints a script that lets the shell complete commands and options.",
        footer = {
            "",
            "In ~/.bashrc:  source <(telpher completion bash)",
            "In ~/.zshrc:   source <(telpher completion zsh)"
        })
public final class CompletionCommand implements Callable<Integer> {
    /// Shells that can be served.
    enum Shell {
        bash,
        zsh
    }

    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Parameters(paramLabel = "SHELL", description = "${COMPLETION-CANDIDATES}")
    private Shell shell;

    @Override
    public Integer call() {
        String script = AutoComplete.bash("telpher", spec.root().commandLine());
        if (shell == Shell.zsh) {
            // The script is for bash, whose completion zsh can imitate, once its own is loaded.
            script =
                    "autoload -U +X compinit && compinit\n"
                            + "autoload -U +X bashcompinit && bashcompinit\n"
                            + script;
        }
        spec.commandLine().getOut().print(script);
        spec.commandLine().getOut().flush();
        return CommandLine.ExitCode.OK;
    }
}

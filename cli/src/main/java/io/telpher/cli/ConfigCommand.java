package io.telpher.cli;

import io.telpher.Setting;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// `telpher config`.
@Command(
        name = "config",
        mixinStandardHelpOptions = true,
        description = "Shows the settings in force, and where each comes from.",
        footer = {
            "",
            "The engine's settings are the options of an endpoint; a program may set them in its"
                    + " code instead.",
            "",
            "Exit code: 0 good, 1 a variable cannot be understood, 2 wrong usage."
        })
public final class ConfigCommand implements Callable<Integer> {
    private static final String ROW = "%-16s %-28s %-24s %s%n";

    @CommandLine.Spec private CommandLine.Model.CommandSpec spec;

    @Option(
            names = "--json",
            description =
                    "Prints one JSON object per line: option, value, origin, variable, meaning.")
    private boolean json;

    @Override
    public Integer call() {
        return show(System.getenv());
    }

    int show(Map<String, String> environment) {
        PrintWriter out = spec.commandLine().getOut();
        PrintWriter err = spec.commandLine().getErr();
        List<Setting> settings;
        try {
            settings = new ArrayList<>(Setting.fromEnvironment(environment));
            settings.addAll(Settings.devices(environment));
        } catch (IllegalArgumentException e) {
            err.println("telpher config: " + e.getMessage());
            return CommandLine.ExitCode.SOFTWARE;
        }
        if (!json) {
            out.printf(ROW, "OPTION", "VALUE", "ORIGIN", "VARIABLE");
        }
        for (Setting setting : settings) {
            row(
                    out,
                    setting.option(),
                    setting.value(),
                    setting.origin(),
                    setting.variable(),
                    setting.meaning());
        }
        for (Settings.Tool tool : Settings.TOOLS) {
            String value = environment.get(tool.name());
            row(
                    out,
                    "",
                    value == null ? "" : value,
                    value == null ? Setting.DEFAULT : tool.name(),
                    tool.name(),
                    tool.meaning());
        }
        out.flush();
        for (String name : Settings.unknown(environment)) {
            err.println("telpher config: nothing reads " + name + ": " + Settings.hint(name));
        }
        err.flush();
        return CommandLine.ExitCode.OK;
    }

    private void row(
            PrintWriter out,
            String option,
            String value,
            String origin,
            String variable,
            String meaning) {
        if (json) {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("option", option);
            fields.put("value", value);
            fields.put("origin", origin);
            fields.put("variable", variable);
            fields.put("meaning", meaning);
            out.println(Json.object(fields));
        } else {
            out.printf(
                    ROW,
                    option.isEmpty() ? "-" : option,
                    value.isEmpty() ? "-" : value,
                    origin,
                    variable);
        }
    }
}

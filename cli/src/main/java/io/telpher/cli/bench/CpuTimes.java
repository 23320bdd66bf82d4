package io.telpher.cli.bench;

import io.telpher.cli.Tool;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// Has the shell report the processor time of a program: its `times` prints that of the programs
/// that it ran.
final class CpuTimes {
    private static final Pattern TIME = Pattern.compile("(\\d+)m([0-9.]+)s");

    private CpuTimes() {}

    /// @return a command that runs the given one and prints its processor time at the end of
    ///     standard error
    static List<String> wrap(List<String> command) {
        String shell = Tool.find("bash");
        List<String> wrapped = new ArrayList<>();
        wrapped.add(shell == null ? "/bin/sh" : shell);
        wrapped.addAll(List.of("-c", "\"$@\"; code=$?; times >&2; exit $code", "telpher-bench"));
        wrapped.addAll(command);
        return wrapped;
    }

    /// @return seconds in user and kernel mode, or NaN when the text has none
    static double parse(String error) {
        List<String> lines = error.lines().filter(l -> TIME.matcher(l).find()).toList();
        if (lines.isEmpty()) {
            return Double.NaN;
        }
        double seconds = 0;
        Matcher matcher = TIME.matcher(lines.getLast());
        while (matcher.find()) {
            seconds +=
                    Integer.parseInt(matcher.group(1)) * 60 + Double.parseDouble(matcher.group(2));
        }
        return seconds;
    }
}

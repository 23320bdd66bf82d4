package io.telpher.cli.doctor;

import io.telpher.cli.Settings;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// The `NCCL_` variables, where they come from, and which of them do not mean what they look like.
/// NCCL takes some from files, which programs that look at their environment do not see.
final class NcclSettingsCheck implements Check {
    private static final String PREFIX = "NCCL_";
    private static final String MACHINE_FILE = "/etc/nccl.conf";

    /// A letter changed, added, left out, or two of them exchanged.
    private static final int NEAR = 2;

    private static final String VERIFY = "telpher doctor --only nccl-settings";

    @Override
    public String name() {
        return "nccl-settings";
    }

    /// A variable that is set.
    ///
    /// @param value its text
    /// @param origin `environment` or a file
    private record Set(String value, String origin) {}

    @Override
    public List<Finding> examine(Host host) {
        Map<String, Set> all = all(host);
        List<Finding> found = new ArrayList<>();
        found.add(
                Finding.info(
                        name(),
                        all.isEmpty() ? "none is set" : "set: " + all.size(),
                        all.isEmpty()
                                ? "environment, " + String.join(", ", files(host))
                                : all.entrySet().stream()
                                        .map(NcclSettingsCheck::text)
                                        .collect(Collectors.joining("; "))));
        all.forEach(
                (variable, set) -> {
                    Finding wrong =
                            NcclVariables.NAMES.containsKey(variable)
                                    ? value(host, variable, set)
                                    : unknown(variable, set);
                    if (wrong != null) {
                        found.add(wrong);
                    }
                });
        return found;
    }

    private static String text(Map.Entry<String, Set> one) {
        return "%s=%s (%s)".formatted(one.getKey(), one.getValue().value, one.getValue().origin);
    }

    /// The environment goes before the user's file, and that before the machine's.
    private static Map<String, Set> all(Host host) {
        Map<String, Set> all = new TreeMap<>();
        host.environment()
                .forEach(
                        (variable, value) -> {
                            if (variable.startsWith(PREFIX)) {
                                all.put(variable, new Set(value, "environment"));
                            }
                        });
        for (String file : files(host)) {
            lines(host.read(file).orElse(""))
                    .forEach((variable, value) -> all.putIfAbsent(variable, new Set(value, file)));
        }
        return all;
    }

    private static List<String> files(Host host) {
        List<String> files = new ArrayList<>();
        String named = host.environment().getOrDefault("NCCL_CONF_FILE", "");
        String home = host.environment().getOrDefault("HOME", "");
        if (named.startsWith("/")) {
            files.add(named);
        } else if (named.isEmpty() && home.startsWith("/")) {
            files.add(home + "/.nccl.conf");
        }
        files.add(MACHINE_FILE);
        return files;
    }

    private static Map<String, String> lines(String text) {
        Map<String, String> lines = new LinkedHashMap<>();
        for (String line : text.lines().toList()) {
            int equals = line.indexOf('=');
            if (equals > 0 && line.startsWith(PREFIX)) {
                lines.putIfAbsent(line.substring(0, equals), line.substring(equals + 1));
            }
        }
        return lines;
    }

    private Finding unknown(String variable, Set set) {
        String nearest =
                NcclVariables.NAMES.keySet().stream()
                        .min(Comparator.comparingInt(known -> Settings.distance(variable, known)))
                        .orElseThrow();
        String evidence = variable + "=" + set.value + " (" + set.origin + ")";
        if (Settings.distance(variable, nearest) <= NEAR) {
            return Finding.warning(
                    name(),
                    variable + ": NCCL reads no such variable",
                    evidence,
                    "did you mean " + nearest + "?",
                    VERIFY);
        }
        return Finding.info(
                name(),
                variable
                        + ": not among those of NCCL "
                        + NcclVariables.VERSION
                        + "; a plugin or another version may read it",
                evidence);
    }

    private @Nullable Finding value(Host host, String variable, Set set) {
        String wrong = NcclVariables.wrong(host, variable, set.value);
        return wrong == null
                ? null
                : Finding.warning(
                        name(),
                        variable + ": " + wrong,
                        variable + "=" + set.value + " (" + set.origin + ")",
                        "correct or unset it (" + set.origin + ")",
                        VERIFY);
    }
}

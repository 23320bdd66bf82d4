package io.telpher.cli;

import io.telpher.Setting;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.transport.verbs.VerbsTransport;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/// The environment variables beside the options of an endpoint, which [Setting] knows.
public final class Settings {
    /// A variable.
    ///
    /// @param name its name
    /// @param meaning what it does, one line
    public record Tool(String name, String meaning) {}

    /// Everything that reads such a variable outside of the engine has a line here: what has none
    /// is reported as misspelt.
    public static final List<Tool> TOOLS =
            List.of(
                    new Tool("TELPHER_JAVA_OPTS", "launcher: JVM options"),
                    new Tool("TELPHER_NO_BUILD", "launcher: 1 to run what was built last"),
                    new Tool("TELPHER_NO_DOWNLOAD", "launcher: 1 to never fetch a JDK"),
                    new Tool("TELPHER_JDK_URL", "launcher: where to fetch a JDK"),
                    new Tool("TELPHER_JDK_SHA256", "launcher: that file's checksum"),
                    new Tool(
                            "TELPHER_IGNORE_INSTALLED_JDK",
                            "launcher: 1 to use only the JDK that it fetches itself"),
                    new Tool("TELPHER_NO_AOT", "image, Python package: 1 for no start-up cache"),
                    new Tool("TELPHER_JARS", "Python package: folder with other jars"),
                    new Tool("TELPHER_PYTHON", "tests: the interpreter for Python's"),
                    new Tool("TELPHER_RANK", "ranks: this one's number, 0 for the first"),
                    new Tool("TELPHER_WORLD_SIZE", "ranks: how many there are"),
                    new Tool("TELPHER_LOCAL_RANK", "ranks: this one's number on its host"),
                    new Tool("TELPHER_JOB", "ranks: the job's name, the same for all"),
                    new Tool(
                            "TELPHER_RENDEZVOUS",
                            "ranks: where they meet, tcp://HOST:PORT or redis://HOST:PORT"),
                    new Tool("TELPHER_RENDEZVOUS_PORT", "ranks: the port that rank 0 serves at"),
                    new Tool("TELPHER_SERVICE", "ranks: Kubernetes' headless service"));

    private Settings() {}

    /// @return what the engine's devices go by, beside the options of an endpoint
    /// @throws IllegalArgumentException when a variable cannot be understood: names it
    public static List<Setting> devices(Map<String, String> environment) {
        List<Setting> all = new ArrayList<>(Runtimes.settings(environment));
        all.addAll(VerbsTransport.settings(environment));
        return List.copyOf(all);
    }

    /// @return variables that begin with `TELPHER_` and that nothing reads
    public static List<String> unknown(Map<String, String> environment) {
        List<String> unknown = new ArrayList<>(Setting.unknown(environment));
        TOOLS.forEach(tool -> unknown.remove(tool.name()));
        devices(Map.of()).forEach(device -> unknown.remove(device.variable()));
        return List.copyOf(unknown);
    }

    /// @return what was perhaps meant by a variable that nothing reads
    public static String hint(String name) {
        List<String> known = new ArrayList<>();
        Setting.fromEnvironment(Map.of()).forEach(s -> known.add(s.variable()));
        TOOLS.forEach(tool -> known.add(tool.name()));
        devices(Map.of()).forEach(device -> known.add(device.variable()));
        String nearest =
                known.stream()
                        .min(Comparator.comparingInt(other -> distance(name, other)))
                        .orElseThrow();
        return distance(name, nearest) <= 3
                ? "did you mean " + nearest + "?"
                : "unset it; telpher config lists those that are read";
    }

    /// @return how many letters have to be changed, added or taken away: Levenshtein's distance
    public static int distance(String a, String b) {
        int[] row = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            row[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                int change = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.min(change, Math.min(row[j], row[j - 1]) + 1);
            }
        }
        return row[b.length()];
    }
}

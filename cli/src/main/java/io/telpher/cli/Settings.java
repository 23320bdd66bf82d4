package io.telpher.cli;

import io.telpher.Setting;
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
                    new Tool("TELPHER_PYTHON", "tests: the interpreter for Python's"));

    /// What the engine's devices and transports go by. Where one is not set, NCCL's variable of the
    /// same meaning counts, `NCCL_` in place of `TELPHER_`.
    public static final List<Tool> DEVICES =
            List.of(
                    new Tool(
                            "TELPHER_P2P_DISABLE", "GPUs: 1 to keep them from each other's memory"),
                    new Tool(
                            "TELPHER_P2P_LEVEL", "GPUs: the longest path between two, such as PXB"),
                    new Tool(
                            "TELPHER_P2P_READ_ENABLE",
                            "GPUs: which of two copies that this process uses: 1 the"
                                    + " destination's, 0 the source's"),
                    new Tool(
                            "TELPHER_P2P_DIRECT_DISABLE",
                            "GPUs: 1 to export and import memory inside one process, too"),
                    new Tool("TELPHER_P2P_PROBE", "GPUs: 0 to believe the driver without a trial"),
                    new Tool("TELPHER_CUMEM_ENABLE", "GPUs: 0 for plain allocations"),
                    new Tool("TELPHER_IB_DISABLE", "RDMA: 1 to do without"),
                    new Tool(
                            "TELPHER_IB_HCA",
                            "RDMA: ports to use, prefixes of device[:port]; = for whole names, ^ for"
                                    + " all but these"),
                    new Tool("TELPHER_IB_GID_INDEX", "RDMA: one entry of the tables of GIDs"),
                    new Tool("TELPHER_IB_TC", "RDMA: traffic class"),
                    new Tool("TELPHER_IB_SL", "RDMA: service level"),
                    new Tool("TELPHER_IB_PKEY", "RDMA: index of the partition key"),
                    new Tool("TELPHER_IB_TIMEOUT", "RDMA: acknowledgements, 4.096 us * 2^N"),
                    new Tool("TELPHER_IB_RETRY_CNT", "RDMA: how often packets are sent again"),
                    new Tool("TELPHER_IB_QPS_PER_CONNECTION", "RDMA: lanes of two ports"));

    private static final String OWN = "TELPHER_";
    private static final String NCCL = "NCCL_";

    private Settings() {}

    /// @return the variable that sets one of [#DEVICES] in an environment: itself, or NCCL's; empty
    ///     where neither does
    public static String origin(Tool device, Map<String, String> environment) {
        String nccl = NCCL + device.name().substring(OWN.length());
        for (String name : List.of(device.name(), nccl)) {
            if (!environment.getOrDefault(name, "").isBlank()) {
                return name;
            }
        }
        return "";
    }

    /// @return variables that begin with `TELPHER_` and that nothing reads
    public static List<String> unknown(Map<String, String> environment) {
        List<String> unknown = new ArrayList<>(Setting.unknown(environment));
        TOOLS.forEach(tool -> unknown.remove(tool.name()));
        DEVICES.forEach(device -> unknown.remove(device.name()));
        return List.copyOf(unknown);
    }

    /// @return what was perhaps meant by a variable that nothing reads
    public static String hint(String name) {
        List<String> known = new ArrayList<>();
        Setting.fromEnvironment(Map.of()).forEach(s -> known.add(s.variable()));
        TOOLS.forEach(tool -> known.add(tool.name()));
        DEVICES.forEach(device -> known.add(device.name()));
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

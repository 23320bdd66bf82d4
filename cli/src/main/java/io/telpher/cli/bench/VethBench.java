package io.telpher.cli.bench;

import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/// Runs `scripts/veth-bench.sh` of a source tree: two rate-limited links between two network
/// namespaces, which only root can make.
final class VethBench {
    private static final String SCRIPT = "scripts/veth-bench.sh";
    private static final int SECONDS = 300;
    private static final Pattern METRIC =
            Pattern.compile(
                    "\\{\"metric\":\"(equal|1:2): (sum of rails|configured rates)[^\"]*\","
                            + "\"value\":([-+0-9.eE]+)");

    private VethBench() {}

    /// @return why it cannot be run here, or null
    static @Nullable String missing() {
        if (script() == null) {
            return "needs a source tree: there is no " + SCRIPT;
        }
        return "root".equals(System.getProperty("user.name"))
                ? null
                : "needs root, for network namespaces: sudo " + SCRIPT;
    }

    /// Measures.
    ///
    /// @return by name, `equal` and `1:2`: what both links carried together as a share of the sum
    ///     of their rates
    /// @throws BenchFailure when the script fails
    static Map<String, Double> measure() {
        Path script = script();
        if (script == null) {
            throw new BenchFailure(String.valueOf(missing()));
        }
        try {
            Path json = Files.createTempFile("telpher-bench", ".json");
            try {
                Tool.Output output =
                        Tool.run(
                                List.of(script.toString(), json.toString()),
                                Map.of("TELPHER_NO_BUILD", "1"),
                                SECONDS);
                if (output.exitCode() != 0) {
                    throw new BenchFailure(
                            "%s ended with exit code %d: %s"
                                    .formatted(SCRIPT, output.exitCode(), output.error().strip()));
                }
                return parse(Files.readString(json));
            } finally {
                Files.deleteIfExists(json);
            }
        } catch (IOException e) {
            throw new BenchFailure("no temporary file can be made: " + e.getMessage(), e);
        }
    }

    static Map<String, Double> parse(String json) {
        Map<String, Double> carried = new HashMap<>();
        Map<String, Double> rates = new HashMap<>();
        Matcher matcher = METRIC.matcher(json);
        while (matcher.find()) {
            (matcher.group(2).startsWith("sum") ? carried : rates)
                    .put(matcher.group(1), Double.parseDouble(matcher.group(3)));
        }
        Map<String, Double> shares = new HashMap<>();
        rates.forEach(
                (name, rate) -> shares.put(name, carried.getOrDefault(name, Double.NaN) / rate));
        return shares;
    }

    /// The module path of a source tree lies some folders below its root.
    private static @Nullable Path script() {
        String path =
                System.getProperty("jdk.module.path", System.getProperty("java.class.path", ""));
        Path folder = Path.of(path.split(":")[0]).toAbsolutePath();
        for (; folder != null; folder = folder.getParent()) {
            Path script = folder.resolve(SCRIPT);
            if (Files.isExecutable(script)) {
                return script;
            }
        }
        return null;
    }
}

package io.telpher.cli.bench;

import io.telpher.cli.JavaCommand;
import io.telpher.cli.Json;
import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// `telpher bench` as a process of its own.
final class BenchProcess {
    /// The longest that a test gives it; most have a limit of their own below that.
    private static final int SECONDS = 280;

    private BenchProcess() {}

    static Tool.Output run(Map<String, String> environment, String... arguments) {
        try {
            return Tool.await(Tool.start(command(arguments), environment), SECONDS);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    /// The command, for which everything is warm soon.
    static List<String> command(String... arguments) {
        List<String> all = new ArrayList<>(List.of("bench", "--warm-up=0.05"));
        all.addAll(List.of(arguments));
        return JavaCommand.of(List.of(), all.toArray(String[]::new));
    }

    /// @return the lines that are metrics, by name
    static Map<String, Map<String, Object>> metrics(Path json) throws IOException {
        Map<String, Map<String, Object>> metrics = new HashMap<>();
        for (String line : Files.readAllLines(json)) {
            if (line.startsWith("{\"metric\"")) {
                Map<String, Object> fields = Json.parse(line);
                metrics.put((String) fields.get("metric"), fields);
            }
        }
        return metrics;
    }

    static double value(Map<String, Object> fields, String name) {
        return ((Number) fields.get(name)).doubleValue();
    }
}

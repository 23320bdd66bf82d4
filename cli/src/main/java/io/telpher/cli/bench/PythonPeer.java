package io.telpher.cli.bench;

import io.telpher.cli.Json;
import io.telpher.cli.Tool;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// A Python package that moves bytes, through a script of ours that starts two processes, measures,
/// and prints one JSON object. Each measurement has processes of its own, so that nothing of the
/// peer runs while Telpher is measured.
final class PythonPeer implements Peer {
    /// The packages that there are scripts for and that can be installed, in the order of the
    /// output.
    static final List<String> NAMES = List.of("nixl", "mooncake", "uccl");

    /// NCCL, by PyTorch: whoever has GPUs has it, and it is too large to be brought.
    static final String NCCL = "nccl";

    /// Those that move memory of GPUs.
    private static final Set<String> FOR_GPUS = Set.of("nixl", "mooncake", "uccl", NCCL);

    /// What a script may take beyond the measured time: it gives up itself before that.
    private static final int PATIENCE_SECONDS = 90;

    /// One way to call a package.
    ///
    /// @param backend for packages that have several; empty for its usual one
    /// @param settings `default`, as it comes, or `tuned`, the best that we know
    private record Variant(String backend, String settings) {
        @Override
        public String toString() {
            return backend.isEmpty() ? settings : backend + ", " + settings;
        }
    }

    private final String name;
    private final List<String> command;
    private final List<Integer> cores;
    private final List<Variant> variants;
    private final Set<String> hopeless = new HashSet<>();
    private final List<String> remarks = new ArrayList<>();
    private final Set<String> said = new HashSet<>();

    /// @param python the interpreter of the virtual environment
    /// @param script the peer's
    PythonPeer(String name, Path python, Path script, List<Integer> cores) {
        this.name = name;
        this.command = List.of(python.toString(), "-B", script.toString());
        this.cores = cores;
        this.variants = variants(name);
    }

    private static List<Variant> variants(String name) {
        if (name.equals(NCCL)) {
            return List.of(
                    new Variant("", "default"),
                    new Variant("sockets", "default"),
                    new Variant("sockets 4x4", "default"));
        }
        List<Variant> all = new ArrayList<>();
        all.add(new Variant("", "default"));
        all.add(new Variant("", "tuned"));
        if (name.equals("nixl")) {
            all.add(new Variant("MOONCAKE", "default"));
        }
        return all;
    }

    @Override
    public boolean fits(Stage stage) {
        MemoryPair memory = stage.memory();
        if (!memory.onGpu()) {
            return !name.equals(NCCL);
        }
        return FOR_GPUS.contains(name)
                && (!name.equals(NCCL) || (memory.source().onGpu() && memory.target().onGpu()));
    }

    /// NCCL's sockets are what its other ways are not: one of them is compared on each transport.
    private boolean fits(Variant variant, Stage stage) {
        return !name.equals(NCCL)
                || variant.backend.startsWith("sockets") == stage.transport().equals("tcp");
    }

    @Override
    public String system() {
        return name;
    }

    /// What a script printed.
    private sealed interface Answer {
        /// It cannot run, or did not end well: why.
        record No(String why) implements Answer {}

        /// It has measured, or says that it is ready.
        record Yes(Map<String, Object> fields) implements Answer {}
    }

    /// @return why the package cannot run here, or null when it can
    @Nullable String probe() {
        return switch (run(List.of("--probe"), 0)) {
            case Answer.No no -> no.why();
            case Answer.Yes yes ->
                    yes.fields().containsKey("ready") ? null : "its script is not ready";
        };
    }

    @Override
    public List<PeerResult> measure(Stage stage, Case test, double seconds) {
        List<PeerResult> results = new ArrayList<>();
        boolean vectored = test.pieces() > 1;
        if (test.op() == Op.COUNTER) {
            return results;
        }
        for (Variant variant : variants) {
            String key =
                    "%s %s %s%s"
                            .formatted(
                                    variant,
                                    stage.transport(),
                                    test.op(),
                                    vectored ? " in pieces" : "");
            if (hopeless.contains(key) || !fits(variant, stage)) {
                continue;
            }
            String what = "%s, %s, %s over %s".formatted(name, variant, test, stage.transport());
            switch (run(arguments(stage, test, variant, seconds), seconds)) {
                case Answer.No no -> {
                    hopeless.add(key);
                    remark(no.why(), what + ": not compared: " + no.why());
                }
                case Answer.Yes yes -> {
                    PeerResult result = result(yes.fields());
                    if (result.isWrong()) {
                        long wrong = result.wrong().orElseThrow();
                        remark(what, what + ": " + wrong + " bytes were wrong");
                    }
                    results.add(result);
                }
            }
        }
        return results;
    }

    @Override
    public List<String> remarks() {
        List<String> taken = List.copyOf(remarks);
        remarks.clear();
        return taken;
    }

    private void remark(String once, String text) {
        if (said.add(once)) {
            remarks.add(text);
        }
    }

    private List<String> arguments(Stage stage, Case test, Variant variant, double seconds) {
        List<String> arguments = new ArrayList<>();
        arguments.addAll(List.of("--transport", stage.transport(), "--op", test.op().word()));
        arguments.addAll(List.of("--bytes", "" + test.bytes(), "--depth", "" + test.depth()));
        arguments.addAll(List.of("--seconds", "" + seconds, "--settings", variant.settings));
        arguments.addAll(List.of("--pieces", "" + test.pieces()));
        if (stage.memory().onGpu()) {
            arguments.addAll(List.of("--memory", stage.memory().toString()));
        }
        if (!variant.backend.isEmpty()) {
            arguments.addAll(List.of("--backend", variant.backend));
        }
        if (cores.size() > 1) {
            String pair = cores.stream().limit(2).map(c -> "" + c).collect(Collectors.joining(","));
            arguments.addAll(List.of("--cores", pair));
        }
        return arguments;
    }

    private Answer run(List<String> arguments, double seconds) {
        List<String> line = new ArrayList<>(command);
        line.addAll(arguments);
        Tool.Output output = Tool.run(line, Map.of(), (int) Math.ceil(seconds) + PATIENCE_SECONDS);
        try {
            return parse(output);
        } catch (IllegalArgumentException e) {
            return new Answer.No(
                    "its script ended with exit code %d and no result: %s"
                            .formatted(output.exitCode(), lastLine(output)));
        }
    }

    /// @throws IllegalArgumentException when there is no answer
    private static Answer parse(Tool.Output output) {
        String last =
                output.text()
                        .lines()
                        .filter(l -> l.startsWith("{"))
                        .reduce((a, b) -> b)
                        .orElseThrow(() -> new IllegalArgumentException("no object"));
        Map<String, Object> fields = Json.parse(last);
        if (fields.get("skip") instanceof String why) {
            return new Answer.No(why);
        }
        if (fields.get("failed") instanceof String why) {
            return new Answer.No("it failed: " + why);
        }
        if (output.exitCode() != 0) {
            throw new IllegalArgumentException("a result of a process that failed");
        }
        if (!fields.containsKey("ready")) {
            result(fields);
        }
        return new Answer.Yes(fields);
    }

    /// @throws IllegalArgumentException when a field is missing
    static PeerResult result(Map<String, Object> fields) {
        return new PeerResult(
                text(fields, "system"),
                text(fields, "version"),
                text(fields, "client"),
                text(fields, "tool"),
                text(fields, "transport"),
                text(fields, "path"),
                text(fields, "memory"),
                text(fields, "op"),
                text(fields, "settings"),
                (long) number(fields, "iterations"),
                number(fields, "GBps"),
                optional(fields, "us_p50"),
                optional(fields, "us_p99"),
                optional(fields, "cpu_s_per_GB"),
                OptionalLong.of((long) number(fields, "wrong")));
    }

    private static String text(Map<String, Object> fields, String name) {
        if (fields.get(name) instanceof String text) {
            return text;
        }
        throw new IllegalArgumentException("there is no text \"" + name + "\"");
    }

    private static double number(Map<String, Object> fields, String name) {
        double value = optional(fields, name);
        if (Double.isNaN(value)) {
            throw new IllegalArgumentException("there is no number \"" + name + "\"");
        }
        return value;
    }

    private static double optional(Map<String, Object> fields, String name) {
        return fields.get(name) instanceof Number number ? number.doubleValue() : Double.NaN;
    }

    private static String lastLine(Tool.Output output) {
        return (output.text() + "\n" + output.error())
                .lines()
                .filter(l -> !l.isBlank())
                .reduce((a, b) -> b)
                .orElse("it printed nothing")
                .strip();
    }
}

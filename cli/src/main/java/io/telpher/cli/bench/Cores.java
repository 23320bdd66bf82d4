package io.telpher.cli.bench;

import io.telpher.cli.Tool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The processors that this process may use, and how to stay on one.
final class Cores {
    /// As they were before anything was pinned.
    private static final List<Integer> AVAILABLE = List.copyOf(find());

    private Cores() {}

    /// @return processors that this process could use before it was pinned, one of each core first,
    ///     then their hyper-threads
    static List<Integer> available() {
        return AVAILABLE;
    }

    private static List<Integer> find() {
        List<Integer> allowed = allowed();
        Map<String, Integer> first = new LinkedHashMap<>();
        List<Integer> second = new ArrayList<>();
        for (int cpu : allowed) {
            if (first.putIfAbsent(siblings(cpu), cpu) != null) {
                second.add(cpu);
            }
        }
        List<Integer> all = new ArrayList<>(first.values());
        all.addAll(second);
        return all;
    }

    private static List<Integer> allowed() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("Cpus_allowed_list:")) {
                    return parseList(line.substring(line.indexOf(':') + 1));
                }
            }
        } catch (IOException e) {
            return List.of();
        }
        return List.of();
    }

    private static String siblings(int cpu) {
        Path file = Path.of("/sys/devices/system/cpu/cpu" + cpu + "/topology/thread_siblings_list");
        try {
            return Files.readString(file).strip();
        } catch (IOException e) {
            return Integer.toString(cpu);
        }
    }

    /// Reads the kernel's list form: `0-3,8,10-11`.
    static List<Integer> parseList(String text) {
        List<Integer> cpus = new ArrayList<>();
        for (String part : text.strip().split(",")) {
            if (part.isBlank()) {
                continue;
            }
            String[] ends = part.strip().split("-");
            int from = Integer.parseInt(ends[0]);
            int to = ends.length == 1 ? from : Integer.parseInt(ends[1]);
            for (int cpu = from; cpu <= to; cpu++) {
                cpus.add(cpu);
            }
        }
        return cpus;
    }

    /// Keeps the calling thread on one core, and the threads and processes that it starts from now
    /// on; the JVM's other threads stay free. By `taskset`, since Java has no call for it.
    ///
    /// @return null, or why it could not be done
    static @Nullable String pinThisThread(int core) {
        String taskset = Tool.find("taskset");
        if (taskset == null) {
            return "not pinned: taskset is missing (package util-linux)";
        }
        Path self;
        try {
            self = Files.readSymbolicLink(Path.of("/proc/thread-self"));
        } catch (IOException e) {
            return "not pinned: cannot read /proc/thread-self: " + e.getMessage();
        }
        Tool.Output output =
                Tool.run(
                        List.of(
                                taskset,
                                "-c",
                                "-p",
                                Integer.toString(core),
                                String.valueOf(self.getFileName())),
                        Map.of(),
                        10);
        return output.exitCode() == 0 ? null : "not pinned: " + output.error().strip();
    }
}

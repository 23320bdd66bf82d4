package io.telpher.internal.memory;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Function;

/// How much memory this process can still get, by what the machine has and by what its control
/// groups allow. An estimate that is rather too high: what the kernel can take back counts as
/// available, and so does all swap space.
///
/// @param bytes how much; [Long#MAX_VALUE] when nothing says
/// @param where what sets the limit, for people
/// @param remedy what helps, besides asking for less; ends with `or `, if there is anything
record AvailableMemory(long bytes, String where, String remedy) {
    private static final String MACHINE = "/proc/meminfo";

    /// @param root what stands for `/`
    static AvailableMemory of(Path root) {
        Function<String, Optional<String>> read = path -> read(root, path);
        String info = read.apply(MACHINE).orElse("");
        long swap = Math.max(0, 1024 * value(info, "SwapFree:"));
        long free = value(info, "MemAvailable:");
        AvailableMemory least =
                new AvailableMemory(
                        free < 0 ? Long.MAX_VALUE : 1024 * free + swap,
                        "on this machine (" + MACHINE + ")",
                        "");
        for (String folder : Cgroups.folders(read, Cgroups.Version.V2, "")) {
            least = least.or(read, swap, folder + "/memory.max", folder + "/memory.current", "");
        }
        for (String folder : Cgroups.folders(read, Cgroups.Version.V1, "memory")) {
            least =
                    least.or(
                            read,
                            swap,
                            folder + "/memory.limit_in_bytes",
                            folder + "/memory.usage_in_bytes",
                            "total_");
        }
        return least;
    }

    /// This, or what a control group leaves when that is less.
    ///
    /// @param prefix what stands before the names in `memory.stat` that include the groups inside
    private AvailableMemory or(
            Function<String, Optional<String>> read,
            long swap,
            String limitFile,
            String usedFile,
            String prefix) {
        long limit = number(read, limitFile);
        long used = number(read, usedFile);
        if (limit < 0 || used < 0) {
            return this; // no limit: the file says "max", or is not there
        }
        String folder = limitFile.substring(0, limitFile.lastIndexOf('/'));
        String stat = read.apply(folder + "/memory.stat").orElse("");
        long cached =
                Math.max(0, value(stat, prefix + "active_file"))
                        + Math.max(0, value(stat, prefix + "inactive_file"));
        long left = Math.max(0, limit - used + cached) + swap;
        return left >= bytes
                ? this
                : new AvailableMemory(
                        left,
                        "in this control group (%s = %d)".formatted(limitFile, limit),
                        "raise the container's memory limit or ");
    }

    private static long number(Function<String, Optional<String>> read, String path) {
        String text = read.apply(path).orElse("").strip();
        return text.matches("\\d{1,18}") ? Long.parseLong(text) : -1;
    }

    /// @return the number behind a word at the start of a line, else -1
    private static long value(String text, String word) {
        return text.lines()
                .map(line -> line.split("\\s+"))
                .filter(parts -> parts.length > 1 && parts[0].equals(word))
                .filter(parts -> parts[1].matches("\\d{1,15}"))
                .mapToLong(parts -> Long.parseLong(parts[1]))
                .findFirst()
                .orElse(-1);
    }

    private static Optional<String> read(Path root, String path) {
        try {
            return Optional.of(Files.readString(root.resolve(path.substring(1))));
        } catch (IOException e) {
            return Optional.empty();
        }
    }
}

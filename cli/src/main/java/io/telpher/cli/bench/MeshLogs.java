package io.telpher.cli.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.time.temporal.ChronoUnit;

/// A log for each pair of a full mesh: `fullmesh_0_1.log` is that of GPU 0 here and GPU 1 there.
///
/// @param folder where they are; made when it does not exist
record MeshLogs(Path folder) {
    /// Begins a pair's log anew.
    void begin(String from, String to, String header) {
        try {
            Files.createDirectories(folder);
            Files.writeString(file(from, to), "# " + header + "\n");
        } catch (IOException e) {
            throw new BenchFailure("cannot write " + file(from, to) + ": " + e.getMessage(), e);
        }
    }

    /// Adds a line, with the time.
    void add(String from, String to, String line) {
        String time = Instant.now().truncatedTo(ChronoUnit.MILLIS).toString();
        try {
            Files.writeString(file(from, to), time + " " + line + "\n", StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new BenchFailure("cannot write " + file(from, to) + ": " + e.getMessage(), e);
        }
    }

    private Path file(String from, String to) {
        return folder.resolve("fullmesh_%s_%s.log".formatted(number(from), number(to)));
    }

    private static String number(String name) {
        return name.replaceAll("\\D", "");
    }
}

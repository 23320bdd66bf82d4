package io.telpher.bootstrap;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;

/// The processors of this machine, as its kernel counts them.
final class Processors {
    /// `USER_HZ` of x86-64 and AArch64.
    private static final int TICK_MILLIS = 10;

    private Processors() {}

    /// @return for how long each of them, on average, has had nothing to do since the machine was
    ///     started
    static Duration idle() {
        try {
            List<String> lines = Files.readAllLines(Path.of("/proc/stat"));
            String[] all = lines.getFirst().split(" +"); // cpu user nice system idle iowait ...
            long ticks = Long.parseLong(all[4]) + Long.parseLong(all[5]);
            long processors = lines.stream().filter(line -> line.matches("cpu\\d+ .*")).count();
            return Duration.ofMillis(ticks * TICK_MILLIS / processors);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}

package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/// What a process holds that an engine could leave behind.
///
/// @param held how many of each sort
record Resources(Map<String, Integer> held) implements java.io.Serializable {
    /// @return what this process holds now
    static Resources now() {
        Map<String, Integer> held = new TreeMap<>();
        for (String descriptor : links(Path.of("/proc/self/fd"))) {
            // Other files are the class loader's business.
            String sort = descriptor.replaceAll("\\[?[0-9]+\\]?", "").replaceAll(" .*", "");
            if (!descriptor.startsWith("/")
                    || descriptor.startsWith("/memfd:")
                    || descriptor.matches("/proc/[0-9]+/mem")) {
                held.merge("descriptor " + sort, 1, Integer::sum);
            }
        }
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            String name = thread.getName().toLowerCase(java.util.Locale.ROOT);
            if (name.contains("telpher")) {
                held.merge("thread " + name.replaceAll("[0-9]+", "N"), 1, Integer::sum);
            }
        }
        for (String line : read(Path.of("/proc/self/maps"))) {
            if (line.contains("/memfd:") || line.contains("telpher")) {
                held.merge("mapping", 1, Integer::sum);
            }
        }
        for (String folder : new String[] {"/dev/shm", "/tmp"}) {
            for (String name : names(Path.of(folder))) {
                if (name.startsWith("telpher") || name.startsWith("tlp")) {
                    held.merge("file " + folder + "/" + name, 1, Integer::sum);
                }
            }
        }
        return new Resources(held);
    }

    /// @return what it holds when what ends by itself has ended
    static Resources settled() {
        Resources before = now();
        for (int round = 0; round < 50; round++) {
            Contract.sleep(100);
            Resources after = now();
            if (after.equals(before)) {
                break;
            }
            before = after;
        }
        return before;
    }

    /// Checks that nothing was added, allowing a moment for what ends by itself.
    void awaitSame() {
        long end = System.nanoTime() + Duration.ofSeconds(5).toNanos();
        List<String> more = added();
        while (!more.isEmpty() && System.nanoTime() < end) {
            Contract.sleep(20);
            more = added();
        }
        assertThat(more).as("left behind").isEmpty();
    }

    private List<String> added() {
        List<String> added = new ArrayList<>();
        now().held
                .forEach(
                        (sort, count) -> {
                            int before = held.getOrDefault(sort, 0);
                            if (count > before) {
                                added.add(sort + ": " + before + " then " + count);
                            }
                        });
        return added;
    }

    private static List<String> links(Path folder) {
        List<String> links = new ArrayList<>();
        try (Stream<Path> entries = Files.list(folder)) {
            entries.forEach(
                    entry -> {
                        try {
                            links.add(Files.readSymbolicLink(entry).toString());
                        } catch (IOException e) {
                            // The descriptor of this listing.
                        }
                    });
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return links;
    }

    private static List<String> read(Path file) {
        try {
            return Files.readAllLines(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static List<String> names(Path folder) {
        try (Stream<Path> entries = Files.list(folder)) {
            return entries.map(entry -> entry.getFileName().toString()).toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}

package io.telpher.cli.soak;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/// What a process holds, as the kernel sees it.
///
/// @param descriptors open descriptors
/// @param shared those of them that are shared memory
/// @param threads threads
/// @param residentBytes memory in use
record Held(int descriptors, int shared, int threads, long residentBytes) {
    private static final long LINGERING = 5_000_000_000L;

    /// @throws IOException when the process is gone
    static Held by(long pid) throws IOException {
        Path process = Path.of("/proc/" + pid);
        int threads = 0;
        long resident = 0;
        for (String line : Files.readAllLines(process.resolve("status"))) {
            if (line.startsWith("Threads:")) {
                threads = (int) number(line);
            } else if (line.startsWith("VmRSS:")) {
                resident = number(line) << 10;
            }
        }
        Map<String, Integer> kinds = kinds(process);
        return new Held(
                kinds.values().stream().mapToInt(n -> n).sum(),
                kinds.getOrDefault("memfd", 0),
                threads,
                resident);
    }

    private static long number(String line) {
        return Long.parseLong(line.replaceAll("\\D", ""));
    }

    private static Map<String, Integer> kinds(Path process) throws IOException {
        Map<String, Integer> kinds = new TreeMap<>();
        try (Stream<Path> all = Files.list(process.resolve("fd"))) {
            for (Path descriptor : (Iterable<Path>) all::iterator) {
                kinds.merge(kind(descriptor), 1, Integer::sum);
            }
        } catch (java.io.UncheckedIOException e) {
            throw e.getCause();
        }
        return kinds;
    }

    private static String kind(Path descriptor) {
        try {
            String link = Files.readSymbolicLink(descriptor).toString();
            return link.startsWith("/memfd:")
                    ? "memfd"
                    : link.matches("/proc/\\d+/mem")
                            ? "process memory"
                            : link.startsWith("/")
                                    ? "file"
                                    : link.replaceAll("[0-9:\\[\\]]+", " ").strip();
        } catch (IOException e) {
            return "file"; // closed since
        }
    }

    /// @return what this process still holds that belongs to an engine, once that has had time to
    ///     let go; empty when there is nothing
    static String leftBehind() {
        long since = System.nanoTime();
        while (true) {
            Map<String, Integer> left = new TreeMap<>();
            try {
                kinds(Path.of("/proc/self"))
                        .forEach(
                                (kind, count) -> {
                                    if (kind.equals("memfd")
                                            || kind.equals("socket")
                                            || kind.equals("process memory")
                                            || kind.contains("pidfd")) {
                                        left.put(kind, count);
                                    }
                                });
            } catch (IOException e) {
                return "what cannot be listed: " + e.getMessage();
            }
            if (left.isEmpty() || System.nanoTime() - since > LINGERING) {
                return left.isEmpty() ? "" : left.toString();
            }
            LockSupport.parkNanos(20_000_000);
        }
    }

    /// @return names in the folders of shared memory and temporary files that look like Telpher's
    static java.util.Set<String> files() {
        java.util.Set<String> found = new java.util.TreeSet<>();
        for (String folder : new String[] {"/dev/shm", System.getProperty("java.io.tmpdir")}) {
            try (Stream<Path> all = Files.list(Path.of(folder))) {
                all.filter(p -> p.getFileName().toString().matches("\\.?(telpher|tlp).*"))
                        .forEach(p -> found.add(p.toString()));
            } catch (IOException e) {
                continue; // there is no such folder
            }
        }
        return found;
    }
}

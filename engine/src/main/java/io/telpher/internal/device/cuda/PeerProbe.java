package io.telpher.internal.device.cuda;

import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.Cuda;
import io.telpher.internal.ffi.cuda.Nvml;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Availability;
import io.telpher.spi.HostIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.CodeSource;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/// Finds out whether bytes between two devices arrive as they were, which the driver's word does
/// not say: behind an IOMMU, or with ACS turned on, copies between devices have been seen to hang
/// and to arrive damaged. Thread-safe.
///
/// A child process does it ([PeerProbeMain]), once for each pair, driver and boot of the machine: a
/// device that hangs must not take this process along. What it found is kept in [CacheFolder].
///
/// ```text
/// peers-BOOT-DRIVER-UUID-UUID.probe    "good", or why not; the lesser UUID first
/// the same with .lock                  held while a process tries the pair
/// ```
final class PeerProbe {
    private static final String GOOD = "good";

    /// Variables whose options are meant for this process: a debugger's port is taken.
    private static final List<String> OF_JAVA =
            List.of("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS");
    private static final String PREFIX = "peers-";

    /// What is known of each pair, by the file's name.
    private static final Map<String, CompletableFuture<Gpu.Trial>> PAIRS =
            new ConcurrentHashMap<>();

    private PeerProbe() {}

    /// See [Gpu#tried].
    static CompletableFuture<Gpu.Trial> of(UUID one, UUID other, int seconds) {
        boolean inOrder = one.toString().compareTo(other.toString()) < 0;
        UUID first = inOrder ? one : other;
        UUID second = inOrder ? other : one;
        String name =
                "%s%s-%s-%s-%s"
                        .formatted(PREFIX, HostIdentity.here().bootId(), driver(), first, second);
        return PAIRS.computeIfAbsent(name, key -> find(key, first, second, seconds));
    }

    private static String driver() {
        String nvml =
                Nvml.availability() instanceof Availability.Available ? Nvml.driverVersion() : "";
        return (Cuda.driverVersion() + "_" + nvml).replaceAll("[^0-9A-Za-z._]", "");
    }

    private static CompletableFuture<Gpu.Trial> find(
            String name, UUID first, UUID second, int seconds) {
        Path folder = CacheFolder.path();
        Gpu.Trial known = read(folder, name);
        if (known != null) {
            return CompletableFuture.completedFuture(known);
        }
        return CompletableFuture.supplyAsync(
                () -> {
                    try {
                        return alone(folder, name, first, second, seconds);
                    } catch (RuntimeException e) {
                        Log.error("the trial of two devices failed", e);
                        return unknown(e.toString());
                    }
                },
                task -> Thread.ofPlatform().daemon().name("telpher-probe").start(task));
    }

    /// Of several processes that want to know, one tries.
    private static Gpu.Trial alone(
            @Nullable Path folder, String name, UUID first, UUID second, int seconds) {
        if (folder == null) {
            return run(first, second, seconds);
        }
        Path lockFile = folder.resolve(name + ".lock");
        try {
            Files.createDirectories(folder);
            try (FileChannel file =
                    FileChannel.open(
                            lockFile, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
                return underLock(file, folder, name, first, second, seconds);
            }
        } catch (IOException e) {
            Log.debug("trials of devices are not kept", e);
            return run(first, second, seconds);
        }
    }

    private static Gpu.Trial underLock(
            FileChannel file, Path folder, String name, UUID first, UUID second, int seconds)
            throws IOException {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        FileLock held = file.tryLock();
        while (held == null && System.nanoTime() - end < 0) {
            sleep();
            held = file.tryLock();
        }
        Gpu.Trial known = read(folder, name);
        if (known != null) {
            return known;
        }
        Gpu.Trial found = run(first, second, seconds);
        if (found.known()) {
            write(folder, name, found);
            return kept(found, folder.resolve(name + ".probe"));
        }
        return found;
    }

    private static void sleep() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    private static Gpu.@Nullable Trial read(@Nullable Path folder, String name) {
        if (folder == null) {
            return null;
        }
        Path file = folder.resolve(name + ".probe");
        try {
            String text = Files.readString(file).strip();
            return text.isEmpty() ? null : kept(trial(text), file);
        } catch (IOException e) {
            return null;
        }
    }

    /// Says where a refusal comes from, and how to be rid of it.
    private static Gpu.Trial kept(Gpu.Trial found, Path file) {
        return found.good()
                ? found
                : new Gpu.Trial(
                        true,
                        false,
                        "%s; remove %s to have it tried again".formatted(found.reason(), file));
    }

    private static Gpu.Trial trial(String text) {
        return text.equals(GOOD) ? new Gpu.Trial(true, true, "") : new Gpu.Trial(true, false, text);
    }

    /// Also forgets what was found before the machine was started.
    private static void write(Path folder, String name, Gpu.Trial found) throws IOException {
        Path aside = Files.createTempFile(folder, PREFIX, ".new");
        try {
            Files.writeString(aside, found.good() ? GOOD : found.reason());
            Files.move(
                    aside,
                    folder.resolve(name + ".probe"),
                    StandardCopyOption.ATOMIC_MOVE,
                    StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(aside);
        }
        String current = PREFIX + HostIdentity.here().bootId();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(folder, PREFIX + "*-*")) {
            for (Path file : files) {
                if (!file.getFileName().toString().startsWith(current)) {
                    Files.deleteIfExists(file);
                }
            }
        }
    }

    private static Gpu.Trial unknown(String why) {
        return new Gpu.Trial(false, true, why);
    }

    /// Has a child try the pair.
    private static Gpu.Trial run(UUID first, UUID second, int seconds) {
        List<String> command = command();
        if (command == null) {
            return unknown("this Java has no launcher, or the engine no place of its own");
        }
        command.add(first.toString());
        command.add(second.toString());
        ProcessBuilder builder = new ProcessBuilder(command);
        // Only these two: others get no context, and one that this process does not see can be
        // seen.
        builder.environment().put("CUDA_VISIBLE_DEVICES", "GPU-" + first + ",GPU-" + second);
        for (String name : OF_JAVA) {
            builder.environment().remove(name);
        }
        // Nobody reads while it runs: it must not wait for room to write.
        builder.redirectError(ProcessBuilder.Redirect.DISCARD);
        Process child;
        try {
            child = builder.start();
            child.getOutputStream().close();
        } catch (IOException e) {
            return unknown("no child process can be started: " + e.getMessage());
        }
        try {
            return await(child, first, second, seconds);
        } finally {
            child.destroyForcibly();
        }
    }

    private static Gpu.Trial await(Process child, UUID first, UUID second, int seconds) {
        try {
            if (!child.waitFor(seconds, TimeUnit.SECONDS)) {
                return trial(
                        "copies between %s and %s did not end within %d s"
                                .formatted(first, second, seconds));
            }
            String said;
            try (InputStream out = child.getInputStream()) {
                said = new String(out.readNBytes(4096), StandardCharsets.UTF_8).strip();
            }
            String last = said.substring(said.lastIndexOf('\n') + 1);
            return switch (child.exitValue()) {
                case PeerProbeMain.GOOD -> trial(GOOD);
                case PeerProbeMain.BAD -> trial(last);
                default -> unknown("exit code %d: %s".formatted(child.exitValue(), last));
            };
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return unknown("interrupted");
        } catch (IOException e) {
            return unknown(e.toString());
        }
    }

    /// A small Java with this process's settings; null where there is none.
    private static @Nullable List<String> command() {
        Path launcher = Path.of(System.getProperty("java.home"), "bin", "java");
        CodeSource source = PeerProbe.class.getProtectionDomain().getCodeSource();
        if (source == null || source.getLocation() == null || !Files.isExecutable(launcher)) {
            return null;
        }
        Path code;
        try {
            URI place = source.getLocation().toURI();
            code = Path.of(place);
        } catch (URISyntaxException | RuntimeException e) {
            return null;
        }
        List<String> command = new ArrayList<>();
        command.add(launcher.toString());
        command.addAll(
                List.of(
                        "--enable-native-access=ALL-UNNAMED",
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "-Xmx64m"));
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("telpher.")) {
                command.add("-D" + name + "=" + System.getProperty(name));
            }
        }
        command.addAll(List.of("-cp", code.toString(), PeerProbeMain.class.getName()));
        return command;
    }
}

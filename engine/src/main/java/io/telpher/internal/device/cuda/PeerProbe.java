package io.telpher.internal.device.cuda;

import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.ffi.cuda.Cuda;
import io.telpher.internal.ffi.cuda.Nvml;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Availability;
import io.telpher.spi.HostIdentity;
import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.channels.FileChannel;
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
/// device that hangs must not take this process along. What it found is kept in [CacheFolder],
/// which several machines may share:
///
/// ```text
/// peers-BOOT-DRIVER-UUID-UUID.probe    "good", or why not; the lesser UUID first
/// the same with .lock                  held while a process tries the pair
/// ```
///
/// A pair is bad when its bytes did not arrive: other ones did, or none in the time that the copies
/// had. A trial that could not be made to the end says nothing of the pair; it is made again later.
final class PeerProbe {
    private static final String GOOD = "good";

    /// Variables whose options are meant for this process: a debugger's port is taken.
    private static final List<String> OF_JAVA =
            List.of("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS");

    private static final String PREFIX = "peers-";
    private static final String SUFFIX = ".probe";

    /// How long a child may take until it copies: a JVM, two contexts, and kernels to compile.
    private static final int START_SECONDS = 120;

    /// When a trial is made again that could not be made to the end: doubled each time.
    private static final long AGAIN_SECONDS = 60;

    private static final long LAST_AGAIN_SECONDS = 3600;

    /// A trial could not be made to the end.
    private static final class Unfinished extends Exception {
        private static final long serialVersionUID = 1L;

        Unfinished(String why) {
            super(why);
        }
    }

    /// Length of the end of a file's name that two UUIDs make.
    private static final int PAIR = 2 * ("-".length() + 36);

    /// What is known of each pair, by the file's name.
    private static final Map<String, CompletableFuture<GpuRuntime.Trial>> PAIRS =
            new ConcurrentHashMap<>();

    private PeerProbe() {}

    /// See [GpuRuntime#tried].
    static CompletableFuture<GpuRuntime.Trial> of(UUID one, UUID other, int seconds) {
        boolean inOrder = one.toString().compareTo(other.toString()) < 0;
        UUID first = inOrder ? one : other;
        UUID second = inOrder ? other : one;
        String name = "%s-%s-%s".formatted(current(), first, second);
        return PAIRS.computeIfAbsent(name, key -> find(key, first, second, seconds));
    }

    /// What the names of files of this boot and driver begin with.
    private static String current() {
        return "%s%s-%s".formatted(PREFIX, HostIdentity.here().bootId(), driver());
    }

    /// See [GpuRuntime#keptTrials]: those of this driver.
    static List<GpuRuntime.KeptTrial> kept() {
        Path folder = CacheFolder.path();
        List<GpuRuntime.KeptTrial> kept = new ArrayList<>();
        if (folder == null) {
            return kept;
        }
        try (DirectoryStream<Path> files =
                Files.newDirectoryStream(folder, current() + "-*" + SUFFIX)) {
            for (Path file : files) {
                addKept(kept, file);
            }
        } catch (IOException | RuntimeException e) {
            Log.debug("trials of devices are not listed", e); // such as for want of the folder
        }
        return kept;
    }

    /// One that is none of ours, or is being removed, hides no other.
    private static void addKept(List<GpuRuntime.KeptTrial> kept, Path file) {
        try {
            String name = file.getFileName().toString();
            String pair = name.substring(0, name.length() - SUFFIX.length());
            String text = Files.readString(file).strip();
            if (pair.length() == current().length() + PAIR && !text.isEmpty()) {
                kept.add(
                        new GpuRuntime.KeptTrial(
                                UUID.fromString(
                                        pair.substring(
                                                pair.length() - PAIR + 1,
                                                pair.length() - PAIR / 2)),
                                UUID.fromString(pair.substring(pair.length() - PAIR / 2 + 1)),
                                file,
                                text.equals(GOOD),
                                text));
            }
        } catch (IOException | RuntimeException e) {
            Log.debug("no trial of devices can be read from " + file, e);
        }
    }

    private static String driver() {
        String nvml =
                Nvml.availability() instanceof Availability.Available ? Nvml.driverVersion() : "";
        return (Cuda.driverVersion() + "_" + nvml).replaceAll("[^0-9A-Za-z._]", "");
    }

    private static CompletableFuture<GpuRuntime.Trial> find(
            String name, UUID first, UUID second, int seconds) {
        Path folder = CacheFolder.path();
        GpuRuntime.Trial known = read(folder, name);
        if (known != null) {
            return CompletableFuture.completedFuture(known);
        }
        CompletableFuture<GpuRuntime.Trial> found = new CompletableFuture<>();
        start(() -> tryUntilKnown(found, folder, name, first, second, seconds, AGAIN_SECONDS));
        return found;
    }

    private static void start(Runnable task) {
        Thread.ofPlatform().daemon().name("telpher-probe").start(task);
    }

    private static void tryUntilKnown(
            CompletableFuture<GpuRuntime.Trial> found,
            @Nullable Path folder,
            String name,
            UUID first,
            UUID second,
            int seconds,
            long again) {
        try {
            found.complete(alone(folder, name, first, second, seconds));
        } catch (Unfinished | RuntimeException e) {
            Log.warning(
                    "devices %s and %s could not be tried, their bytes are staged meanwhile; once more in %d s (TELPHER_P2P_PROBE=0 trusts them): %s"
                            .formatted(first, second, again, e.getMessage()),
                    e instanceof RuntimeException ? e : null);
            long next = Math.min(2 * again, LAST_AGAIN_SECONDS);
            CompletableFuture.delayedExecutor(again, TimeUnit.SECONDS, PeerProbe::start)
                    .execute(
                            () -> tryUntilKnown(found, folder, name, first, second, seconds, next));
        }
    }

    /// Of several processes that want to know, one tries.
    private static GpuRuntime.Trial alone(
            @Nullable Path folder, String name, UUID first, UUID second, int seconds)
            throws Unfinished {
        if (folder == null) {
            return run(first, second, seconds);
        }
        FileChannel held = lock(folder, name, seconds);
        try {
            GpuRuntime.Trial known = read(folder, name);
            if (known != null) {
                return known;
            }
            GpuRuntime.Trial found = run(first, second, seconds);
            return found.known() && keep(folder, name, found)
                    ? kept(found, file(folder, name))
                    : found;
        } finally {
            unlock(held);
        }
    }

    /// Waits for the lock of a pair, for as long as a trial takes: a folder on a network may not
    /// lock.
    ///
    /// @return null where there is no such folder, and none can be made
    private static @Nullable FileChannel lock(Path folder, String name, int seconds) {
        FileChannel file = null;
        try {
            Files.createDirectories(folder);
            file =
                    FileChannel.open(
                            folder.resolve(name + ".lock"),
                            StandardOpenOption.CREATE,
                            StandardOpenOption.WRITE);
            long end = System.nanoTime() + (START_SECONDS + seconds) * 1_000_000_000L;
            while (file.tryLock() == null && System.nanoTime() - end < 0) {
                sleep();
            }
        } catch (IOException | RuntimeException e) {
            Log.debug("trials of devices are not locked", e);
        }
        return file;
    }

    private static void unlock(@Nullable FileChannel held) {
        try {
            if (held != null) {
                held.close();
            }
        } catch (IOException e) {
            Log.debug("the lock of a trial cannot be closed", e);
        }
    }

    private static void sleep() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    private static Path file(Path folder, String name) {
        return folder.resolve(name + SUFFIX);
    }

    private static GpuRuntime.@Nullable Trial read(@Nullable Path folder, String name) {
        if (folder == null) {
            return null;
        }
        Path file = file(folder, name);
        try {
            String text = Files.readString(file).strip();
            return text.isEmpty() ? null : kept(trial(text), file);
        } catch (IOException e) {
            return null;
        }
    }

    /// Says where a refusal comes from, and how to be rid of it.
    private static GpuRuntime.Trial kept(GpuRuntime.Trial found, Path file) {
        return found.good()
                ? found
                : new GpuRuntime.Trial(
                        true,
                        false,
                        "%s; processes that start after %s was removed try it again"
                                .formatted(found.reason(), file));
    }

    private static GpuRuntime.Trial trial(String text) {
        return text.equals(GOOD)
                ? new GpuRuntime.Trial(true, true, "")
                : new GpuRuntime.Trial(true, false, text);
    }

    /// What was found counts, whether it can be kept or not.
    ///
    /// @return whether it is kept
    private static boolean keep(Path folder, String name, GpuRuntime.Trial found) {
        try {
            write(folder, name, found.good() ? GOOD : found.reason());
        } catch (IOException | RuntimeException e) {
            Log.debug("a trial of devices is not kept", e);
            return false;
        }
        try {
            forget(folder, name);
        } catch (IOException | RuntimeException e) {
            Log.debug("earlier trials of devices are kept", e);
        }
        return true;
    }

    private static void write(Path folder, String name, String text) throws IOException {
        Path aside = Files.createTempFile(folder, PREFIX, ".new");
        try {
            Files.writeString(aside, text);
            Files.move(
                    aside,
                    file(folder, name),
                    StandardCopyOption.ATOMIC_MOVE,
                    StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(aside);
        }
    }

    /// Forgets what was found of the pair before the machine was started. Files of other pairs may
    /// be another machine's.
    private static void forget(Path folder, String name) throws IOException {
        String current = PREFIX + HostIdentity.here().bootId();
        String pair = name.substring(name.length() - PAIR);
        try (DirectoryStream<Path> files =
                Files.newDirectoryStream(folder, PREFIX + "*" + pair + ".*")) {
            for (Path file : files) {
                if (!file.getFileName().toString().startsWith(current)) {
                    Files.deleteIfExists(file);
                }
            }
        }
    }

    private static GpuRuntime.Trial unknown(String why) {
        return new GpuRuntime.Trial(false, true, why);
    }

    /// Has a child try the pair.
    ///
    /// @return what it has found, or that nobody can here
    private static GpuRuntime.Trial run(UUID first, UUID second, int seconds) throws Unfinished {
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
            throw new Unfinished("no child process can be started: " + e.getMessage());
        }
        try {
            return await(child, first, second, seconds);
        } finally {
            child.destroyForcibly();
        }
    }

    /// The time of the trial begins when the child says that it copies from now on.
    private static GpuRuntime.Trial await(Process child, UUID first, UUID second, int seconds)
            throws Unfinished {
        StringBuilder said = new StringBuilder();
        long end = System.nanoTime() + START_SECONDS * 1_000_000_000L;
        boolean begun = false;
        try (InputStream out = child.getInputStream()) {
            while (!child.waitFor(50, TimeUnit.MILLISECONDS)) {
                said.append(text(out.readNBytes(out.available())));
                if (!begun && said.toString().lines().anyMatch(PeerProbeMain.BEGUN::equals)) {
                    begun = true;
                    end = System.nanoTime() + seconds * 1_000_000_000L;
                }
                if (System.nanoTime() - end < 0) {
                    continue;
                }
                if (begun) {
                    return trial(
                            "copies between %s and %s did not end within %d s"
                                    .formatted(first, second, seconds));
                }
                throw new Unfinished(
                        "a child process was not ready within %d s".formatted(START_SECONDS));
            }
            said.append(text(out.readAllBytes()));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new Unfinished("interrupted");
        } catch (IOException e) {
            throw new Unfinished(e.toString());
        }
        String all = said.toString().strip();
        String last = all.substring(all.lastIndexOf('\n') + 1);
        return switch (child.exitValue()) {
            case PeerProbeMain.GOOD -> trial(GOOD);
            case PeerProbeMain.BAD -> trial(last);
            default ->
                    throw new Unfinished(
                            "a child process ended with exit code %d: %s"
                                    .formatted(child.exitValue(), last));
        };
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /// A small Java with this process's settings; null where there is none.
    private static @Nullable List<String> command() {
        Path launcher = Path.of(System.getProperty("java.home"), "bin", "java");
        CodeSource source = PeerProbe.class.getProtectionDomain().getCodeSource();
        if (source == null || source.getLocation() == null || !Files.isExecutable(launcher)) {
            return null;
        }
        // In a run-time image there is no class path to take it from.
        boolean inImage = source.getLocation().getProtocol().equals("jrt");
        String module = PeerProbe.class.getModule().getName();
        List<String> main;
        try {
            main =
                    inImage
                            ? List.of("-m", module + "/" + PeerProbeMain.class.getName())
                            : List.of(
                                    "-cp",
                                    Path.of(source.getLocation().toURI()).toString(),
                                    PeerProbeMain.class.getName());
        } catch (URISyntaxException | RuntimeException e) {
            return null;
        }
        List<String> command = new ArrayList<>();
        command.add(launcher.toString());
        command.addAll(
                List.of(
                        "--enable-native-access=" + (inImage ? module : "ALL-UNNAMED"),
                        "-XX:+UseSerialGC",
                        "-XX:TieredStopAtLevel=1",
                        "-Xmx64m",
                        // A driver that crashes is what it is for: it leaves no files behind.
                        "-XX:-UsePerfData",
                        "-XX:-CreateCoredumpOnCrash",
                        "-XX:ErrorFile=/dev/null"));
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("telpher.")) {
                command.add("-D" + name + "=" + System.getProperty(name));
            }
        }
        command.addAll(main);
        return command;
    }
}

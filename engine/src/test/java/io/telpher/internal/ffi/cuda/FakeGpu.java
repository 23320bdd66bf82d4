package io.telpher.internal.ffi.cuda;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.spi.Availability;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import org.awaitility.Awaitility;

/// The fake GPU libraries (`fake-gpu/README.md` of the test resources): builds them with gcc,
/// names them to JVMs, and asks the fake driver of this JVM what only it knows.
///
/// A JVM opens the libraries once, so tests on them carry [#TAG], whose classes Surefire runs in a
/// JVM of their own each, and call [#assumeHere] before anything else. Tests of several processes
/// start their JVMs with [#jvmArguments] and variables of the fake.
public final class FakeGpu {
    /// The tag of tests that run in JVMs whose GPUs are the fake ones.
    public static final String TAG = "fake-gpu";

    private static final String KERNELS = "kernels.cu";
    private static final List<String> SHARED = List.of("fake_cuda.h", "fake_identity.h", KERNELS);
    private static final List<Library> LIBRARIES =
            List.of(
                    new Library(
                            "libcuda.so.1",
                            Cuda.LIBRARY_PROPERTY,
                            List.of(
                                    "fake_devices.c",
                                    "fake_memory.c",
                                    "fake_sharing.c",
                                    "fake_streams.c",
                                    "fake_events.c",
                                    "fake_copies.c",
                                    "fake_modules.c",
                                    "fake_kernels.c",
                                    "fake_telpher.cpp")),
                    new Library("libnvidia-ml.so.1", Nvml.LIBRARY_PROPERTY, List.of("fake_nvml.c")),
                    new Library("libnvrtc.so", Nvrtc.LIBRARY_PROPERTY, List.of("fake_nvrtc.c")));

    private FakeGpu() {}

    private record Library(String file, String property, List<String> sources) {}

    /// What [#live] counts, in the fake's order.
    public enum Kind {
        ALLOCATIONS,
        HOST_ALLOCATIONS,
        HOST_REGISTRATIONS,
        VMM_HANDLES,
        VMM_RESERVATIONS,
        VMM_MAPPINGS,
        IPC_MAPPINGS,
        STREAMS,
        EVENTS,
        MODULES,
        CONTEXTS
    }

    /// Skips unless there is a C compiler.
    public static void assumeBuilt() {
        assumeThat(Built.REASON).as("no fake GPU: " + Built.REASON).isEmpty();
    }

    /// Skips unless the fake has Telpher's kernels, too.
    public static void assumeKernels() {
        assumeBuilt();
        assumeThat(Built.CPP).as("no kernels in the fake GPU: install the package g++").isTrue();
    }

    /// Skips unless this JVM's GPUs are the fake ones. Call before anything that may open CUDA.
    public static void assumeHere() {
        assumeThat(System.getProperty(Cuda.LIBRARY_PROPERTY))
                .as("needs a JVM with the fake GPUs, such as Surefire's execution 'fake-gpu' has")
                .isEqualTo(folder().resolve("libcuda.so.1").toString());
        assumeBuilt();
        assertThat(Cuda.availability()).isInstanceOf(Availability.Available.class);
    }

    /// Where the libraries are built.
    public static Path folder() {
        return Path.of("target", "fake-gpu").toAbsolutePath();
    }

    /// What a JVM needs for its GPUs to be the fake ones, and to be believed without a trial.
    public static List<String> jvmArguments() {
        assumeBuilt();
        List<String> arguments = new ArrayList<>();
        for (Library library : LIBRARIES) {
            arguments.add("-D" + library.property + "=" + folder().resolve(library.file));
        }
        arguments.add("-Dtelpher.cuda.probe=0");
        return arguments;
    }

    /// What has not been given back in this process, such as `allocations 1 streams 2`; "" for
    /// nothing.
    public static String report() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(512);
            Control.REPORT.invokeExact(out, out.byteSize());
            return out.getString(0);
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// How many things of a kind have not been given back in this process.
    public static int live(Kind kind) {
        try {
            return (int) Control.LIVE.invokeExact(kind.ordinal());
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// How often a context was made on a device in this process.
    public static int contextsMade(int ordinal) {
        try {
            return (int) Control.CONTEXTS_MADE.invokeExact(ordinal);
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// Sets what `FAKE_CUDA_FAULT` sets, from now on, in this process; "" for no faults.
    public static void setFaults(String faults) {
        try (Arena arena = Arena.ofConfined()) {
            Control.SET_FAULT.invokeExact(arena.allocateFrom(faults));
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// Sets what `FAKE_CUDA_DELAY_US` sets, from now on, in this process.
    public static void setDelay(long micros) {
        try {
            Control.SET_DELAY.invokeExact(micros);
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// Sets the most threads that a block of any kernel can have, as registers do.
    public static void setMostThreads(int most) {
        try {
            Control.SET_MOST_THREADS.invokeExact(most);
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// Has a thread run something whose first call of this name, `cuStreamWriteValue64` or
    /// `cuStreamWaitValue64`, does what it is asked for and does not return before the calling
    /// thread has run something else.
    public static void keep(String call, Runnable kept, Runnable meanwhile) {
        setKept(call);
        Thread thread = Thread.ofPlatform().start(kept);
        try {
            Awaitility.await().until(FakeGpu::isKeeping);
            meanwhile.run();
        } finally {
            setKept("");
        }
        Awaitility.await().until(() -> !thread.isAlive());
    }

    private static boolean isKeeping() {
        try {
            return (int) Control.KEEPS.invokeExact() == 1;
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    private static void setKept(String call) {
        try (Arena arena = Arena.ofConfined()) {
            Control.KEEP.invokeExact(arena.allocateFrom(call));
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// From here on the stream is one that records a graph.
    public static void beginCapture(long stream) {
        try {
            CudaError.check(
                    (int) Control.BEGIN_CAPTURE.invokeExact(stream, 0), "cuStreamBeginCapture");
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// How many copies were begun in this process, by streams.
    public static long copies() {
        return copiesBy(-1);
    }

    /// How many copies were begun in this process by a device's streams.
    public static long copiesBy(int ordinal) {
        try {
            return (long) Control.COPIES.invokeExact(ordinal);
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// How many copies were under way at the same time, at most, since this was asked last.
    public static int mostCopies() {
        try {
            return (int) Control.MOST_COPIES.invokeExact();
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// How many kernels were launched in this process.
    public static long launches() {
        try {
            return (long) Control.LAUNCHES.invokeExact();
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// What a device's or pinned memory holds now, ordered after nothing.
    public static byte[] peek(long address, int bytes) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(Math.max(1, bytes));
            int result = (int) Control.PEEK.invokeExact(address, out, (long) bytes);
            assertThat(result).as("peek at 0x%x", address).isZero();
            return out.asSlice(0, bytes).toArray(JAVA_BYTE);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// A device's memory as the fake sees it: changes at once, in both directions. Valid until the
    /// memory is freed.
    public static MemorySegment view(long address, long bytes) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment out = arena.allocate(ADDRESS);
            int result = (int) Control.VIEW.invokeExact(address, out);
            assertThat(result).as("view of 0x%x", address).isZero();
            return MemorySegment.ofAddress(out.get(ADDRESS, 0).address()).reinterpret(bytes);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// Changes a device's or pinned memory now.
    public static void poke(long address, byte[] bytes) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment in = arena.allocateFrom(JAVA_BYTE, bytes);
            int result = (int) Control.POKE.invokeExact(address, in, (long) bytes.length);
            assertThat(result).as("poke at 0x%x", address).isZero();
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    /// Builds at most once per JVM, and only what is older than its sources.
    private static final class Built {
        /// Before the rest: it is asked for while that is built.
        static final boolean CPP = hasCpp();

        static final String REASON = build();

        private static boolean hasCpp() {
            try {
                Process process = new ProcessBuilder("gcc", "-print-prog-name=cc1plus").start();
                String said =
                        new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
                // The bare name where there is none.
                return said.contains("/");
            } catch (IOException e) {
                return false;
            }
        }

        private static String resource(String file) {
            return file.equals(KERNELS)
                    ? "/io/telpher/internal/device/cuda/" + file
                    : "/fake-gpu/" + file;
        }

        private static String build() {
            try {
                Files.createDirectories(folder());
                for (Library library : LIBRARIES) {
                    String problem = build(library);
                    if (!problem.isEmpty()) {
                        return problem;
                    }
                }
                return "";
            } catch (IOException e) {
                return "they cannot be built in " + folder() + ": " + e;
            }
        }

        private static String build(Library library) throws IOException {
            Path target = folder().resolve(library.file);
            Path stamp = folder().resolve(library.file + ".sources");
            StringBuilder all = new StringBuilder(CPP ? "with C++\n" : "");
            List<String> files = new ArrayList<>(SHARED);
            files.addAll(library.sources);
            Path sources = Files.createTempDirectory(folder(), "sources");
            for (String file : files) {
                try (InputStream in = FakeGpu.class.getResourceAsStream(resource(file))) {
                    byte[] text = in.readAllBytes();
                    all.append(new String(text, StandardCharsets.UTF_8));
                    Files.write(sources.resolve(file), text);
                }
            }
            try {
                if (Files.exists(target)
                        && Files.exists(stamp)
                        && Files.readString(stamp).contentEquals(all)) {
                    return "";
                }
                // Built aside and moved, since another JVM may be building too.
                Path fresh = sources.resolve("fresh.so");
                List<String> command =
                        new ArrayList<>(
                                List.of(
                                        "gcc",
                                        "-shared",
                                        "-fPIC",
                                        "-O1",
                                        "-g",
                                        "-pthread",
                                        "-fno-exceptions",
                                        "-Wall",
                                        "-Wextra",
                                        "-Werror",
                                        "-Wno-unknown-pragmas",
                                        "-o",
                                        fresh.toString(),
                                        "-Wl,-soname," + library.file));
                library.sources.stream()
                        .filter(file -> file.endsWith(".c") || CPP)
                        .forEach(file -> command.add(sources.resolve(file).toString()));
                Process process;
                try {
                    process = new ProcessBuilder(command).redirectErrorStream(true).start();
                } catch (IOException e) {
                    return "no C compiler: install the packages gcc and libc6-dev";
                }
                String said =
                        new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
                if (process.waitFor() != 0) {
                    throw new AssertionError(said);
                }
                Files.move(fresh, target, StandardCopyOption.ATOMIC_MOVE);
                Files.writeString(stamp, all);
                return "";
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            } finally {
                for (String file : files) {
                    Files.deleteIfExists(sources.resolve(file));
                }
                Files.deleteIfExists(sources);
            }
        }
    }

    private static final class Control {
        private static final SymbolLookup LOOKUP =
                SymbolLookup.libraryLookup(folder().resolve("libcuda.so.1"), Arena.global());

        static final MethodHandle REPORT =
                link("fakeCudaReport", FunctionDescriptor.ofVoid(ADDRESS, JAVA_LONG));
        static final MethodHandle LIVE =
                link("fakeCudaLive", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
        static final MethodHandle CONTEXTS_MADE =
                link("fakeCudaContextsMade", FunctionDescriptor.of(JAVA_INT, JAVA_INT));
        static final MethodHandle SET_FAULT =
                link("fakeCudaSetFault", FunctionDescriptor.ofVoid(ADDRESS));
        static final MethodHandle SET_DELAY =
                link("fakeCudaSetDelay", FunctionDescriptor.ofVoid(JAVA_LONG));
        static final MethodHandle SET_MOST_THREADS =
                link("fakeCudaSetMostThreads", FunctionDescriptor.ofVoid(JAVA_INT));
        static final MethodHandle KEEP = link("fakeCudaKeep", FunctionDescriptor.ofVoid(ADDRESS));
        static final MethodHandle KEEPS = link("fakeCudaKeeps", FunctionDescriptor.of(JAVA_INT));
        static final MethodHandle BEGIN_CAPTURE =
                link(
                        "cuStreamBeginCapture_v2",
                        FunctionDescriptor.of(JAVA_INT, JAVA_LONG, JAVA_INT));
        static final MethodHandle COPIES =
                link("fakeCudaCopies", FunctionDescriptor.of(JAVA_LONG, JAVA_INT));
        static final MethodHandle MOST_COPIES =
                link("fakeCudaMostCopies", FunctionDescriptor.of(JAVA_INT));
        static final MethodHandle LAUNCHES =
                link("fakeCudaLaunches", FunctionDescriptor.of(JAVA_LONG));
        static final MethodHandle PEEK =
                link(
                        "fakeCudaPeek",
                        FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS, JAVA_LONG));
        static final MethodHandle VIEW =
                link("fakeCudaView", FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS));
        static final MethodHandle POKE =
                link(
                        "fakeCudaPoke",
                        FunctionDescriptor.of(JAVA_INT, JAVA_LONG, ADDRESS, JAVA_LONG));

        private static MethodHandle link(String name, FunctionDescriptor descriptor) {
            return Linker.nativeLinker().downcallHandle(LOOKUP.findOrThrow(name), descriptor);
        }
    }
}

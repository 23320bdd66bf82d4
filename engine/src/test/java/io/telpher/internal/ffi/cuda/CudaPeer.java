package io.telpher.internal.ffi.cuda;

import io.telpher.internal.ffi.linux.Memory;
import io.telpher.spi.Availability;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/// Another process with device memory: a JVM that does what the lines on its standard input say.
/// Works on the fake driver and on real ones.
final class CudaPeer implements AutoCloseable {
    private static final HexFormat HEX = HexFormat.of();

    private final Process process;
    private final BufferedReader in;
    private final PrintStream out;

    private CudaPeer(Process process) {
        this.process = process;
        in =
                new BufferedReader(
                        new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        out = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
    }

    /// Starts one whose memory is on this device.
    static CudaPeer start(int device, List<String> jvmArguments, Map<String, String> environment)
            throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(jvmArguments);
        command.add("-cp");
        command.add(System.getProperty("java.class.path"));
        command.add(CudaPeer.class.getName());
        command.add(Integer.toString(device));
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().putAll(environment);
        return new CudaPeer(builder.redirectError(ProcessBuilder.Redirect.INHERIT).start());
    }

    int pid() {
        return (int) process.pid();
    }

    /// Says a line and returns the answer.
    String ask(String line) throws IOException {
        out.println(line);
        String answer = in.readLine();
        if (answer == null || answer.startsWith("failed")) {
            throw new IOException("to '" + line + "': " + answer);
        }
        return answer;
    }

    byte[] askBytes(String line) throws IOException {
        return HEX.parseHex(ask(line));
    }

    /// Ends it properly, so that it reports what it has not given back.
    @Override
    public void close() {
        out.println("end");
        try {
            if (!process.waitFor(30, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (Service service = new Service(Integer.parseInt(arguments[0]))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (line.equals("end")) {
                    return;
                }
                String answer;
                try {
                    answer = service.answer(line.split(" "));
                } catch (RuntimeException e) {
                    answer = "failed: " + e;
                }
                out.println(answer);
            }
        }
    }

    private static final class Service implements AutoCloseable {
        private final int device;
        private final long context;
        private final long stream;
        private final long word;
        private long allocated;
        private long mapped;
        private long mappedBytes;
        private long handle;
        private long event;

        Service(int ordinal) {
            if (!(Cuda.availability() instanceof Availability.Available)) {
                throw new IllegalStateException(Cuda.availability().toString());
            }
            device = CudaDevices.get(ordinal);
            context = CudaContexts.retainPrimary(device);
            CudaContexts.setCurrent(context);
            stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
            word = CudaMemory.hostAlloc(4096, 0);
            Memory.segment(word, 4096).fill((byte) 0);
        }

        String answer(String[] words) {
            return switch (words[0]) {
                // Memory of cuMemAlloc, its handle, its bytes, its end.
                case "alloc" -> {
                    allocated = CudaMemory.alloc(Long.parseLong(words[1]));
                    yield Long.toString(allocated);
                }
                case "handle" -> {
                    byte[] handle = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];
                    int result = CudaIpc.tryGetMemHandle(allocated, handle);
                    CudaError.check(-result, "cuIpcGetMemHandle", allocated);
                    yield HEX.formatHex(handle);
                }
                case "write" -> {
                    byte[] bytes = HEX.parseHex(words[1]);
                    try (Arena arena = Arena.ofConfined()) {
                        MemorySegment copy = arena.allocateFrom(ValueLayout.JAVA_BYTE, bytes);
                        CudaCopies.copy(target(), copy.address(), bytes.length, stream);
                        CudaStreams.synchronize(stream);
                    }
                    yield "ok";
                }
                case "read" -> {
                    try (Arena arena = Arena.ofConfined()) {
                        MemorySegment copy = arena.allocate(Long.parseLong(words[1]));
                        CudaCopies.copy(copy.address(), target(), copy.byteSize(), stream);
                        CudaStreams.synchronize(stream);
                        yield HEX.formatHex(copy.toArray(ValueLayout.JAVA_BYTE));
                    }
                }
                case "free" -> {
                    CudaMemory.free(allocated);
                    allocated = 0;
                    yield "ok";
                }
                // Memory of virtual memory management, as a descriptor of this process.
                case "map" -> {
                    CudaVmm.Properties properties =
                            new CudaVmm.Properties(
                                    CudaVmm.CU_MEM_LOCATION_TYPE_DEVICE,
                                    device,
                                    CudaVmm.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                    false);
                    mappedBytes =
                            CudaVmm.granularity(
                                    properties, CudaVmm.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
                    handle = CudaVmm.tryCreate(mappedBytes, properties);
                    CudaError.check((int) -Math.min(0, handle), "cuMemCreate", mappedBytes);
                    mapped = CudaVmm.reserve(mappedBytes, 0);
                    CudaVmm.map(mapped, mappedBytes, handle);
                    int flags = CudaVmm.CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
                    int access = CudaVmm.trySetAccess(mapped, mappedBytes, device, flags);
                    CudaError.check(-access, "cuMemSetAccess", mapped);
                    int descriptor = CudaVmm.tryExportDescriptor(handle);
                    CudaError.check(-Math.min(0, descriptor), "cuMemExportToShareableHandle");
                    yield descriptor + " " + mappedBytes;
                }
                case "unmap" -> {
                    CudaVmm.unmap(mapped, mappedBytes);
                    CudaVmm.freeAddresses(mapped, mappedBytes);
                    CudaVmm.release(handle);
                    mapped = 0;
                    yield "ok";
                }
                // An event that comes once the word is written.
                case "event" -> {
                    event =
                            CudaEvents.create(
                                    CudaEvents.CU_EVENT_DISABLE_TIMING
                                            | CudaEvents.CU_EVENT_INTERPROCESS);
                    CudaStreams.waitValue32(stream, word, 1, CudaStreams.CU_STREAM_WAIT_VALUE_EQ);
                    CudaEvents.record(event, stream);
                    byte[] handle = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];
                    int result = CudaIpc.tryGetEventHandle(event, handle);
                    CudaError.check(-result, "cuIpcGetEventHandle", event);
                    yield HEX.formatHex(handle);
                }
                case "signal" -> {
                    Memory.segment(word, 4).set(ValueLayout.JAVA_INT, 0, 1);
                    CudaStreams.synchronize(stream);
                    CudaEvents.destroy(event);
                    yield "ok";
                }
                default -> throw new IllegalArgumentException(words[0]);
            };
        }

        private long target() {
            return mapped != 0 ? mapped : allocated;
        }

        @Override
        public void close() {
            CudaMemory.freeHost(word);
            CudaStreams.destroy(stream);
            CudaContexts.setCurrent(0);
            CudaContexts.releasePrimary(device);
        }
    }
}

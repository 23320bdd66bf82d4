package io.telpher.internal.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.CopyQueue.Way;
import io.telpher.internal.device.ExportRecord;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.device.cuda.Stage.Done;
import io.telpher.internal.ffi.cuda.CudaVmm;
import io.telpher.internal.ffi.linux.Descriptors;
import java.io.BufferedReader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import java.util.Random;

/// Memory of another process, and page-locked memory. For a process of its own; starts the
/// other one itself. Works on real devices, too.
final class SharingScenarios {
    private static final CudaGpu HERE = Stage.gpu(0);
    private static final int SIZE = 1 << 16;
    private static final int OFFSET = 4096;
    private static final long PART = 2 << 20;

    private SharingScenarios() {}

    /// The other process: two allocations of device 1, one after the other, given away. Reads
    /// lines: `print` answers with its bytes, `again` frees one and makes another.
    private static final class Owner implements AutoCloseable {
        private final Process process;
        private final BufferedReader answers;

        /// @param way of the export
        /// @param parts in how many parts the memory is mapped
        Owner(int way, int parts) throws Exception {
            List<String> command = new ArrayList<>();
            command.add(ProcessHandle.current().info().command().orElseThrow());
            command.addAll(List.of("--enable-native-access=ALL-UNNAMED", "-XX:+UseSerialGC"));
            for (String name : System.getProperties().stringPropertyNames()) {
                if (name.startsWith("telpher.")) {
                    command.add("-D" + name + "=" + System.getProperty(name));
                }
            }
            command.addAll(List.of("-cp", System.getProperty("java.class.path")));
            command.addAll(
                    List.of(SharingScenarios.class.getName(), "owner", "" + way, "" + parts));
            process =
                    new ProcessBuilder(command)
                            .redirectError(ProcessBuilder.Redirect.INHERIT)
                            .start();
            answers = process.inputReader(StandardCharsets.US_ASCII);
        }

        String answer() throws Exception {
            return Objects.requireNonNull(answers.readLine(), "the owner has ended");
        }

        String ask(String line) throws Exception {
            process.outputWriter().write(line + "\n");
            process.outputWriter().flush();
            return answer();
        }

        Gpu.Import open(String said) {
            return Stage.open(HERE, process, said);
        }

        @Override
        public void close() {
            process.destroyForcibly();
        }

        static void run(int way, int parts) throws Exception {
            if (way == Gpu.WAY_IPC) {
                System.setProperty("telpher.cuda.cumem", "0");
            }
            CudaGpu gpu = Stage.gpu(1);
            Gpu.Allocation memory = allocate(gpu, parts);
            long offset = offset(parts);
            Gpu.Export export = say(gpu, memory, way, offset);
            BufferedReader lines =
                    new BufferedReader(
                            new java.io.InputStreamReader(System.in, StandardCharsets.US_ASCII));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.equals("print")) {
                    System.out.println(
                            HexFormat.of()
                                    .formatHex(Stage.get(gpu, memory.address() + offset, SIZE)));
                } else {
                    export.close();
                    memory.close();
                    memory = allocate(gpu, parts);
                    export = say(gpu, memory, way, offset);
                }
            }
        }

        private static Gpu.Allocation allocate(CudaGpu gpu, int parts) {
            return parts == 1
                    ? gpu.allocate(OFFSET + SIZE)
                    : Stage.parts(1, parts, PART, CudaVmm.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        }

        /// Of several parts the range has an end of the first and the beginning of the second.
        private static long offset(int parts) {
            return parts == 1 ? OFFSET : PART - OFFSET;
        }

        private static Gpu.Export say(CudaGpu gpu, Gpu.Allocation memory, int way, long offset) {
            Stage.put(gpu, memory.address() + offset, new byte[SIZE]);
            // Twice: what the driver gave out is shared, and stays for the second.
            Gpu.Export first = gpu.export(memory.address(), 16, way);
            Gpu.Export export = gpu.export(memory.address() + offset, SIZE, way);
            first.close();
            System.out.println(Stage.say(export));
            return export;
        }
    }

    /// Bytes that are written into another process's memory are there; mappings are shared and
    /// gone with the last user; memory that was allocated anew is never taken for the old.
    static void descriptors() throws Exception {
        share(Gpu.WAY_DESCRIPTOR, 1, "cuda-cumem");
    }

    /// The same of memory that is mapped in parts.
    static void descriptorsOfParts() throws Exception {
        share(Gpu.WAY_DESCRIPTOR, 3, "cuda-cumem");
    }

    /// The same by CUDA IPC.
    static void handles() throws Exception {
        share(Gpu.WAY_IPC, 1, "cuda-ipc");
    }

    private static void share(int way, int parts, String path) throws Exception {
        try (Owner owner = new Owner(way, parts);
                Gpu.Allocation source = HERE.allocate(SIZE)) {
            byte[] bytes = new byte[SIZE];
            String said = owner.answer();
            for (int round = 0; round < 3; round++) {
                new Random(round).nextBytes(bytes);
                Stage.put(HERE, source.address(), bytes);
                Gpu.Import first = owner.open(said);
                Gpu.Import second = owner.open(said);
                assertThat(first.path()).isEqualTo(path);
                assertThat(first.size()).isEqualTo(SIZE);
                assertThat(second.address()).isEqualTo(first.address());
                assertThat(HERE.imports().size()).isEqualTo(1);
                first.close();
                first.close();
                assertThat(
                                Stage.copy(
                                        HERE.queue(),
                                        Way.PEER,
                                        second.address(),
                                        source.address(),
                                        SIZE))
                        .isNull();
                assertThat(owner.ask("print")).isEqualTo(HexFormat.of().formatHex(bytes));
                second.close();
                assertThat(HERE.imports().size()).isZero();
                said = owner.ask("again");
            }
        }
    }

    /// A killed owner's memory can still be written: the jobs end, and the mapping can be closed.
    static void killedOwner() throws Exception {
        try (Owner owner = new Owner(Gpu.WAY_DESCRIPTOR, 2);
                Gpu.Allocation source = HERE.allocate(SIZE)) {
            Gpu.Import memory = owner.open(owner.answer());
            CopyQueue queue = HERE.queue();
            Done[] jobs = new Done[64];
            for (int i = 0; i < jobs.length; i++) {
                jobs[i] = new Done();
                queue.begin(Way.PEER, 1, SIZE);
                queue.copy(memory.address(), source.address(), SIZE);
                queue.end(jobs[i]);
                if (i == 5) {
                    owner.process.destroyForcibly().waitFor();
                }
            }
            Stage.await(queue, jobs);
            assertThat(jobs).allMatch(job -> job.failure == null);
            memory.close();
            assertThat(HERE.imports().size()).isZero();
        }
    }

    /// What a peer says is checked before anything is mapped, and what is not so is refused.
    static void lies() throws Exception {
        try (Owner owner = new Owner(Gpu.WAY_DESCRIPTOR, 1)) {
            String said = owner.answer();
            byte[] bytes = HexFormat.of().parseHex(said.split(" ")[0]);
            assertThatThrownBy(() -> HERE.open(1, new byte[128], new int[0]))
                    .isInstanceOf(TelpherException.Unsupported.class);
            assertThatThrownBy(() -> HERE.open(1, bytes, new int[0]))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("descriptor is missing");
            int file = Descriptors.open("/dev/null", Descriptors.O_RDONLY, 0);
            assertThatThrownBy(() -> HERE.open(1, bytes, new int[] {file}))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("cannot be mapped");
            int unused = Descriptors.close(file);
            try (Gpu.Import honest = owner.open(said)) {
                ExportRecord record = Objects.requireNonNull(ExportRecord.ofBytes(bytes));
                ExportRecord.Part part = record.parts().getFirst();
                byte[] larger =
                        new ExportRecord(
                                        record.way(),
                                        record.device(),
                                        List.of(
                                                new ExportRecord.Part(
                                                        part.allocation(), 2 * part.size())),
                                        record.offset(),
                                        record.size(),
                                        record.handle())
                                .toBytes();
                assertThatThrownBy(() -> owner.open(HexFormat.of().formatHex(larger)))
                        .isInstanceOf(TelpherException.Unsupported.class);
                assertThat(honest.size()).isEqualTo(SIZE);
            }
            assertThat(HERE.imports().size()).isZero();
        }
    }

    /// Parts that lie side by side in one reservation are one piece of memory, as PyTorch's
    /// expandable segments are; two reservations never are, nor what lies behind the last part.
    static void parts() {
        CudaRuntime runtime = CudaRuntime.INSTANCE;
        CudaContext context = HERE.context();
        long before = context.enter();
        try {
            CudaVmm.Properties properties =
                    new CudaVmm.Properties(
                            CudaVmm.CU_MEM_LOCATION_TYPE_DEVICE, context.device(), 0, false);
            long part =
                    CudaVmm.granularity(properties, CudaVmm.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
            long base = CudaVmm.reserve(3 * part, 0);
            for (int i = 0; i < 2; i++) {
                long handle = CudaVmm.tryCreate(part, properties);
                assertThat(handle).isPositive();
                CudaVmm.map(base + i * part, part, handle);
                CudaVmm.release(handle);
            }
            GpuRuntime.Pointer one = runtime.inspect(base + 8, 8);
            GpuRuntime.Pointer both = runtime.inspect(base + 8, 2 * part);
            assertThat(one).isNotNull();
            assertThat(both).isNotNull();
            assertThat(one.size()).isEqualTo(part);
            assertThat(both.size()).isEqualTo(2 * part);
            assertThat(both.id()).isEqualTo(one.id());
            assertThat(Runtimes.describe(base + 8, 2 * part - 8).size()).isEqualTo(2 * part - 8);
            assertThatThrownBy(() -> Runtimes.describe(base + 8, 2 * part))
                    .isInstanceOf(IndexOutOfBoundsException.class)
                    .hasMessageContaining("ends after " + (2 * part - 8));
            assertThatThrownBy(() -> HERE.export(base, 2 * part, Gpu.WAY_DESCRIPTOR))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContainingAll("part 1 of 2", "without that handle type");
            assertThatThrownBy(() -> HERE.export(base, 3 * part, Gpu.WAY_DESCRIPTOR))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("not all of");
            CudaVmm.unmap(base, part);
            CudaVmm.unmap(base + part, part);
            CudaVmm.freeAddresses(base, 3 * part);
        } finally {
            context.exit(before);
        }
    }

    /// The driver knows whose memory an address is; what is freed is somebody else's afterwards.
    static void inspect() {
        CudaRuntime runtime = CudaRuntime.INSTANCE;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(SIZE, 4096);
            assertThat(runtime.inspect(host.address(), 8)).isNull();
            Gpu.Allocation memory = HERE.allocate(SIZE);
            GpuRuntime.Pointer found = runtime.inspect(memory.address() + 100, 8);
            assertThat(found).isNotNull();
            assertThat(found.kind()).isEqualTo(GpuRuntime.Kind.DEVICE);
            assertThat(found.device()).isEqualTo(HERE.device());
            assertThat(found.base()).isEqualTo(memory.address());
            assertThat(found.size()).isGreaterThanOrEqualTo(SIZE);
            memory.close();
            memory.close();
            assertThat(runtime.inspect(memory.address(), 8)).isNull();
            try (Gpu.Allocation again = HERE.allocate(SIZE)) {
                GpuRuntime.Pointer other = runtime.inspect(again.address(), 8);
                assertThat(other).isNotNull();
                assertThat(other.id()).isNotEqualTo(found.id());
            }
            Gpu.Pin whole = HERE.pin(host.address(), SIZE);
            Gpu.Pin part = HERE.pin(host.address() + 100, 200);
            GpuRuntime.Pointer pinned = runtime.inspect(host.address(), 8);
            assertThat(pinned).isNotNull();
            assertThat(pinned.kind()).isEqualTo(GpuRuntime.Kind.PINNED);
            whole.close();
            whole.close();
            assertThat(runtime.inspect(host.address(), 8)).isNotNull();
            part.close();
            assertThat(runtime.inspect(host.address(), 8)).isNull();
        }
    }

    /// Runs what the arguments name, or is the other process.
    public static void main(String[] names) throws Exception {
        if (names[0].equals("owner")) {
            Owner.run(Integer.parseInt(names[1]), Integer.parseInt(names[2]));
            return;
        }
        for (String name : names) {
            SharingScenarios.class.getDeclaredMethod(name).invoke(null);
            System.out.println("ok " + name);
        }
    }
}

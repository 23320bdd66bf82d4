package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.Access;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.MemoryRegion;
import io.telpher.RemoteMemory;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.cuda.Stage;
import io.telpher.internal.ffi.cuda.CudaVmm;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Regions of memory that is mapped in parts side by side, as PyTorch's expandable segments are,
/// between GPUs of two processes. The driver is the fake one.
@Tag(FakeGpu.TAG)
class GpuPartsTest {
    private static final int PART = 2 << 20;
    private static final int PARTS = 5;

    /// Where regions begin in the first part, and end in the last.
    private static final int MARGIN = 60_000;

    private static final int SIZE = PARTS * PART - 2 * MARGIN;
    private static final int DESCRIPTOR = CudaVmm.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

    /// What the process has mapped last.
    private static Gpu.Allocation memory;

    private final Participant here = new Participant();
    private PeerProcess there;
    private MemoryRegion source;

    /// What this process has mapped before it opens the other's memory.
    private int mappings;

    @BeforeEach
    void open() {
        FakeGpu.assumeHere();
        there = PeerProcess.start(FakeGpu.jvmArguments(), Map.of());
        List<String> paths = List.of("cuda-cumem", "mapped", "shm-ring");
        there.openWith(here, options -> options.withTransports(List.of("shm")).withPaths(paths));
        source = register(here, 0, PARTS, DESCRIPTOR);
        mappings = FakeGpu.live(FakeGpu.Kind.VMM_MAPPINGS);
    }

    @AfterEach
    void close() {
        FakeGpu.setFaults("");
        try {
            source.close();
            memory.close();
            here.close();
        } finally {
            there.close();
        }
    }

    private static MemoryRegion register(Participant self, int gpu, int parts, int lastTypes) {
        memory = Stage.parts(gpu, parts, PART, lastTypes);
        return self.endpoint()
                .register(
                        new DeviceMemory(
                                Device.list().get(gpu),
                                memory.address() + MARGIN,
                                (long) parts * PART - 2 * MARGIN),
                        Access.READ_WRITE);
    }

    private RemoteMemory target(int parts, int lastTypes) {
        return RemoteMemory.ofBytes(
                there.run(
                        self ->
                                self.keep(
                                                "parts",
                                                register(self, 1, parts, lastTypes),
                                                Participant.arena())
                                        .remote()
                                        .toBytes()));
    }

    private static void fill(MemoryRegion region, long at, int length, long seed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(length);
            Content.fill(bytes, 0, length, seed);
            region.copyIn(at, bytes);
        }
    }

    private static void check(MemoryRegion region, long at, int length, long seed) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment bytes = arena.allocate(length);
            region.copyOut(at, bytes);
            Content.check(bytes, 0, length, seed);
        }
    }

    /// Writes a range, and reads it back as something else.
    private void exchange(RemoteMemory target, long at, int length, String path, long seed) {
        fill(source, at, length, seed);
        RemoteMemory range = target.slice(at, length);
        Outcome write = Outcome.of(here.connection().write(source.slice(at, length), range));
        assertThat(write.assertDone(length).path()).isEqualTo(path);
        there.tell(self -> check(self.region("parts"), at, length, seed));
        there.tell(self -> fill(self.region("parts"), at, length, -seed));
        Outcome read = Outcome.of(here.connection().read(source.slice(at, length), range));
        assertThat(read.assertDone(length).path()).isEqualTo(path);
        check(source, at, length, -seed);
    }

    private static void await(String what, BooleanSupplier reached) throws InterruptedException {
        long end = System.nanoTime() + Participant.LIMIT.toNanos();
        while (!reached.getAsBoolean()) {
            assertThat(System.nanoTime()).as(what).isLessThan(end);
            Thread.sleep(5);
        }
    }

    private void assertUnmapped() {
        assertThat(FakeGpu.live(FakeGpu.Kind.VMM_MAPPINGS)).isEqualTo(mappings);
        assertThat(FakeGpu.live(FakeGpu.Kind.VMM_HANDLES)).isZero();
    }

    /// All of it, and ranges across each border; and again when the owner has put other memory at
    /// the same addresses.
    @Test
    void aGpuCopiesAllParts() {
        for (int life = 1; life <= 2; life++) {
            RemoteMemory target = target(PARTS, DESCRIPTOR);
            exchange(target, 0, SIZE, "cuda-cumem", 10L * life);
            for (int border = 1; border < PARTS; border++) {
                long at = (long) border * PART - MARGIN - 1_000;
                exchange(target, at, 3_000, "cuda-cumem", 10L * life + border);
            }
            assertThat(FakeGpu.live(FakeGpu.Kind.VMM_MAPPINGS)).isEqualTo(mappings + PARTS);
            there.tell(
                    self -> {
                        self.closeRegion("parts");
                        long address = memory.address();
                        memory.close();
                        try (Gpu.Allocation again = Stage.parts(1, PARTS, PART, DESCRIPTOR)) {
                            assertThat(again.address())
                                    .as("an address comes again")
                                    .isEqualTo(address);
                        }
                    });
            assertUnmapped();
        }
    }

    @Test
    void aKilledOwnersPartsAreUnmapped() throws Exception {
        exchange(target(PARTS, DESCRIPTOR), 0, SIZE, "cuda-cumem", 1);
        there.kill();
        await("the peer is lost", () -> here.connection().failure() != null);
        await("its memory is unmapped", () -> FakeGpu.live(FakeGpu.Kind.VMM_MAPPINGS) == mappings);
        assertUnmapped();
    }

    /// What was mapped before it is given back.
    @Test
    void aRefusedPartHasAllStaged() {
        RemoteMemory target = target(PARTS, DESCRIPTOR);
        FakeGpu.setFaults("cuMemMap:4:2");
        exchange(target, 0, SIZE, "shm-ring", 1);
        assertThat(here.connection().refusals())
                .singleElement()
                .satisfies(
                        refusal ->
                                assertThat(refusal.reason())
                                        .contains("cuda-cumem", "cuMemMap", "OUT_OF_MEMORY"));
        assertUnmapped();
    }

    /// Neither a kernel nor a copy engine takes it.
    @Test
    void aFailedCopySaysWhichWayItWent() {
        RemoteMemory target = target(PARTS, DESCRIPTOR);
        exchange(target, 0, SIZE, "cuda-cumem", 1);
        FakeGpu.setFaults("cuLaunchKernel:1:2,cuMemcpyAsync:1:2");
        Outcome write = Outcome.of(here.connection().write(source.all(), target));
        FakeGpu.setFaults("");
        assertThat(write.error()).hasMessageContaining("OUT_OF_MEMORY");
        assertThat(write.path()).isEqualTo("cuda-cumem");
        exchange(target, 0, SIZE, "cuda-cumem", 2);
    }

    /// The owner says why.
    @Test
    void whatTheOwnerCannotLendIsStaged() {
        exchange(target(PARTS, CudaVmm.CU_MEM_HANDLE_TYPE_NONE), 0, SIZE, "shm-ring", 1);
        assertThat(here.connection().explain())
                .contains("part 5 of 5", "its owner made it without that handle type");
        exchange(target(129, DESCRIPTOR), 0, SIZE, "shm-ring", 2);
        assertThat(here.connection().explain())
                .contains("it is mapped in 129 parts, and other processes are given at most 128");
        assertUnmapped();
    }

    /// Without the paths that other processes reach memory of GPUs by, and with the one that takes
    /// one part only.
    @ParameterizedTest
    @CsvSource({
        "mapped, 'not among its option ''paths'''",
        "cuda-ipc, 'it is mapped in 5 parts, which takes the path cuda-cumem'"
    })
    void theOwnerSaysWhatItsOptionsLeaveOut(String path, String reason) {
        List<String> paths = List.of(path, "shm-ring");
        there.tell(
                self -> {
                    self.close();
                    self.open(options -> options.withTransports(List.of("shm")).withPaths(paths));
                });
        there.acceptFrom(here);
        exchange(target(PARTS, DESCRIPTOR), 0, SIZE, "shm-ring", 1);
        assertThat(here.connection().explain()).contains("does not lend: " + reason);
        assertUnmapped();
    }
}

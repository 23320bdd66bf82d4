package io.telpher.internal.ffi.cuda;

import static io.telpher.internal.ffi.cuda.CudaMemoryTest.assertRefused;
import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Processes;
import java.nio.file.Path;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Memory and events of two processes.
@Tag(FakeGpu.TAG)
class CudaSharingTest {
    private static final int READ_WRITE = CudaVmm.CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    private static final int INVALID_VALUE = -CudaError.CUDA_ERROR_INVALID_VALUE;

    private final Random random = new Random();

    @TempDir private Path folder;

    @BeforeAll
    static void fakeGpu() {
        FakeGpu.assumeHere();
    }

    @AfterEach
    void givesEverythingBack() {
        assertThat(FakeGpu.report()).isEmpty();
    }

    @Test
    void memoryAndEventsOfAnotherProcessAreOpened() throws Exception {
        Path report = folder.resolve("report");
        Map<String, String> environment = Map.of("FAKE_CUDA_REPORT", report.toString());
        try (CudaPeer peer = CudaPeer.start(1, FakeGpu.jvmArguments(), environment);
                CudaTestContext context = CudaTestContext.of(0)) {
            ipcMemory(peer, context);
            descriptors(peer);
            events(peer);
        }
        assertThat(report).content().matches("\\d+ clean\n");
    }

    private void ipcMemory(CudaPeer peer, CudaTestContext context) throws Exception {
        long address = Long.parseLong(peer.ask("alloc 100000"));
        peer.ask("write 010203040506");
        byte[] handle = peer.askBytes("handle");
        long opened = CudaIpc.tryOpenMemHandle(handle);
        assertThat(opened).isPositive();
        assertThat(CudaIpc.tryOpenMemHandle(handle)).isEqualTo(opened);
        assertThat(CudaMemory.range(opened + 1).bytes()).isEqualTo(100_000);
        assertThat(CudaPointers.describe(opened).device()).isOne();

        byte[] bytes = new byte[64];
        random.nextBytes(bytes);
        long own = CudaMemory.alloc(64);
        FakeGpu.poke(own, bytes);
        CudaCopies.copy(opened, own, 64, 0);
        CudaStreams.synchronize(0);
        assertThat(peer.askBytes("read 64")).isEqualTo(bytes);
        CudaMemory.free(own);

        // A third context has no way to the memory's device.
        try (CudaTestContext _ = CudaTestContext.of(2);
                CudaPeer third = CudaPeer.start(3, FakeGpu.jvmArguments(), Map.of())) {
            third.ask("alloc 4096");
            byte[] far = third.askBytes("handle");
            CudaContexts.setCurrent(context.context());
            assertThat(CudaIpc.tryOpenMemHandle(far))
                    .isEqualTo(-CudaError.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        }
        CudaContexts.setCurrent(context.context());

        // The owner gives it back and gets the address again: the old handle is dead.
        CudaIpc.closeMemHandle(opened);
        CudaIpc.closeMemHandle(opened);
        assertRefused(() -> CudaIpc.closeMemHandle(opened), "INVALID_VALUE");
        peer.ask("free");
        assertThat(Long.parseLong(peer.ask("alloc 100000"))).isEqualTo(address);
        assertThat(CudaIpc.tryOpenMemHandle(handle)).isEqualTo(INVALID_VALUE);
        long renewed = CudaIpc.tryOpenMemHandle(peer.askBytes("handle"));
        assertThat(renewed).isPositive();
        CudaIpc.closeMemHandle(renewed);
        peer.ask("free");
    }

    private void descriptors(CudaPeer peer) throws Exception {
        String[] answer = peer.ask("map").split(" ");
        long bytes = Long.parseLong(answer[1]);
        int pidfd = Processes.pidfdOpen(peer.pid());
        int descriptor = Processes.pidfdGetfd(pidfd, Integer.parseInt(answer[0]));
        assertThat(descriptor).isPositive();
        long handle = CudaVmm.tryImportDescriptor(descriptor);
        assertThat(handle).isPositive();
        assertThat(Descriptors.close(descriptor)).isZero();
        assertThat(Descriptors.close(pidfd)).isZero();
        assertThat(CudaVmm.properties(handle).location()).isOne();
        long mapped = CudaVmm.reserve(bytes, 0);
        CudaVmm.map(mapped, bytes, handle);
        CudaVmm.release(handle);
        assertThat(CudaVmm.trySetAccess(mapped, bytes, 0, READ_WRITE)).isZero();
        // Device 0 has no path to device 3; device 3 has one to device 1.
        assertThat(CudaVmm.trySetAccess(mapped, bytes, 3, READ_WRITE)).isZero();

        CudaCopies.fill(mapped + bytes - 8, (byte) 0x77, 8, 0);
        CudaCopies.fill(mapped, (byte) 0x55, 4, 0);
        CudaStreams.synchronize(0);
        assertThat(peer.ask("read 5")).isEqualTo("5555555500");
        CudaVmm.unmap(mapped, bytes);
        CudaVmm.freeAddresses(mapped, bytes);
        peer.ask("unmap");
        assertThat(CudaVmm.tryImportDescriptor(descriptor)).isNegative();
    }

    private void events(CudaPeer peer) throws Exception {
        long event = CudaIpc.tryOpenEventHandle(peer.askBytes("event"));
        assertThat(event).isPositive();
        long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
        CudaStreams.waitEvent(stream, event);
        assertThat(CudaEvents.query(event)).isEqualTo(-CudaError.CUDA_ERROR_NOT_READY);
        assertThat(CudaStreams.query(stream)).isEqualTo(-CudaError.CUDA_ERROR_NOT_READY);
        peer.ask("signal");
        CudaStreams.synchronize(stream);
        assertThat(CudaEvents.query(event)).isZero();
        CudaEvents.destroy(event);
        CudaStreams.destroy(stream);
    }

    @Test
    void ownHandlesAndMemoryThatCannotBeSharedAreRefused() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            byte[] handle = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];
            long memory = CudaMemory.alloc(4096);
            assertThat(CudaIpc.tryGetMemHandle(memory + 8, handle)).isZero();
            assertThat(CudaIpc.tryOpenMemHandle(handle))
                    .isEqualTo(-CudaError.CUDA_ERROR_INVALID_CONTEXT);
            assertThat(CudaIpc.tryOpenMemHandle(new byte[64])).isEqualTo(INVALID_VALUE);
            assertThat(CudaVmm.tryRetain(memory)).isEqualTo(INVALID_VALUE);
            assertThat(CudaVmm.tryDmaBuf(memory, 4096, 0))
                    .isEqualTo(-CudaError.CUDA_ERROR_NOT_SUPPORTED);
            CudaMemory.free(memory);
            assertThat(CudaIpc.tryGetMemHandle(memory, handle)).isEqualTo(INVALID_VALUE);
        }
    }

    @Test
    void virtualMemoryIsMadeMappedAndTakenDown() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            CudaVmm.Properties properties = properties(1);
            long unit = CudaVmm.granularity(properties, CudaVmm.CU_MEM_ALLOC_GRANULARITY_MINIMUM);
            assertThat(unit).isEqualTo(2L << 20);
            assertThat(CudaVmm.tryCreate(unit + 1, properties)).isEqualTo(INVALID_VALUE);
            assertThat(CudaVmm.tryCreate(unit, properties(CudaVmm.CU_MEM_HANDLE_TYPE_FABRIC)))
                    .isEqualTo(-CudaError.CUDA_ERROR_NOT_PERMITTED);
            long handle = CudaVmm.tryCreate(2 * unit, properties);
            assertThat(CudaVmm.properties(handle)).isEqualTo(properties);
            long base = CudaVmm.reserve(4 * unit, unit);
            assertThat(base % unit).isZero();
            CudaVmm.map(base + unit, 2 * unit, handle);
            assertRefused(() -> CudaVmm.map(base, 2 * unit, handle), "INVALID_VALUE");

            // Nobody may touch it yet.
            long memory = CudaMemory.alloc(8);
            CudaPointers.Attributes attributes = CudaPointers.describe(base + unit + 1);
            assertThat(attributes.legacyIpc()).isFalse();
            assertThat(attributes.handleTypes()).isOne();
            assertThat(attributes.context()).isZero();
            assertThat(CudaMemory.range(base + 2 * unit))
                    .isEqualTo(new CudaMemory.Range(base + unit, 2 * unit));
            assertThat(CudaVmm.trySetAccess(base + unit, 2 * unit, 3, READ_WRITE))
                    .isEqualTo(-CudaError.CUDA_ERROR_INVALID_DEVICE);
            assertThat(CudaVmm.trySetAccess(base + unit, 2 * unit, 0, READ_WRITE)).isZero();
            CudaCopies.copy(base + unit, memory, 8, 0);
            CudaStreams.synchronize(0);

            assertThat(CudaVmm.tryRetain(base + unit)).isEqualTo(handle);
            CudaVmm.release(handle);
            CudaVmm.release(handle);
            assertRefused(() -> CudaVmm.release(handle), "INVALID_VALUE");
            assertRefused(() -> CudaVmm.freeAddresses(base, 4 * unit), "INVALID_VALUE");
            CudaVmm.unmap(base + unit, 2 * unit);
            assertRefused(() -> CudaCopies.copy(base + unit, memory, 8, 0), "INVALID_VALUE");
            CudaVmm.freeAddresses(base, 4 * unit);
            CudaMemory.free(memory);
        }
    }

    @Test
    void memoryThatADeviceMayNotReachLosesTheContext() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            CudaVmm.Properties properties = properties(1);
            long unit =
                    CudaVmm.granularity(properties, CudaVmm.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
            long handle = CudaVmm.tryCreate(unit, properties);
            long base = CudaVmm.reserve(unit, 0);
            CudaVmm.map(base, unit, handle);
            CudaCopies.copy(base, base + 8, 8, 0);
            assertRefused(() -> CudaStreams.synchronize(0), "ILLEGAL_ADDRESS");
            CudaVmm.unmap(base, unit);
            CudaVmm.freeAddresses(base, unit);
            CudaVmm.release(handle);
        }
    }

    private static CudaVmm.Properties properties(int handleTypes) {
        return new CudaVmm.Properties(CudaVmm.CU_MEM_LOCATION_TYPE_DEVICE, 0, handleTypes, false);
    }
}

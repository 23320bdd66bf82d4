package io.telpher.internal.ffi.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Memory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag(FakeGpu.TAG)
class CudaMemoryTest {
    private static final int BYTES = 3 << 20;

    private final Random random = new Random();

    @BeforeAll
    static void fakeGpu() {
        FakeGpu.assumeHere();
    }

    @AfterEach
    void givesEverythingBack() {
        assertThat(FakeGpu.report()).isEmpty();
    }

    @Test
    void deviceMemoryIsAllocatedDescribedAndFreed() {
        try (CudaTestContext context = CudaTestContext.of(1)) {
            CudaMemory.Info before = CudaMemory.info();
            long address = CudaMemory.alloc(BYTES);

            assertThat(CudaMemory.info().free()).isEqualTo(before.free() - BYTES);
            assertThat(CudaMemory.range(address + 4711))
                    .isEqualTo(new CudaMemory.Range(address, BYTES));
            CudaPointers.Attributes attributes = CudaPointers.describe(address + 4711);
            assertThat(attributes.memoryType()).isEqualTo(CudaPointers.CU_MEMORYTYPE_DEVICE);
            assertThat(attributes.device()).isOne();
            assertThat(attributes.context()).isEqualTo(context.context());
            assertThat(attributes.rangeStart()).isEqualTo(address);
            assertThat(attributes.rangeBytes()).isEqualTo(BYTES);
            assertThat(attributes.managed()).isFalse();
            assertThat(attributes.mapped()).isTrue();
            assertThat(attributes.legacyIpc()).isTrue();
            assertThat(attributes.handleTypes()).isZero();
            assertThat(attributes.memoryPool()).isZero();
            assertThat(attributes.devicePointer()).isEqualTo(address + 4711);
            assertThat(attributes.hostPointer()).isZero();
            int id = CudaPointers.CU_POINTER_ATTRIBUTE_BUFFER_ID;
            assertThat(CudaPointers.attribute(address, id)).isEqualTo(attributes.bufferId());
            CudaMemory.free(address);

            // The same address, but other memory.
            long again = CudaMemory.alloc(BYTES);
            assertThat(again).isEqualTo(address);
            assertThat(CudaPointers.attribute(again, id)).isNotEqualTo(attributes.bufferId());
            CudaMemory.free(again);
            assertThatThrownBy(() -> CudaMemory.free(again))
                    .isInstanceOf(TelpherException.NativeFailure.class)
                    .hasMessageStartingWith("cuMemFree(0x")
                    .hasMessageEndingWith("CUDA_ERROR_INVALID_VALUE (1, invalid argument)");
            assertThat(CudaMemory.tryAlloc(2L << 30))
                    .isEqualTo(-CudaError.CUDA_ERROR_OUT_OF_MEMORY);
        }
    }

    @Test
    void hostMemoryIsPinnedOrRegistered() {
        try (CudaTestContext _ = CudaTestContext.of(0);
                Arena arena = Arena.ofConfined()) {
            long pinned = CudaMemory.hostAlloc(BYTES, CudaMemory.CU_MEMHOSTALLOC_PORTABLE);
            assertThat(CudaPointers.describe(pinned).memoryType())
                    .isEqualTo(CudaPointers.CU_MEMORYTYPE_HOST);
            assertThat(CudaPointers.describe(pinned).hostPointer()).isEqualTo(pinned);
            assertThat(CudaMemory.hostDevicePointer(pinned + 8)).isEqualTo(pinned + 8);
            Memory.segment(pinned, BYTES).fill((byte) 1);
            CudaMemory.freeHost(pinned);

            MemorySegment own = arena.allocate(BYTES, 4096);
            assertThat(CudaPointers.describe(own.address()).memoryType()).isZero();
            assertThat(CudaPointers.describe(own.address()).device()).isEqualTo(-2);
            int flags = CudaMemory.CU_MEMHOSTREGISTER_PORTABLE;
            assertThat(CudaMemory.tryHostRegister(own.address(), BYTES, flags)).isZero();
            assertThat(CudaMemory.tryHostRegister(own.address(), 4096, flags))
                    .isEqualTo(-CudaError.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
            assertThat(CudaPointers.describe(own.address()).memoryType())
                    .isEqualTo(CudaPointers.CU_MEMORYTYPE_HOST);
            CudaMemory.hostUnregister(own.address());
            assertThatThrownBy(() -> CudaMemory.hostUnregister(own.address()))
                    .hasMessageContaining("CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED (713");
        }
    }

    @Test
    void bytesTravelBetweenHostAndDevices() {
        try (CudaTestContext far = CudaTestContext.of(3);
                CudaTestContext near = CudaTestContext.of(0);
                Arena arena = Arena.ofConfined()) {
            // No peer access between 0 and 3: the driver stages.
            byte[] bytes = new byte[BYTES];
            random.nextBytes(bytes);
            MemorySegment source = arena.allocateFrom(ValueLayout.JAVA_BYTE, bytes);
            MemorySegment target = arena.allocate(BYTES);
            long here = CudaMemory.alloc(BYTES);
            CudaContexts.setCurrent(far.context());
            long there = CudaMemory.alloc(BYTES);
            CudaContexts.setCurrent(near.context());
            long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);

            CudaCopies.copy(here, source.address(), BYTES, stream);
            CudaCopies.copyPeer(there, far.context(), here, near.context(), BYTES, stream);
            CudaCopies.copy(target.address(), there, BYTES, stream);

            // Into pageable memory, hence done.
            assertThat(target.mismatch(source)).isEqualTo(-1);
            assertThat(FakeGpu.peek(there + 1, 100)).isEqualTo(slice(bytes, 1, 100));
            CudaStreams.destroy(stream);
            CudaMemory.free(here);
            CudaMemory.free(there);
        }
    }

    @Test
    void fillsWriteBytesAndInts() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            long memory = CudaMemory.alloc(4096);
            CudaCopies.fill(memory, (byte) 0x5a, 4096, 0);
            CudaCopies.fillInts(memory + 8, 0x01020304, 2, 0);
            CudaStreams.synchronize(0);
            assertThat(FakeGpu.peek(memory + 7, 10))
                    .isEqualTo(new byte[] {0x5a, 4, 3, 2, 1, 4, 3, 2, 1, 0x5a});
            assertThatThrownBy(() -> CudaCopies.fillInts(memory + 2, 1, 1, 0))
                    .isInstanceOf(TelpherException.NativeFailure.class);
            CudaMemory.free(memory);
        }
    }

    @Test
    void manyCopiesGoInOneCall() {
        try (CudaTestContext _ = CudaTestContext.of(0);
                Arena arena = Arena.ofConfined()) {
            int count = 100;
            byte[] bytes = new byte[count * 64];
            random.nextBytes(bytes);
            long from = CudaMemory.alloc(bytes.length);
            long to = CudaMemory.alloc(bytes.length);
            FakeGpu.poke(from, bytes);
            MemorySegment sources = arena.allocate(ValueLayout.JAVA_LONG, count);
            MemorySegment targets = arena.allocate(ValueLayout.JAVA_LONG, count);
            MemorySegment sizes = arena.allocate(ValueLayout.JAVA_LONG, count);
            for (int i = 0; i < count; i++) {
                // In reverse.
                targets.setAtIndex(ValueLayout.JAVA_LONG, i, to + 64L * i);
                sources.setAtIndex(ValueLayout.JAVA_LONG, i, from + 64L * (count - 1 - i));
                sizes.setAtIndex(ValueLayout.JAVA_LONG, i, 64);
            }
            long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);

            assertThat(CudaCopies.hasBatch()).isTrue();
            CudaCopies.copyBatch(
                    targets, sources, sizes, count, CudaCopies.CU_MEMCPY_FLAG_DEFAULT, stream);
            CudaStreams.synchronize(stream);

            for (int i = 0; i < count; i++) {
                assertThat(FakeGpu.peek(to + 64L * i, 64))
                        .isEqualTo(slice(bytes, 64 * (count - 1 - i), 64));
            }
            assertThatThrownBy(
                            () ->
                                    CudaCopies.copyBatch(
                                            targets, sources, sizes, count + 1, 0, stream))
                    .isInstanceOf(IndexOutOfBoundsException.class);
            CudaStreams.destroy(stream);
            CudaMemory.free(from);
            CudaMemory.free(to);
        }
    }

    @Test
    void wrongUseFailsAtOnce() {
        try (CudaTestContext context = CudaTestContext.of(0)) {
            long memory = CudaMemory.alloc(4096);
            long freed = CudaMemory.alloc(8192);
            CudaMemory.free(freed);

            assertRefused(() -> CudaCopies.copy(memory, freed, 8, 0), "INVALID_VALUE");
            assertRefused(() -> CudaCopies.copy(memory, memory + 1, 4096, 0), "INVALID_VALUE");
            assertRefused(() -> CudaCopies.copy(0x1000, memory, 8, 0), "INVALID_VALUE");
            assertRefused(() -> CudaCopies.copy(memory, memory, 8, 0xbadL << 32), "INVALID_HANDLE");
            CudaContexts.setCurrent(0);
            assertRefused(() -> CudaCopies.copy(memory, memory, 8, 0), "INVALID_CONTEXT");
            assertRefused(() -> CudaContexts.setCurrent(context.context() + 8), "INVALID_CONTEXT");
            CudaContexts.setCurrent(context.context());
            CudaMemory.free(memory);
        }
    }

    @Test
    void memoryOfADestroyedContextIsGone() {
        CudaTestContext context = CudaTestContext.of(2);
        long memory = CudaMemory.alloc(4096);
        assertThat(memory).isPositive();
        CudaContexts.releasePrimary(2);

        assertRefused(() -> CudaMemory.free(memory), "CONTEXT_IS_DESTROYED");
        assertRefused(() -> CudaContexts.setCurrent(context.context()), "CONTEXT_IS_DESTROYED");
    }

    static void assertRefused(Runnable call, String error) {
        assertThatThrownBy(call::run)
                .isInstanceOf(TelpherException.NativeFailure.class)
                .hasMessageContaining("CUDA_ERROR_" + error + " (");
    }

    private static byte[] slice(byte[] bytes, int from, int count) {
        return Arrays.copyOfRange(bytes, from, from + count);
    }
}

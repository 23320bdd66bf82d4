package io.telpher.internal.ffi.cuda;

import static io.telpher.internal.ffi.cuda.CudaMemoryTest.assertRefused;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.internal.ffi.linux.Memory;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag(FakeGpu.TAG)
class CudaStreamsTest {
    private static final int NOT_READY = -CudaError.CUDA_ERROR_NOT_READY;

    @BeforeAll
    static void fakeGpu() {
        FakeGpu.assumeHere();
    }

    @AfterEach
    void givesEverythingBack() {
        FakeGpu.setFaults("");
        FakeGpu.setDelay(0);
        assertThat(FakeGpu.report()).isEmpty();
    }

    @Test
    void workRunsInOrderAndLaterThanItsCall() {
        try (CudaTestContext context = CudaTestContext.of(0)) {
            CudaStreams.Priorities priorities = CudaStreams.priorities();
            assertThat(priorities.greatest()).isLessThan(priorities.least());
            long stream =
                    CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, priorities.greatest());
            long pinned = CudaMemory.hostAlloc(4096, 0);
            MemorySegment words = Memory.segment(pinned, 4096);
            assertThat(CudaStreams.context(stream)).isEqualTo(context.context());

            // The stream stands still until the host writes the first word.
            CudaStreams.waitValue32(stream, pinned, 7, CudaStreams.CU_STREAM_WAIT_VALUE_EQ);
            CudaStreams.writeValue32(stream, pinned + 8, 1, 0);
            CudaStreams.writeValue64(stream, pinned + 16, Long.MIN_VALUE + 2, 0);
            assertThat(CudaStreams.query(stream)).isEqualTo(NOT_READY);
            assertThat(words.get(ValueLayout.JAVA_INT, 8)).isZero();

            words.set(ValueLayout.JAVA_INT, 0, 7);
            CudaStreams.synchronize(stream);

            assertThat(CudaStreams.query(stream)).isZero();
            assertThat(words.get(ValueLayout.JAVA_INT, 8)).isOne();
            assertThat(words.get(ValueLayout.JAVA_LONG, 16)).isEqualTo(Long.MIN_VALUE + 2);
            CudaStreams.destroy(stream);
            assertRefused(() -> CudaStreams.synchronize(stream), "INVALID_HANDLE");
            CudaMemory.freeHost(pinned);
        }
    }

    @Test
    void waitsCompareAsAsked() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            long pinned = CudaMemory.hostAlloc(4096, 0);
            MemorySegment words = Memory.segment(pinned, 4096);
            long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
            int[] flags = {
                CudaStreams.CU_STREAM_WAIT_VALUE_GEQ,
                CudaStreams.CU_STREAM_WAIT_VALUE_AND,
                CudaStreams.CU_STREAM_WAIT_VALUE_NOR
            };
            long[] values = {10, 0b1000, 0b0111};
            long[] notYet = {9, 0b0111, -1};
            long[] enough = {11, 0b1001, 0b0101};
            for (int i = 0; i < flags.length; i++) {
                words.set(ValueLayout.JAVA_LONG, 0, notYet[i]);
                CudaStreams.waitValue64(stream, pinned, values[i], flags[i]);
                assertThat(CudaStreams.query(stream)).isEqualTo(NOT_READY);
                words.set(ValueLayout.JAVA_LONG, 0, enough[i]);
                CudaStreams.synchronize(stream);
            }
            CudaStreams.destroy(stream);
            CudaMemory.freeHost(pinned);
        }
    }

    @Test
    void eventsOrderStreamsOfDifferentDevices() {
        try (CudaTestContext far = CudaTestContext.of(1);
                CudaTestContext near = CudaTestContext.of(0)) {
            long pinned = CudaMemory.hostAlloc(4096, 0);
            MemorySegment words = Memory.segment(pinned, 4096);
            long first = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
            long event = CudaEvents.create(CudaEvents.CU_EVENT_DISABLE_TIMING);
            assertThat(CudaEvents.query(event)).isZero();
            CudaStreams.waitValue32(first, pinned, 1, CudaStreams.CU_STREAM_WAIT_VALUE_EQ);
            CudaEvents.record(event, first);
            CudaContexts.setCurrent(far.context());
            long second = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
            CudaStreams.waitEvent(second, event);
            CudaStreams.writeValue32(second, pinned + 4, 1, 0);

            assertThat(CudaEvents.query(event)).isEqualTo(NOT_READY);
            assertThat(words.get(ValueLayout.JAVA_INT, 4)).isZero();
            assertRefused(() -> CudaEvents.record(event, second), "INVALID_HANDLE");
            words.set(ValueLayout.JAVA_INT, 0, 1);
            CudaStreams.synchronize(second);

            assertThat(words.get(ValueLayout.JAVA_INT, 4)).isOne();
            CudaEvents.synchronize(event);
            assertThat(CudaEvents.query(event)).isZero();
            CudaEvents.destroy(event);
            assertRefused(() -> CudaEvents.synchronize(event), "INVALID_HANDLE");
            CudaStreams.destroy(second);
            CudaContexts.setCurrent(near.context());
            CudaStreams.destroy(first);
            CudaMemory.freeHost(pinned);
        }
    }

    @Test
    void eventsKeepTime() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            FakeGpu.setDelay(2000);
            long start = CudaEvents.create(CudaEvents.CU_EVENT_DEFAULT);
            long end = CudaEvents.create(CudaEvents.CU_EVENT_DEFAULT);
            long untimed = CudaEvents.create(CudaEvents.CU_EVENT_DISABLE_TIMING);
            CudaEvents.record(start, 0);
            CudaEvents.record(end, 0);
            CudaEvents.synchronize(end);
            assertThat(CudaEvents.elapsedMillis(start, end)).isGreaterThanOrEqualTo(2);
            assertRefused(() -> CudaEvents.elapsedMillis(start, untimed), "INVALID_HANDLE");
            assertRefused(
                    () -> CudaEvents.create(CudaEvents.CU_EVENT_INTERPROCESS), "INVALID_VALUE");
            CudaEvents.destroy(start);
            CudaEvents.destroy(end);
            CudaEvents.destroy(untimed);
        }
    }

    @Test
    void theDefaultStreamWaitsForBlockingStreams() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            long pinned = CudaMemory.hostAlloc(4096, 0);
            MemorySegment words = Memory.segment(pinned, 4096);
            long blocking = CudaStreams.create(CudaStreams.CU_STREAM_DEFAULT, 0);
            long free = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
            CudaStreams.waitValue32(blocking, pinned, 1, CudaStreams.CU_STREAM_WAIT_VALUE_EQ);
            CudaStreams.writeValue32(0, pinned + 4, 1, 0);
            CudaStreams.writeValue32(free, pinned + 8, 1, 0);
            CudaStreams.synchronize(free);
            assertThat(CudaStreams.query(0)).isEqualTo(NOT_READY);
            words.set(ValueLayout.JAVA_INT, 0, 1);
            CudaStreams.synchronize(0);
            assertThat(words.get(ValueLayout.JAVA_INT, 4)).isOne();
            CudaStreams.destroy(blocking);
            CudaStreams.destroy(free);
            CudaMemory.freeHost(pinned);
        }
    }

    @Test
    void faultsComeWhenAskedFor() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            long memory = CudaMemory.alloc(4096);
            FakeGpu.setFaults("cuMemcpyAsync:2:700,cuStreamQuery:1:719");
            CudaCopies.copy(memory, memory + 64, 8, 0);
            assertThatThrownBy(() -> CudaCopies.copy(memory, memory + 64, 8, 0))
                    .hasMessage(
                            "cuMemcpyAsync(0x%x, 0x%x, 8, 0) failed: CUDA_ERROR_ILLEGAL_ADDRESS"
                                            .formatted(memory, memory + 64)
                                    + " (700, an illegal memory access was encountered)");
            CudaCopies.copy(memory, memory + 64, 8, 0);
            assertThat(CudaStreams.query(0)).isEqualTo(-CudaError.CUDA_ERROR_LAUNCH_FAILED);
            CudaMemory.free(memory);
        }
    }

    @Test
    void whatFailsWhileItRunsLosesTheContext() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            long memory = CudaMemory.alloc(4096);
            long event = CudaEvents.create(CudaEvents.CU_EVENT_DISABLE_TIMING);
            FakeGpu.setFaults("run.cuMemcpyAsync:1:700");
            FakeGpu.setDelay(50_000);
            CudaCopies.copy(memory, memory + 64, 8, 0);
            CudaEvents.record(event, 0);
            Awaitility.await().pollInSameThread().until(() -> CudaEvents.query(event) != NOT_READY);
            assertThat(CudaEvents.query(event)).isEqualTo(-CudaError.CUDA_ERROR_ILLEGAL_ADDRESS);
            assertRefused(() -> CudaMemory.alloc(4096), "ILLEGAL_ADDRESS");
            CudaEvents.destroy(event);
        }
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            CudaMemory.free(CudaMemory.alloc(4096));
        }
    }

    @Test
    void callsPerOperationAllocateNothing() {
        try (CudaTestContext context = CudaTestContext.of(0);
                Arena arena = Arena.ofConfined()) {
            long memory = CudaMemory.alloc(4096);
            long pinned = CudaMemory.hostAlloc(4096, 0);
            long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
            long event = CudaEvents.create(CudaEvents.CU_EVENT_DISABLE_TIMING);
            long module = CudaModules.load(CudaModulesTest.IMAGE);
            long function = CudaModules.function(module, "vector_add");
            KernelArguments arguments = new KernelArguments(arena, 4);
            arguments.set(0, memory);
            arguments.set(1, memory);
            arguments.set(2, memory);
            Runnable operation =
                    () -> {
                        CudaContexts.setCurrent(context.context());
                        CudaCopies.copy(memory, memory + 64, 8, stream);
                        CudaCopies.copyPeer(
                                memory, context.context(), memory, context.context(), 8, stream);
                        CudaStreams.writeValue64(stream, pinned, 1, 0);
                        CudaStreams.waitValue64(stream, pinned, 1, 0);
                        CudaEvents.record(event, stream);
                        CudaStreams.waitEvent(stream, event);
                        int unused = CudaStreams.query(stream) + CudaEvents.query(event);
                        arguments.set(3, 16);
                        CudaModules.launch(function, 1, 32, 0, stream, arguments);
                    };
            // As long as it takes to be compiled.
            Awaitility.await()
                    .pollInSameThread()
                    .untilAsserted(
                            () -> {
                                long before = allocated();
                                for (int i = 0; i < 200; i++) {
                                    operation.run();
                                }
                                long bytes = allocated() - before;
                                assertThat(bytes).as("bytes of 200 rounds").isLessThan(2000);
                            });
            CudaStreams.synchronize(stream);
            CudaModules.unload(module);
            CudaEvents.destroy(event);
            CudaStreams.destroy(stream);
            CudaMemory.freeHost(pinned);
            CudaMemory.free(memory);
        }
    }

    private static long allocated() {
        return ((com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean())
                .getCurrentThreadAllocatedBytes();
    }
}

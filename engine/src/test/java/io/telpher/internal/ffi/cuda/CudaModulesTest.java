package io.telpher.internal.ffi.cuda;

import static io.telpher.internal.ffi.cuda.CudaMemoryTest.assertRefused;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.spi.Availability;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag(FakeGpu.TAG)
class CudaModulesTest {
    static final byte[] IMAGE =
            "FAKE-CUDA-MODULE\nvector_add\n".getBytes(StandardCharsets.US_ASCII);

    @BeforeAll
    static void fakeGpu() {
        FakeGpu.assumeHere();
    }

    @AfterEach
    void givesEverythingBack() {
        assertThat(FakeGpu.report()).isEmpty();
    }

    @Test
    void kernelsRunInStreamOrder() {
        try (CudaTestContext _ = CudaTestContext.of(0);
                Arena arena = Arena.ofConfined()) {
            int count = 1000;
            long memory = CudaMemory.alloc(12L * count);
            float[] numbers = new float[2 * count];
            for (int i = 0; i < count; i++) {
                numbers[i] = i;
                numbers[count + i] = 0.5f;
            }
            long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
            long module = CudaModules.load(IMAGE);
            long function = CudaModules.function(module, "vector_add");
            CudaCopies.copy(
                    memory,
                    arena.allocateFrom(ValueLayout.JAVA_FLOAT, numbers).address(),
                    8L * count,
                    stream);
            KernelArguments arguments = new KernelArguments(arena, 4);
            arguments.set(0, memory);
            arguments.set(1, memory + 4L * count);
            arguments.set(2, memory + 8L * count);
            arguments.set(3, count);

            CudaModules.launch(function, 4, 256, 0, stream, arguments);
            // The values were copied at the launch.
            arguments.set(3, -1);
            CudaStreams.synchronize(stream);

            MemorySegment sums = MemorySegment.ofArray(FakeGpu.peek(memory, 12 * count));
            for (int i = 0; i < count; i++) {
                assertThat(sums.get(ValueLayout.JAVA_FLOAT_UNALIGNED, 8L * count + 4L * i))
                        .isEqualTo(i + 0.5f);
            }
            CudaModules.unload(module);
            assertRefused(
                    () -> CudaModules.launch(function, 1, 1, 0, stream, arguments),
                    "INVALID_HANDLE");
            CudaStreams.destroy(stream);
            CudaMemory.free(memory);
        }
    }

    @Test
    void functionsHaveAttributes() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            long module = CudaModules.load(IMAGE);
            long function = CudaModules.function(module, "vector_add");
            int shared = CudaModules.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            CudaModules.setAttribute(function, shared, 100 << 10);
            assertThat(CudaModules.attribute(function, shared)).isEqualTo(100 << 10);
            assertThat(CudaModules.maxActiveBlocks(function, 512, 0)).isEqualTo(4);
            assertRefused(() -> CudaModules.function(module, "other"), "NOT_FOUND");
            CudaModules.unload(module);
        }
    }

    @Test
    void whatTheDriversCompilerSaysIsToldOn() {
        try (CudaTestContext _ = CudaTestContext.of(0)) {
            assertThatThrownBy(() -> CudaModules.load(new byte[] {1, 2, 3}))
                    .hasMessage(
                            "cuModuleLoadDataEx(3 bytes) failed: CUDA_ERROR_INVALID_IMAGE (200,"
                                    + " device kernel image is invalid): the fake takes images that"
                                    + " begin with FAKE-CUDA-MODULE");
        }
    }

    @Test
    void aKernelNeedsItsOwnContextAndAccessToWhatItTouches() {
        try (CudaTestContext far = CudaTestContext.of(1);
                CudaTestContext near = CudaTestContext.of(0);
                Arena arena = Arena.ofConfined()) {
            CudaContexts.setCurrent(far.context());
            long there = CudaMemory.alloc(4096);
            long farStream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
            CudaContexts.setCurrent(near.context());
            long function = CudaModules.function(CudaModules.load(IMAGE), "vector_add");
            KernelArguments arguments = new KernelArguments(arena, 4);
            arguments.set(0, there);
            arguments.set(1, there);
            arguments.set(2, there);
            arguments.set(3, 1);
            assertRefused(
                    () -> CudaModules.launch(function, 1, 1, 0, farStream, arguments),
                    "INVALID_HANDLE");
            assertThat(CudaContexts.tryEnablePeerAccess(far.context())).isZero();
            CudaModules.launch(function, 1, 1, 0, 0, arguments);
            CudaStreams.synchronize(0);

            assertThat(CudaContexts.tryDisablePeerAccess(far.context())).isZero();
            CudaModules.launch(function, 1, 1, 0, 0, arguments);
            assertRefused(() -> CudaStreams.synchronize(0), "ILLEGAL_ADDRESS");
        }
        assertThat(FakeGpu.live(FakeGpu.Kind.MODULES)).isZero();
    }

    @Test
    void theFakeCompilerMakesImagesForTheFakeDriver() {
        assertThat(Nvrtc.availability()).isInstanceOf(Availability.Available.class);
        long program =
                Nvrtc.create(
                        """
                        extern "C" __global__ void __launch_bounds__(256) vector_add(const float *a) {}
                        extern "C" __global__ void other() {}
                        """,
                        "test.cu");
        assertThat(Nvrtc.tryCompile(program, List.of("--gpu-architecture=sm_90"))).isZero();
        assertThat(new String(Nvrtc.cubin(program), StandardCharsets.US_ASCII))
                .isEqualTo("FAKE-CUDA-MODULE\nvector_add\nother\n\0");
        Nvrtc.destroy(program);
    }
}

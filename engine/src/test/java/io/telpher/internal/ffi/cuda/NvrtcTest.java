package io.telpher.internal.ffi.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.telpher.spi.Availability;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// The real compiler, where it is installed; it needs no GPU.
class NvrtcTest {
    @BeforeEach
    void needsNvrtc() {
        assumeThat(Nvrtc.availability())
                .as("no NVRTC: pip install nvidia-cuda-nvrtc")
                .isInstanceOf(Availability.Available.class);
    }

    @Test
    void aKernelIsCompiledToPtxAndMachineCode() {
        int[] architectures = Nvrtc.architectures();
        int architecture = architectures[architectures.length - 1];
        long program = Nvrtc.create(CudaCheck.VECTOR_ADD, "vector_add.cu");
        List<String> options = List.of("--gpu-architecture=sm_" + architecture);
        assertThat(Nvrtc.tryCompile(program, options)).as(Nvrtc.log(program)).isZero();
        assertThat(Nvrtc.ptx(program)).contains(".visible .entry vector_add(");
        assertThat(Nvrtc.cubin(program)).hasSizeGreaterThan(500).startsWith(0x7f, 'E', 'L', 'F');
        assertThat(Nvrtc.version()).isBetween(11_000, 99_000);
        Nvrtc.destroy(program);
    }

    @Test
    void aMistakeIsInTheLog() {
        long program = Nvrtc.create("__global__ void wrong() { nothing(); }", "wrong.cu");
        assertThat(Nvrtc.tryCompile(program, List.of())).isEqualTo(-Nvrtc.NVRTC_ERROR_COMPILATION);
        assertThat(Nvrtc.log(program)).contains("wrong.cu(1)", "nothing");
        assertThat(Nvrtc.errorString(-Nvrtc.NVRTC_ERROR_COMPILATION))
                .isEqualTo("NVRTC_ERROR_COMPILATION");
        Nvrtc.destroy(program);
    }

    @Test
    void aCompilerThatTheDriverIsTooOldForComesLast() {
        assertThat(NvrtcFiles.order(Integer.MAX_VALUE)).containsExactly(13, 12, 11);
        assertThat(NvrtcFiles.order(12)).containsExactly(12, 11, 13);
    }
}

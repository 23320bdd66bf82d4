package io.telpher.contract;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.cuda.FakeGpu;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// NCCL's switches between two GPUs of one process, in processes that have them set.
class GpuPolicyTest {
    private static final int SIZE = 1 << 20;

    /// Connects two endpoints of a process, whose regions are on GPU 0 and 1, and has bytes go from
    /// one to the other and back.
    ///
    /// @return the path, and how many copies each GPU made for the write, and for the read
    private static List<String> run(Map<String, String> variables) {
        try (PeerProcess process = PeerProcess.start(FakeGpu.jvmArguments(), variables)) {
            return process.run(
                    unused -> {
                        try (Couple couple =
                                Couple.open(options -> options.withTransports(List.of("shm")))
                                        .connect()) {
                            return writeAndRead(couple);
                        }
                    });
        }
    }

    private static List<String> writeAndRead(Couple couple) {
        Participant here = couple.here();
        here.keep("gpu", GpuProbeTest.allocate(here, 0, SIZE), Participant.arena());
        var target =
                couple.there()
                        .run(
                                self ->
                                        self.keep(
                                                        "gpu",
                                                        GpuProbeTest.allocate(self, 1, SIZE),
                                                        Participant.arena())
                                                .remote());
        here.fill("gpu", 0, SIZE, 1);
        here.write("gpu", 0, SIZE, target).assertDone(SIZE); // opens windows
        long zero = FakeGpu.copiesBy(0);
        long one = FakeGpu.copiesBy(1);
        Outcome write = here.write("gpu", 0, SIZE, target).assertDone(SIZE);
        couple.there().check("gpu", 0, SIZE, 1);
        String written = "%d %d".formatted(FakeGpu.copiesBy(0) - zero, FakeGpu.copiesBy(1) - one);
        couple.there().fill("gpu", 0, SIZE, 2);
        zero = FakeGpu.copiesBy(0);
        one = FakeGpu.copiesBy(1);
        Outcome.of(here.connection().read(here.region("gpu").all(), target)).assertDone(SIZE);
        here.check("gpu", 0, SIZE, 2);
        String read = "%d %d".formatted(FakeGpu.copiesBy(0) - zero, FakeGpu.copiesBy(1) - one);
        return List.of(write.path(), written, read);
    }

    @ParameterizedTest
    @CsvSource({"-2, 1 0, 1 0", "1, 0 1, 1 0", "0, 1 0, 0 1"})
    void whoCopies(String readEnable, String written, String read) {
        FakeGpu.assumeBuilt();
        assertThat(run(Map.of("NCCL_P2P_READ_ENABLE", readEnable)))
                .containsExactly("cuda-direct", written, read);
    }

    @Test
    void withoutPointersMemoryIsImportedInsideAProcess() {
        FakeGpu.assumeBuilt();
        assertThat(run(Map.of("NCCL_P2P_DIRECT_DISABLE", "1")).getFirst()).isEqualTo("cuda-cumem");
    }
}

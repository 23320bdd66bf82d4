package io.telpher.internal.ffi.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.TelpherException;
import io.telpher.spi.Availability;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/// What the variables of the fake driver do, each set of them in a process of its own.
class FakeVariablesTest {
    @Test
    void machinesAreMadeByVariables() throws Exception {
        List<String> said =
                run(
                        Map.of(
                                "FAKE_CUDA_DEVICES", "4",
                                "CUDA_VISIBLE_DEVICES",
                                        "GPU-fa6ec0da-0000-4000-8000-000000000002,0,1,9,3",
                                "FAKE_CUDA_MEMORY_MIB", "64",
                                "FAKE_CUDA_NO_IPC", "1",
                                "FAKE_CUDA_NO_VMM", "1",
                                "FAKE_CUDA_CORRUPT_PEERS", "0-2",
                                "FAKE_CUDA_HANG_PEERS", "1-2",
                                "FAKE_CUDA_FAULT", "cuEventCreate:2:2:sticky"));
        assertThat(said)
                .containsExactly(
                        "visible 0000:12:00.0 0000:10:00.0 0000:11:00.0",
                        "memory 67108864, more -2",
                        "ipc -801",
                        "vmm -801",
                        "to the damaging peer 77 becomes 2d",
                        "to the hanging peer -600",
                        "fault 2, then 2");
    }

    @Test
    void aDriverWithoutDevicesIsNotAvailable() throws Exception {
        assertThat(run(Map.of("FAKE_CUDA_DEVICES", "0")))
                .singleElement()
                .asString()
                .startsWith("Missing[reason=cuInit of ")
                .contains(
                        "says CUDA_ERROR_NO_DEVICE (100, no CUDA-capable device is detected)",
                        "remedy=see what nvidia-smi -L lists");
    }

    private static List<String> run(Map<String, String> environment) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("--enable-native-access=ALL-UNNAMED");
        command.addAll(FakeGpu.jvmArguments());
        command.addAll(
                List.of(
                        "-cp",
                        System.getProperty("java.class.path"),
                        FakeVariablesTest.class.getName()));
        ProcessBuilder builder =
                new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT);
        builder.environment().putAll(environment);
        Process process = builder.start();
        byte[] said = process.getInputStream().readAllBytes();
        assertThat(process.waitFor()).isZero();
        return new String(said, StandardCharsets.UTF_8).lines().toList();
    }

    public static void main(String[] arguments) throws Exception {
        if (Cuda.availability() instanceof Availability.Missing missing) {
            System.out.println(missing);
            return;
        }
        StringBuilder visible = new StringBuilder("visible");
        for (int i = 0; i < CudaDevices.count(); i++) {
            visible.append(' ').append(CudaDevices.pciBusId(i));
        }
        System.out.println(visible);
        long[] contexts = new long[3];
        long[] memory = new long[3];
        for (int i = 2; i >= 0; i--) {
            contexts[i] = CudaContexts.retainPrimary(i);
            CudaContexts.setCurrent(contexts[i]);
            memory[i] = CudaMemory.alloc(4096);
        }
        System.out.printf(
                "memory %d, more %d%n", CudaMemory.info().total(), CudaMemory.tryAlloc(64 << 20));
        byte[] handle = new byte[CudaIpc.CU_IPC_HANDLE_SIZE];
        System.out.println("ipc " + CudaIpc.tryGetMemHandle(memory[0], handle));
        CudaVmm.Properties properties =
                new CudaVmm.Properties(CudaVmm.CU_MEM_LOCATION_TYPE_DEVICE, 0, 1, false);
        System.out.println("vmm " + CudaVmm.tryCreate(2 << 20, properties));

        // Ordinal 0 is device 2, ordinal 1 is device 0, ordinal 2 is device 1.
        CudaCopies.fill(memory[0], (byte) 0x77, 4096, 0);
        CudaCopies.copy(memory[1], memory[0], 4096, 0);
        CudaStreams.synchronize(0);
        System.out.printf(
                "to the damaging peer %02x becomes %02x%n",
                FakeGpu.peek(memory[0], 1)[0], FakeGpu.peek(memory[1], 1)[0]);
        long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
        CudaCopies.copy(memory[2], memory[0], 4096, stream);
        Thread.sleep(100);
        System.out.println("to the hanging peer " + CudaStreams.query(stream));

        long event = CudaEvents.create(CudaEvents.CU_EVENT_DISABLE_TIMING);
        int fault = error(() -> CudaEvents.create(CudaEvents.CU_EVENT_DISABLE_TIMING));
        int sticky = error(() -> CudaEvents.record(event, 0));
        System.out.println("fault " + fault + ", then " + sticky);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static int error(Runnable call) {
        try {
            call.run();
            return 0;
        } catch (TelpherException.NativeFailure e) {
            return e.errno();
        }
    }
}

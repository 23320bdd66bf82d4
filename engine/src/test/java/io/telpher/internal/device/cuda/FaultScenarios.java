package io.telpher.internal.device.cuda;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.TelpherException;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.CopyQueue.Way;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.cuda.Stage.Done;
import io.telpher.internal.ffi.cuda.FakeGpu;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/// What goes wrong in the driver, call by call: the fake makes it so. For a process of its own,
/// as [QueueScenarios] are.
final class FaultScenarios {
    private static final CudaGpu HERE = Stage.gpu(0);
    private static final int SIZE = 4096;
    private static final byte[] BYTES = "What goes up must come down.".getBytes(US_ASCII);

    private FaultScenarios() {}

    /// A launch that the driver refuses fails its jobs, and no others.
    static void refusedLaunch() {
        try (Gpu.Allocation memory = memory()) {
            CopyQueue queue = HERE.queue();
            FakeGpu.setFaults("cuLaunchKernel:1:2");
            assertThat(copy(memory)).contains("cuLaunchKernel", "OUT_OF_MEMORY");
            FakeGpu.setFaults("");
            assertThat(copy(memory)).isNull();
            assertThat(queue.isIdle()).isTrue();
            assertArrived(memory);
        }
    }

    /// A copy that the driver refuses fails its job, not those that went out with it.
    static void refusedCopy() {
        try (Gpu.Allocation memory = memory()) {
            CopyQueue queue = HERE.queue();
            FakeGpu.setDelay(20_000);
            Done[] jobs = new Done[4];
            // The first one keeps the others waiting, so that they go out together.
            FakeGpu.setFaults("cuMemcpyAsync:3:2");
            for (int i = 0; i < jobs.length; i++) {
                jobs[i] = new Done();
                queue.begin(Way.LOCAL, 1, 8);
                queue.copy(memory.address() + SIZE / 2 + 8L * i, memory.address() + 8L * i, 8);
                queue.end(jobs[i]);
            }
            Stage.await(queue, jobs);
            FakeGpu.setFaults("");
            FakeGpu.setDelay(0);
            assertThat(jobs[2].failure).contains("cuMemcpyAsync", "OUT_OF_MEMORY");
            assertThat(Arrays.stream(jobs).filter(job -> job.failure != null)).hasSize(1);
            byte[] found = FakeGpu.peek(memory.address() + SIZE / 2, 32);
            assertThat(Arrays.copyOf(found, 16)).isEqualTo(Arrays.copyOf(BYTES, 16));
            assertThat(Arrays.copyOfRange(found, 16, 24)).isEqualTo(new byte[8]);
        }
    }

    /// Without its flag a launch is still waited for.
    static void refusedFlag() {
        try (Gpu.Allocation memory = memory()) {
            FakeGpu.setDelay(20_000);
            FakeGpu.setFaults("cuStreamWriteValue64:1:2");
            Done job = new Done();
            CopyQueue queue = HERE.queue();
            queue.begin(Way.LOCAL, 2, BYTES.length);
            queue.copy(memory.address() + SIZE / 2, memory.address(), 8);
            queue.copy(memory.address() + SIZE / 2 + 8, memory.address() + 8, BYTES.length - 8);
            queue.end(job);
            Stage.await(queue, job);
            assertThat(job.failure).isNull();
            assertArrived(memory);
            FakeGpu.setFaults("");
            FakeGpu.setDelay(0);
            assertThat(copy(memory)).isNull();
        }
    }

    /// A copy that is alone asks for no flag: writing one would end the queue here.
    static void loneCopy() {
        try (Gpu.Allocation memory = memory()) {
            FakeGpu.setDelay(20_000);
            FakeGpu.setFaults("cuStreamWriteValue64:1:700");
            assertThat(copy(memory)).isNull();
            assertArrived(memory);
            FakeGpu.setFaults("");
            FakeGpu.setDelay(0);
            assertThat(HERE.queue().lost()).isNull();
        }
    }

    /// The lone copy's flag, which it gets when another launch follows, is refused: its stream is
    /// asked as before.
    static void refusedFlagOfLoneCopy() {
        try (Gpu.Allocation memory = memory()) {
            FakeGpu.setDelay(20_000);
            FakeGpu.setFaults("cuStreamWriteValue64:1:2");
            Done[] jobs = post(memory, 3);
            Stage.await(HERE.queue(), jobs);
            assertThat(jobs).allMatch(job -> job.failure == null);
            FakeGpu.setFaults("");
            FakeGpu.setDelay(0);
            assertThat(copy(memory)).isNull();
            assertArrived(memory);
        }
    }

    /// It does get one: of two launches' flags the second one ends the queue here.
    static void flagOfLoneCopy() {
        Gpu.Allocation memory = memory();
        FakeGpu.setDelay(20_000);
        FakeGpu.setFaults("cuStreamWriteValue64:2:700");
        Done[] jobs = post(memory, 2);
        Stage.await(HERE.queue(), jobs);
        assertThat(HERE.queue().lost()).contains("cuStreamWriteValue64", "ILLEGAL_ADDRESS");
    }

    /// Copies of one piece, each a launch of its own as long as the window has room.
    private static Done[] post(Gpu.Allocation memory, int count) {
        CopyQueue queue = HERE.queue();
        Done[] jobs = new Done[count];
        for (int i = 0; i < count; i++) {
            jobs[i] = new Done();
            queue.begin(Way.LOCAL, 1, 8);
            queue.copy(memory.address() + SIZE / 2 + 8L * i, memory.address() + 8L * i, 8);
            queue.end(jobs[i]);
        }
        return jobs;
    }

    /// A stream that cannot be asked says nothing of its copies: they are waited for.
    static void refusedQuery() {
        try (Gpu.Allocation memory = memory()) {
            FakeGpu.setDelay(200_000);
            FakeGpu.setFaults("cuStreamQuery:1:2,cuStreamQuery:2:2");
            assertThat(copy(memory)).isNull();
            assertArrived(memory);
            FakeGpu.setFaults("");
            FakeGpu.setDelay(0);
            assertThat(copy(memory)).isNull();
        }
    }

    /// Jobs end after their bytes have arrived, however long the device takes.
    static void slowDevice() {
        try (Gpu.Allocation memory = memory()) {
            FakeGpu.setDelay(30_000);
            assertThat(copy(memory)).isNull();
            assertArrived(memory);
            FakeGpu.setDelay(0);
        }
    }

    /// What goes wrong while work runs ends every job, now and later, and names the error.
    static void lostContext() throws InterruptedException {
        Gpu.Allocation memory = memory();
        CopyQueue queue = HERE.queue();
        FakeGpu.setDelay(5_000);
        FakeGpu.setFaults("run.cuLaunchKernel:1:700,run.cuMemcpyAsync:1:700");
        // A kernel that was launched before goes on taking jobs until it leaves: some rounds may
        // end well.
        for (int round = 0; ; round++) {
            Done[] jobs = new Done[20];
            for (int i = 0; i < jobs.length; i++) {
                jobs[i] = new Done();
                queue.begin(Way.LOCAL, 1, 8);
                queue.copy(memory.address() + SIZE / 2, memory.address(), 8);
                queue.end(jobs[i]);
            }
            Stage.await(queue, jobs);
            List<String> failures =
                    Arrays.stream(jobs).map(job -> job.failure).filter(Objects::nonNull).toList();
            assertThat(failures)
                    .allMatch(failure -> failure.contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
            if (!failures.isEmpty()) {
                break;
            }
            assertThat(round).as("rounds of copies, none of which has failed").isLessThan(1000);
            Thread.sleep(10);
        }
        assertThat(copy(memory)).contains("CUDA_ERROR_ILLEGAL_ADDRESS");
        assertThat(queue.isIdle()).isTrue();
    }

    /// A table that cannot grow fails the job that wanted it.
    static void noRoom() {
        try (Gpu.Allocation memory = memory()) {
            CopyQueue queue = HERE.queue();
            FakeGpu.setFaults("cuMemHostAlloc:1:2");
            Done job = new Done();
            queue.begin(Way.LOCAL, 50_000, 50_000);
            for (int i = 0; i < 50_000; i++) {
                queue.copy(memory.address() + SIZE / 2, memory.address(), 1);
            }
            queue.end(job);
            Stage.await(queue, job);
            FakeGpu.setFaults("");
            assertThat(job.failure).contains("cuMemHostAlloc", "OUT_OF_MEMORY");
            assertThat(copy(memory)).isNull();
            assertArrived(memory);
        }
    }

    /// Without kernels words can be set, not added to; the reason is said.
    static void withoutKernels() {
        try (Gpu.Allocation memory = memory()) {
            CopyQueue queue = HERE.queue();
            assertThat(copy(memory)).isNull();
            assertArrived(memory);
            HERE.update(memory.address() + 64, false, 9);
            assertThat(Stage.getWord(HERE, memory.address() + 64)).isEqualTo(9);
            assertThatThrownBy(() -> HERE.update(memory.address() + 64, true, 1))
                    .hasMessageContaining("no kernels")
                    .hasMessageContaining("NVRTC");
            Done both = new Done();
            queue.begin(Way.LOCAL, 1, 8);
            queue.copy(memory.address() + 128, memory.address(), 8);
            queue.update(memory.address() + 64, false, 10);
            queue.end(both);
            Stage.await(queue, both);
            assertThat(both.failure).isNull();
            assertThat(Stage.getWord(HERE, memory.address() + 64)).isEqualTo(10);
        }
    }

    /// A queue that cannot be made leaves nothing behind, and can be made later.
    static void refusedQueue() {
        CudaGpu gpu = Stage.gpu(1);
        String before = FakeGpu.report();
        for (String fault :
                List.of(
                        "cuMemHostAlloc:1:2",
                        "cuMemAlloc:1:2",
                        "cuStreamCreate:1:2",
                        "cuStreamCreate:5:2",
                        "cuEventCreate:4:2")) {
            FakeGpu.setFaults(fault);
            assertThatThrownBy(gpu::queue)
                    .as(fault)
                    .isInstanceOf(TelpherException.NativeFailure.class)
                    .hasMessageContaining(fault.substring(0, fault.indexOf(':')));
            FakeGpu.setFaults("");
            assertThat(FakeGpu.report()).as(fault).isEqualTo(before);
        }
        assertThat(gpu.queue().isIdle()).isTrue();
    }

    /// Blocks of more threads than the kernels' registers leave room for are refused before
    /// anything is launched. Needs a `kernel.threads` of 1024.
    static void tooManyThreads() {
        String before = FakeGpu.report();
        FakeGpu.setMostThreads(768);
        assertThatThrownBy(HERE::queue)
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                        "-Dtelpher.cuda.kernel.threads=1024: a number from 32 to 768 is needed on "
                                + HERE.device());
        assertThat(FakeGpu.report()).isEqualTo(before);
        FakeGpu.setMostThreads(1024);
        assertThat(HERE.queue().isIdle()).isTrue();
    }

    /// A device that has no room to carry others' bytes says so, leaves nothing behind, and can
    /// later.
    static void refusedIntermediate() {
        CudaGpu gpu = Stage.gpu(1);
        assertThat(gpu.queue().isIdle()).isTrue();
        String before = FakeGpu.report();
        for (String fault :
                List.of(
                        "cuMemAlloc:2:2",
                        "cuStreamCreate:2:2",
                        "cuEventCreate:7:2",
                        "cuMemHostAlloc:5:2")) {
            FakeGpu.setFaults(fault);
            assertThatThrownBy(gpu::becomeIntermediate)
                    .as(fault)
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("4 buffers of 4194304 bytes")
                    .hasMessageContaining(fault.substring(0, fault.indexOf(':')));
            FakeGpu.setFaults("");
            assertThat(FakeGpu.report()).as(fault).isEqualTo(before);
        }
        gpu.becomeIntermediate();
    }

    /// A copy that is refused on either leg, or between them, fails its job alone; buffers that
    /// were in use are not used again too early.
    static void refusedLeg() {
        CudaGpu through = Stage.gpu(1);
        through.becomeIntermediate();
        int size = 20 << 20; // five chunks
        byte[] bytes = new byte[size];
        new Random(5).nextBytes(bytes);
        try (Gpu.Allocation source = HERE.allocate(size);
                Gpu.Allocation target = HERE.allocate(size)) {
            Stage.put(HERE, source.address(), bytes);
            long from = Stage.reach(through, HERE, source, size);
            long to = Stage.reach(through, HERE, target, size);
            for (String fault :
                    List.of(
                            "cuMemcpyAsync:3:2",
                            "cuMemcpyAsync:4:2",
                            // The way out does not know of the way in then.
                            "cuStreamWaitEvent:2:2",
                            "cuStreamWaitEvent:4:2")) {
                FakeGpu.setDelay(2_000);
                FakeGpu.setFaults(fault);
                assertThat(Stage.copy(through.queue(), Way.VIA, to, from, size))
                        .contains(fault.substring(0, fault.indexOf(':')), "OUT_OF_MEMORY");
                int before = FakeGpu.mostCopies();
                assertThat(FakeGpu.mostCopies()).as("of %d under way", before).isZero();
                FakeGpu.setFaults("");
                FakeGpu.setDelay(0);
                Stage.put(HERE, target.address(), new byte[size]);
                assertThat(Stage.copy(through.queue(), Way.VIA, to, from, size)).isNull();
                assertThat(Arrays.mismatch(Stage.get(HERE, target.address(), size), bytes))
                        .as(fault)
                        .isEqualTo(-1);
            }
        }
    }

    /// The driver is given no more than it takes without blocking, whatever is asked for.
    static void boundedChunks() {
        CudaGpu through = Stage.gpu(1);
        through.becomeIntermediate();
        int pieces = 400;
        int size = 64;
        byte[] bytes = new byte[pieces * size];
        new Random(6).nextBytes(bytes);
        try (Gpu.Allocation source = HERE.allocate(bytes.length);
                Gpu.Allocation target = HERE.allocate(bytes.length)) {
            Stage.put(HERE, source.address(), bytes);
            long from = Stage.reach(through, HERE, source, bytes.length);
            long to = Stage.reach(through, HERE, target, bytes.length);
            CopyQueue queue = through.queue();
            FakeGpu.setDelay(200);
            int unused = FakeGpu.mostCopies();
            Done[] jobs = {new Done(), new Done()};
            for (int job = 0; job < jobs.length; job++) {
                queue.begin(Way.VIA, pieces / 2, bytes.length / 2);
                for (int i = job; i < pieces; i += 2) { // every other one, so that none is joined
                    queue.copy(to + (long) i * size, from + (long) i * size, size);
                }
                queue.end(jobs[job]);
            }
            Stage.await(queue, jobs);
            FakeGpu.setDelay(0);
            assertThat(jobs).allMatch(job -> job.failure == null);
            assertThat(FakeGpu.mostCopies()).as("two for each chunk").isLessThanOrEqualTo(2 * 64);
            assertThat(Stage.get(HERE, target.address(), bytes.length)).isEqualTo(bytes);
        }
    }

    /// Compiled kernels are kept, by any number of processes; a damaged file is made anew.
    static void keptImage() throws Exception {
        Path folder = Files.createTempDirectory("telpher-kernels");
        try {
            String source = "extern \"C\" __global__ void nothing() {}";
            byte[] image = KernelImage.load(source, "sm_90", folder, 1);
            List<Path> kept;
            try (Stream<Path> files = Files.list(folder)) {
                kept = files.toList();
            }
            assertThat(kept).hasSize(1);
            byte[] file = Files.readAllBytes(kept.getFirst());
            assertThat(KernelImage.load(source, "sm_90", folder, 1)).isEqualTo(image);
            for (byte[] damaged :
                    List.of(new byte[0], Arrays.copyOf(file, file.length - 1), new byte[500])) {
                Files.write(kept.getFirst(), damaged);
                assertThat(KernelImage.load(source, "sm_90", folder, 1)).isEqualTo(image);
                assertThat(Files.readAllBytes(kept.getFirst())).isEqualTo(file);
            }
            IntStream.range(0, 16)
                    .parallel()
                    .forEach(
                            i ->
                                    assertThat(KernelImage.load(source, "sm_90", folder, i % 4))
                                            .isEqualTo(image));
            try (Stream<Path> files = Files.list(folder)) {
                assertThat(files).hasSize(4).allMatch(path -> path.toString().endsWith(".image"));
            }
            // Where nothing can be kept it works all the same.
            Path nowhere = Path.of("/proc/telpher");
            assertThat(KernelImage.load(source, "sm_90", nowhere, 1)).isEqualTo(image);
        } finally {
            try (Stream<Path> files = Files.list(folder)) {
                for (Path file : files.toList()) {
                    Files.delete(file);
                }
            }
            Files.delete(folder);
        }
    }

    private static Gpu.Allocation memory() {
        Gpu.Allocation memory = HERE.allocate(SIZE);
        Stage.put(HERE, memory.address(), new byte[SIZE]);
        Stage.put(HERE, memory.address(), BYTES);
        return memory;
    }

    private static String copy(Gpu.Allocation memory) {
        return Stage.copy(
                HERE.queue(),
                Way.LOCAL,
                memory.address() + SIZE / 2,
                memory.address(),
                BYTES.length);
    }

    private static void assertArrived(Gpu.Allocation memory) {
        assertThat(FakeGpu.peek(memory.address() + SIZE / 2, BYTES.length)).isEqualTo(BYTES);
    }

    /// Runs what the arguments name.
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            FaultScenarios.class.getDeclaredMethod(name).invoke(null);
            System.out.println("ok " + name);
        }
    }
}

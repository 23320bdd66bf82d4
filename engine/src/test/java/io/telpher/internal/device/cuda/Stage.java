package io.telpher.internal.device.cuda;

import io.telpher.Device;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Gpu;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// What tests and benchmarks of the queue need: devices, memory with known bytes, and jobs to
/// wait for.
final class Stage {
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    private Stage() {}

    /// The driver's n-th device; the last one where there are fewer.
    static CudaGpu gpu(int number) {
        List<Device> devices = CudaRuntime.INSTANCE.devices();
        return CudaRuntime.INSTANCE.open(devices.get(Math.min(number, devices.size() - 1)));
    }

    /// Copies host bytes to a device.
    static void put(CudaGpu gpu, long address, byte[] bytes) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(bytes.length);
            MemorySegment.copy(bytes, 0, host, ValueLayout.JAVA_BYTE, 0, bytes.length);
            gpu.copy(address, host.address(), bytes.length);
        }
    }

    static byte[] get(CudaGpu gpu, long address, int length) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(length);
            gpu.copy(host.address(), address, length);
            return host.toArray(ValueLayout.JAVA_BYTE);
        }
    }

    static long getWord(CudaGpu gpu, long address) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment host = arena.allocate(8, 8);
            gpu.copy(host.address(), address, 8);
            return host.get(ValueLayout.JAVA_LONG, 0);
        }
    }

    /// Polls until the jobs have ended.
    static void await(CopyQueue queue, Done... jobs) {
        long end = System.nanoTime() + DEADLINE.toNanos();
        for (Done job : jobs) {
            while (!job.ended) {
                int unused = queue.poll();
                if (System.nanoTime() - end > 0) {
                    throw new AssertionError("a job has not ended within " + DEADLINE);
                }
                Thread.onSpinWait();
            }
        }
    }

    /// One copy, waited for; its failure or null.
    static @Nullable String copy(
            CopyQueue queue, CopyQueue.Way way, long to, long from, long bytes) {
        Done done = new Done();
        queue.begin(way, 1, bytes);
        queue.copy(to, from, bytes);
        queue.end(done);
        await(queue, done);
        return done.failure;
    }

    /// Memory of a second device that the first one reaches.
    static long reach(CudaGpu gpu, CudaGpu other, Gpu.Allocation memory, long bytes) {
        return gpu.reach(other, memory.address(), bytes).address();
    }

    /// A job that somebody waits for; used again after [#again].
    static final class Done implements CopyQueue.Job {
        @Nullable String failure;
        volatile boolean ended;

        @Override
        public void ended(@Nullable String reason) {
            if (ended) {
                throw new IllegalStateException("ended twice");
            }
            failure = reason;
            ended = true;
        }

        Done again() {
            ended = false;
            failure = null;
            return this;
        }
    }
}

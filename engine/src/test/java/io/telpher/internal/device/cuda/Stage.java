package io.telpher.internal.device.cuda;

import io.telpher.Device;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.ffi.cuda.CudaError;
import io.telpher.internal.ffi.cuda.CudaVmm;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Processes;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// What tests and benchmarks of the queue need: devices, memory with known bytes, and jobs to
/// wait for.
public final class Stage {
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

    /// What another process needs for [#open]: the record, and the numbers of the descriptors.
    static String say(Gpu.Export export) {
        StringBuilder said = new StringBuilder(HexFormat.of().formatHex(export.record()));
        for (int descriptor : export.descriptors()) {
            said.append(' ').append(descriptor);
        }
        return said.toString();
    }

    /// Opens what another process has said of its memory.
    static Gpu.Import open(CudaGpu gpu, Process owner, String said) {
        String[] words = said.split(" ");
        int[] descriptors = new int[words.length - 1];
        int pidfd = Processes.pidfdOpen((int) owner.pid());
        for (int i = 0; i < descriptors.length; i++) {
            descriptors[i] = Processes.pidfdGetfd(pidfd, Integer.parseInt(words[i + 1]));
            if (descriptors[i] < 0) {
                throw new AssertionError("pidfd_getfd: " + descriptors[i]);
            }
        }
        int unused = Descriptors.close(pidfd);
        try {
            return gpu.open(owner.pid(), HexFormat.of().parseHex(words[0]), descriptors);
        } finally {
            for (int descriptor : descriptors) {
                unused = Descriptors.close(descriptor);
            }
        }
    }

    /// Memory mapped in parts side by side, as PyTorch's expandable segments are.
    ///
    /// @param number the driver's number of the device
    /// @param count how many parts
    /// @param bytes of each, a multiple of the granularity
    /// @param handleTypes `CU_MEM_HANDLE_TYPE_` bits of the last one; all others can be exported
    public static Gpu.Allocation parts(int number, int count, long bytes, int handleTypes) {
        CudaGpu gpu = gpu(number);
        long before = gpu.context().enter();
        try {
            long base = CudaVmm.reserve(count * bytes, 0);
            for (int i = 0; i < count; i++) {
                int types =
                        i == count - 1
                                ? handleTypes
                                : CudaVmm.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
                long handle =
                        CudaVmm.tryCreate(
                                bytes,
                                new CudaVmm.Properties(
                                        CudaVmm.CU_MEM_LOCATION_TYPE_DEVICE,
                                        gpu.context().device(),
                                        types,
                                        false));
                CudaVmm.map(base + i * bytes, bytes, handle);
                CudaVmm.release(handle);
            }
            int result =
                    CudaVmm.trySetAccess(
                            base,
                            count * bytes,
                            gpu.context().device(),
                            CudaVmm.CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
            CudaError.check(result, "cuMemSetAccess", base);
            return new Mapped(gpu, base, count, bytes);
        } finally {
            gpu.context().exit(before);
        }
    }

    private record Mapped(CudaGpu gpu, long address, int count, long bytes)
            implements Gpu.Allocation {
        @Override
        public boolean mayLinger() {
            return false;
        }

        @Override
        public void close() {
            long before = gpu.context().enter();
            try {
                for (int i = 0; i < count; i++) {
                    CudaVmm.unmap(address + i * bytes, bytes);
                }
                CudaVmm.freeAddresses(address, count * bytes);
            } finally {
                gpu.context().exit(before);
            }
        }
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

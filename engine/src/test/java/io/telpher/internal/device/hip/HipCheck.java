package io.telpher.internal.device.hip;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.DeviceMemory;
import io.telpher.Endpoint;
import io.telpher.EndpointOptions;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.Transfer;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.GpuRuntime;
import io.telpher.internal.device.Runtimes;
import io.telpher.internal.ffi.hip.Hip;
import io.telpher.internal.ffi.hip.HipDevices;
import io.telpher.internal.ffi.hip.HipMemory;
import io.telpher.internal.ffi.hip.HipStreams;
import io.telpher.spi.Availability;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/// Goes through what Telpher does with AMD GPUs, on real ones or the fake ones of `fake_hip.c`, and
/// prints a line for each step: OK, or FAILED with why. On the fake ones each call of the runtime
/// is made to fail, too. Exits with the number of failures.
///
/// Run by `java --enable-native-access=ALL-UNNAMED -cp TEST-CLASSPATH` and this class's name. It
/// has not been run on a real one: see docs/gpu.md.
final class HipCheck {
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final int BYTES = 300_000;
    private static final int FAULT = 2;

    private static final Arena ARENA = Arena.global();
    private static int failures;

    /// The last device, so that a mistake with the thread's own one, the first, shows.
    private static final Device DEVICE = Device.list().getLast();

    private HipCheck() {}

    /// A step of the check.
    private interface Step {
        void run() throws Throwable;
    }

    public static void main(String[] arguments) {
        step("devices", HipCheck::devices);
        step("memory", HipCheck::memory);
        step("what an address is", HipCheck::addresses);
        step("page-locking", HipCheck::pinning);
        step("jobs of the queue", HipCheck::jobs);
        step("what is refused", HipCheck::refusals);
        step("transfers inside a process", HipCheck::transfers);
        step("a caller's stream", HipCheck::streams);
        if (System.getProperty(Hip.LIBRARY_PROPERTY) != null) {
            step("each call fails", HipCheck::faults);
            step("nothing is left", HipCheck::leftovers);
        }
        System.out.println(failures == 0 ? "all OK" : failures + " FAILED");
        System.exit(failures);
    }

    private static void step(String name, Step step) {
        try {
            step.run();
            assertThat(HipDevices.current()).as("this thread's device").isZero();
            System.out.println("OK     " + name);
        } catch (Throwable t) {
            failures++;
            System.out.println("FAILED " + name + ": " + t);
        }
    }

    private static Gpu gpu() {
        return Runtimes.open(DEVICE);
    }

    private static void devices() {
        assertThat(HipRuntime.INSTANCE.probe()).isInstanceOf(Availability.Available.class);
        List<Device> all = HipRuntime.INSTANCE.devices();
        System.out.println(Runtimes.describe());
        assertThat(all).isNotEmpty().doesNotHaveDuplicates();
        for (int i = 0; i < all.size(); i++) {
            Device one = all.get(i);
            assertThat(one.name()).isNotBlank();
            assertThat(Device.of("hip:" + i)).isEqualTo(one);
            assertThat(Device.of(one.pciAddress())).isEqualTo(one);
            assertThat(Device.of(one.uuid().toString())).isEqualTo(one);
        }
        assertThat(Runtimes.isOpen(DEVICE)).isFalse();
        assertThat(Runtimes.open(DEVICE)).isSameAs(gpu());
        assertThat(Runtimes.isOpen(DEVICE)).isTrue();
    }

    private static MemorySegment pattern(int seed) {
        MemorySegment bytes = ARENA.allocate(BYTES, 4096);
        for (int i = 0; i < BYTES; i++) {
            bytes.set(JAVA_BYTE, i, (byte) (seed + i * 7 + i / 251));
        }
        return bytes;
    }

    private static void same(MemorySegment is, MemorySegment expected) {
        assertThat(is.mismatch(expected)).as("the first byte that differs").isEqualTo(-1);
    }

    private static void memory() {
        MemorySegment out = pattern(1);
        MemorySegment back = ARENA.allocate(BYTES);
        try (Gpu.Allocation one = gpu().allocate(BYTES);
                Gpu.Allocation two = gpu().allocate(BYTES)) {
            gpu().copy(one.address(), out.address(), BYTES);
            gpu().copy(two.address() + 1, one.address() + 1, BYTES - 1);
            gpu().copy(two.address(), one.address(), 1);
            gpu().copy(back.address(), two.address(), BYTES);
            assertThat(one.mayLinger()).isFalse();
        }
        same(back, out);
    }

    private static void addresses() {
        assertThat(Runtimes.inspect(ARENA.allocate(8).address(), 8)).isNull();
        long before;
        try (Gpu.Allocation memory = gpu().allocate(BYTES)) {
            GpuRuntime.Pointer found = Runtimes.inspect(memory.address() + 100, 8);
            assertThat(found).isNotNull();
            assertThat(found.kind()).isEqualTo(GpuRuntime.Kind.DEVICE);
            assertThat(found.device()).isEqualTo(DEVICE);
            assertThat(found.base()).isEqualTo(memory.address());
            assertThat(found.size()).isGreaterThanOrEqualTo(BYTES);
            before = found.id();
            assertThat(DeviceMemory.of(memory.address() + 100, 50).device()).isEqualTo(DEVICE);
            assertThatThrownBy(() -> DeviceMemory.of(memory.address() + 100, found.size()))
                    .isInstanceOf(IndexOutOfBoundsException.class);
        }
        try (Gpu.Allocation again = gpu().allocate(BYTES)) {
            GpuRuntime.Pointer found = Runtimes.inspect(again.address(), 8);
            assertThat(found).isNotNull();
            assertThat(found.id()).isNotEqualTo(before);
        }
    }

    private static void pinning() {
        MemorySegment host = ARENA.allocate(3 * 4096, 4096);
        Gpu.Pin all = gpu().pin(host.address(), host.byteSize());
        Gpu.Pin part = gpu().pin(host.address() + 4096, 4096);
        GpuRuntime.Pointer found = Runtimes.inspect(host.address(), 8);
        assertThat(found).isNotNull();
        assertThat(found.kind()).isEqualTo(GpuRuntime.Kind.PINNED);
        all.close();
        all.close();
        assertThat(Runtimes.inspect(host.address(), 8)).as("still used").isNotNull();
        part.close();
        assertThat(Runtimes.inspect(host.address(), 8)).isNull();
    }

    /// Copies in 100 pieces, by one job.
    ///
    /// @return what the queue tells: null, or why it failed
    private static @Nullable String job(long to, long from, CopyQueue.Way way) {
        CopyQueue queue = gpu().queue();
        List<@Nullable String> told = new ArrayList<>();
        long piece = BYTES / 100;
        queue.begin(way, 100, BYTES);
        for (int i = 0; i < 100; i++) {
            queue.copy(to + i * piece, from + i * piece, piece);
        }
        queue.end(told::add);
        long end = System.nanoTime() + LIMIT.toNanos();
        while (told.isEmpty()) {
            assertThat(queue.isIdle()).isFalse();
            assertThat(System.nanoTime()).as("time for a job").isLessThan(end);
            int unused = queue.poll();
        }
        assertThat(told).hasSize(1);
        assertThat(queue.isIdle()).isTrue();
        return told.getFirst();
    }

    private static void jobs() {
        MemorySegment out = pattern(2);
        MemorySegment back = ARENA.allocate(BYTES, 4096);
        try (Gpu.Allocation one = gpu().allocate(BYTES);
                Gpu.Allocation two = gpu().allocate(BYTES);
                Gpu.Pin outPin = gpu().pin(out.address(), BYTES);
                Gpu.Pin backPin = gpu().pin(back.address(), BYTES)) {
            assertThat(outPin).isNotSameAs(backPin);
            assertThat(job(one.address(), out.address(), CopyQueue.Way.HOST)).isNull();
            assertThat(job(two.address(), one.address(), CopyQueue.Way.LOCAL)).isNull();
            assertThat(job(back.address(), two.address(), CopyQueue.Way.HOST)).isNull();
            same(back, out);
            CopyQueue queue = gpu().queue();
            queue.begin(CopyQueue.Way.LOCAL, 1, 8);
            queue.copy(two.address(), one.address() + 8, 8);
            queue.abandon();
            assertThat(queue.isIdle()).isTrue();
            gpu().copy(back.address(), two.address(), BYTES);
            same(back, out);
        }
    }

    private static void refusals() {
        Gpu gpu = gpu();
        assertThatThrownBy(() -> gpu.allocate(0)).isInstanceOf(IllegalArgumentException.class);
        try (Gpu.Allocation memory = gpu.allocate(64)) {
            assertThatThrownBy(() -> gpu.export(memory.address(), 64, Gpu.WAY_IPC))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("IPC is not used");
            assertThatThrownBy(() -> gpu.open(1, new byte[128], new int[0]))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("IPC is not used");
            assertThatThrownBy(() -> gpu.update(memory.address(), true, 1))
                    .isInstanceOf(TelpherException.Unsupported.class)
                    .hasMessageContaining("take a kernel");
            assertThat(gpu.reach(gpu, memory.address(), 64).path()).isEqualTo("hip-direct");
        }
        CopyQueue queue = gpu.queue();
        List<@Nullable String> told = new ArrayList<>();
        queue.begin(CopyQueue.Way.LOCAL, 0, 0);
        queue.update(64, false, 1);
        queue.end(told::add);
        int unused = queue.poll();
        assertThat(told.getFirst()).contains("take a kernel");
        Device first = HipRuntime.INSTANCE.devices().getFirst();
        if (!first.equals(DEVICE)) {
            assertThat(HipRuntime.INSTANCE.unreachable(DEVICE, first)).contains("not trusted");
            assertThat(HipRuntime.INSTANCE.intermediates(DEVICE, first, true).devices()).isEmpty();
        }
    }

    /// Host to device on the direct path, device to another device staged.
    private static void transfers() {
        try (Endpoint here = Endpoint.open(EndpointOptions.DEFAULTS);
                Endpoint there = Endpoint.open(EndpointOptions.DEFAULTS)) {
            CompletableFuture<Connection> accepted =
                    CompletableFuture.supplyAsync(() -> there.accept(LIMIT));
            Connection connection = here.connect(there.address(), LIMIT);
            accepted.join();
            MemorySegment expected = pattern(3);
            MemoryRegion host = here.allocate(BYTES);
            host.copyIn(0, expected);
            MemoryRegion onDevice = there.allocate(DEVICE, BYTES);
            move(connection.write(host.all(), onDevice.remote()), "hip-direct");
            MemorySegment back = ARENA.allocate(BYTES);
            onDevice.copyOut(0, back);
            same(back, expected);

            Device first = HipRuntime.INSTANCE.devices().getFirst();
            MemoryRegion other = here.allocate(first, BYTES);
            String path = first.equals(DEVICE) ? "hip-direct" : "shm-ring";
            move(connection.read(other.all(), onDevice.remote()), path);
            other.copyOut(0, back);
            same(back, expected);
            if (!first.equals(DEVICE)) {
                assertThat(connection.explain()).contains("HIP has no trial");
            }
        }
    }

    /// It is waited for, so that there is nothing to begin after.
    private static void streams() {
        Gpu first = Runtimes.open(HipRuntime.INSTANCE.devices().getFirst()); // this thread's
        long stream = HipStreams.create(HipStreams.hipStreamNonBlocking);
        MemorySegment expected = pattern(5);
        MemorySegment back = ARENA.allocate(BYTES);
        try (Gpu.Allocation memory = first.allocate(BYTES)) {
            HipStreams.copy(memory.address(), expected.address(), BYTES, stream);
            HipStreams.copy(back.address(), memory.address(), BYTES, stream);
            assertThat(first.point(stream)).isNull();
            same(back, expected);
        }
    }

    private static void move(Transfer transfer, String path) {
        assertThat(transfer.await(LIMIT)).isTrue();
        assertThat(transfer.path()).isEqualTo(path);
    }

    // --- of the fake runtime only -----------------------------------------------------------

    private static void faults() {
        long memory = gpu().allocate(BYTES).address();
        MemorySegment host = pattern(4);
        throwing("hipMalloc", 1, "hipMalloc(64)", () -> gpu().allocate(64));
        boolean several = HipRuntime.INSTANCE.devices().size() > 1;
        if (several) {
            throwing("hipSetDevice", 1, "hipSetDevice(", () -> gpu().allocate(64));
        }
        throwing("hipGetDevice", 1, "hipGetDevice()", () -> gpu().allocate(64));
        throwing(
                "hipPointerGetAttribute",
                3,
                "hipPointerGetAttribute(9, 0x",
                () -> Runtimes.inspect(memory, 8));
        throwing("hipMemcpyAsync", 1, "hipMemcpyAsync(0x", () -> copy(memory, host));
        throwing("hipStreamSynchronize", 1, "hipStreamSynchronize(", () -> copy(memory, host));
        long page = ARENA.allocate(4096, 4096).address();
        fault("hipHostRegister", 1);
        assertThatThrownBy(() -> gpu().pin(page, 4096))
                .isInstanceOf(TelpherException.Unsupported.class)
                .hasMessageContaining("out of memory")
                .hasMessageContaining("free memory of the host");
        Gpu.Pin pin = gpu().pin(page, 4096);
        fault("hipHostUnregister", 1);
        pin.close(); // the owner of the memory goes on

        failing("hipMemcpyAsync", 3, memory, host);
        failing("hipMemcpyAsync", 1, memory, host);
        failing("hipEventRecord", 1, memory, host);
        if (several) {
            failing("hipSetDevice", 1, memory, host);
        }
        losing("hipEventQuery", 5, memory, host);
        throwing("hipFree", 1, "hipFree(0x", () -> new Freed(memory).close());
        new Freed(memory).close();
    }

    private record Freed(long address) {
        void close() {
            HipMemory.free(address);
        }
    }

    private static void copy(long memory, MemorySegment host) {
        gpu().copy(memory, host.address(), BYTES);
    }

    private static void throwing(String call, int nth, String message, Runnable doing) {
        fault(call, nth);
        assertThatThrownBy(doing::run)
                .as(call)
                .isInstanceOfSatisfying(
                        TelpherException.NativeFailure.class,
                        e -> {
                            assertThat(e.errno()).isEqualTo(FAULT);
                            assertThat(e)
                                    .hasMessageContaining(message)
                                    .hasMessageContaining("hipErrorOutOfMemory (2, out of memory)");
                        });
        assertThat(control("fakeHipLastError")).as("error that is left to others").isZero();
    }

    /// The job fails and says so, and the next one works.
    private static void failing(String call, int nth, long memory, MemorySegment host) {
        fault(call, nth);
        assertThat(job(memory, host.address(), CopyQueue.Way.HOST))
                .contains(call, "hipErrorOutOfMemory (2, out of memory)");
        assertThat(control("fakeHipLastError")).as("error that is left to others").isZero();
        assertThat(job(memory, host.address(), CopyQueue.Way.HOST)).as("after " + call).isNull();
    }

    /// Nobody knows whether the job's copies have ended: the queue says so, and begins no more.
    private static void losing(String call, int nth, long memory, MemorySegment host) {
        assertThat(gpu().queue().lost()).isNull();
        fault(call, nth);
        String failure = job(memory, host.address(), CopyQueue.Way.HOST);
        assertThat(failure).contains(call, "hipErrorOutOfMemory (2, out of memory)");
        assertThat(control("fakeHipLastError")).as("error that is left to others").isZero();
        assertThat(gpu().queue().lost()).isEqualTo(failure);
        assertThat(job(memory, host.address(), CopyQueue.Way.HOST)).isEqualTo(failure);
    }

    private static void leftovers() {
        // The registration whose end was refused.
        assertThat(control("fakeHipLive")).isEqualTo(1);
    }

    private static SymbolLookup fake() {
        return SymbolLookup.libraryLookup(
                Path.of(System.getProperty(Hip.LIBRARY_PROPERTY)), Arena.global());
    }

    private static int control(String function) {
        try {
            return (int)
                    Linker.nativeLinker()
                            .downcallHandle(
                                    fake().findOrThrow(function), FunctionDescriptor.of(JAVA_INT))
                            .invokeExact();
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }

    private static void fault(String call, int nth) {
        try (Arena arena = Arena.ofConfined()) {
            Linker.nativeLinker()
                    .downcallHandle(
                            fake().findOrThrow("fakeHipFault"),
                            FunctionDescriptor.ofVoid(ADDRESS, JAVA_INT, JAVA_INT))
                    .invokeExact(arena.allocateFrom(call), nth, FAULT);
        } catch (Throwable t) {
            throw new AssertionError(t);
        }
    }
}

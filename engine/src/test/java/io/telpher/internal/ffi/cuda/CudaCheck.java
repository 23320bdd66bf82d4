package io.telpher.internal.ffi.cuda;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.internal.ffi.linux.Processes;
import io.telpher.spi.Availability;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/// Goes through every binding on the machine at hand, with real GPUs or the fake ones, and prints a
/// line for each step: OK with what came out, or FAILED with why. A step that fails does not stop
/// the others. Exits with the number of failures.
///
/// Run by `java --enable-native-access=ALL-UNNAMED -cp target/classes:target/test-classes` and this
/// class's name. The first device holds the memory; where there is a second one, it is copied to
/// and another process's memory lies there.
final class CudaCheck {
    static final String VECTOR_ADD =
            """
            extern "C" __global__ void vector_add(const float *a, const float *b, float *sum, int n) {
                int i = blockIdx.x * blockDim.x + threadIdx.x;
                if (i < n) sum[i] = a[i] + b[i];
            }
            """;

    private static final int BYTES = 1 << 20;
    private static final int READ_WRITE = CudaVmm.CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

    private static int failures;

    private CudaCheck() {}

    /// A step of the check; what it returns is printed.
    interface Step {
        Object run() throws Throwable;
    }

    public static void main(String[] arguments) {
        step("driver", Cuda::availability);
        step("NVML", Nvml::availability);
        step("NVRTC", Nvrtc::availability);
        if (Nvml.availability() instanceof Availability.Available) {
            NvmlCheck.run();
        }
        if (!(Cuda.availability() instanceof Availability.Available)) {
            System.exit(Math.max(1, failures));
        }
        for (int i = 0; i < CudaDevices.count(); i++) {
            describe(CudaDevices.get(i));
        }
        int device = CudaDevices.get(0);
        step("contexts before", () -> CudaContexts.primaryState(device));
        step("retain", () -> CudaContexts.retainPrimary(device));
        step(
                "set current",
                () -> {
                    long context = CudaContexts.retainPrimary(device);
                    CudaContexts.releasePrimary(device);
                    CudaContexts.setCurrent(context);
                    CudaContexts.pushCurrent(context);
                    same(CudaContexts.popCurrent(), context);
                    same(CudaContexts.current(), context);
                    same(CudaContexts.currentDevice(), device);
                    return CudaContexts.primaryState(device);
                });
        step("free memory", CudaMemory::info);
        copies();
        batch();
        words();
        events();
        CudaVmmCheck.run(device);
        kernel();
        if (CudaDevices.count() > 1) {
            twoDevices(device, CudaDevices.get(1));
        }
        step("two processes", () -> twoProcesses(CudaDevices.count() > 1 ? 1 : 0));
        step(
                "release",
                () -> {
                    CudaContexts.setCurrent(0);
                    CudaContexts.releasePrimary(device);
                    return CudaContexts.primaryState(device);
                });
        System.out.println(failures == 0 ? "all OK" : failures + " FAILED");
        System.exit(failures);
    }

    static void step(String name, Step step) {
        try {
            Object result = step.run();
            boolean missing = result instanceof Availability.Missing;
            failures += missing ? 1 : 0;
            System.out.println((missing ? "FAILED " : "OK     ") + name + ": " + result);
        } catch (Throwable t) {
            failures++;
            System.out.println("FAILED " + name + ": " + t);
        }
    }

    static void same(Object is, Object expected) {
        if (!is.equals(expected)) {
            throw new AssertionError("is " + is + ", expected " + expected);
        }
    }

    private static void describe(int device) {
        step(
                "device " + device,
                () -> {
                    String address = CudaDevices.pciBusId(device);
                    same(CudaDevices.tryGetByPciBusId(address), device);
                    return CudaDevices.name(device)
                            + " GPU-"
                            + CudaDevices.uuid(device)
                            + " "
                            + address
                            + " "
                            + CudaDevices.totalMemory(device)
                            + " bytes";
                });
        step(
                "device "
                        + device
                        + ": multiprocessors, copy engines, sm, VMM, fd, fabric, dma-buf",
                () ->
                        Arrays.toString(
                                Arrays.stream(new int[] {16, 40, 75, 76, 102, 103, 128, 124})
                                        .map(which -> CudaDevices.tryAttribute(device, which))
                                        .toArray()));
        for (int i = 0; i < CudaDevices.count(); i++) {
            int peer = CudaDevices.get(i);
            if (peer != device) {
                step(
                        "device " + device + " to " + peer + ": access, rank, atomics",
                        () ->
                                "%s, %d, %d"
                                        .formatted(
                                                CudaDevices.canAccessPeer(device, peer),
                                                CudaDevices.peerAttribute(1, device, peer),
                                                CudaDevices.peerAttribute(3, device, peer)));
            }
        }
    }

    private static void copies() {
        step(
                "alloc, describe, fill, copy, free",
                () -> {
                    long memory = CudaMemory.alloc(BYTES);
                    long pinned = CudaMemory.hostAlloc(BYTES, CudaMemory.CU_MEMHOSTALLOC_PORTABLE);
                    long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
                    CudaCopies.fill(memory, (byte) 0x5a, BYTES, stream);
                    CudaCopies.fillInts(memory, 0x01020304, 2, stream);
                    CudaCopies.copy(pinned, memory, BYTES, stream);
                    CudaStreams.synchronize(stream);
                    MemorySegment seen = Memory.segment(pinned, BYTES);
                    same(seen.get(ValueLayout.JAVA_INT, 4), 0x01020304);
                    same(seen.get(ValueLayout.JAVA_BYTE, BYTES - 1L), (byte) 0x5a);
                    same(CudaMemory.range(memory + 1), new CudaMemory.Range(memory, BYTES));
                    same(CudaMemory.hostDevicePointer(pinned), pinned);
                    CudaPointers.Attributes host = CudaPointers.describe(pinned);
                    same(host.memoryType(), CudaPointers.CU_MEMORYTYPE_HOST);
                    CudaPointers.Attributes attributes = CudaPointers.describe(memory + 1);
                    same(attributes.memoryType(), CudaPointers.CU_MEMORYTYPE_DEVICE);
                    same(
                            CudaPointers.attribute(
                                    memory, CudaPointers.CU_POINTER_ATTRIBUTE_BUFFER_ID),
                            attributes.bufferId());
                    same(CudaStreams.context(stream), CudaContexts.current());
                    CudaStreams.destroy(stream);
                    CudaMemory.freeHost(pinned);
                    CudaMemory.free(memory);
                    return attributes + " " + host;
                });
        step(
                "register host memory, describe pageable",
                () -> {
                    try (Arena arena = Arena.ofConfined()) {
                        MemorySegment own = arena.allocate(BYTES, 4096);
                        String before = CudaPointers.describe(own.address()).toString();
                        int flags = CudaMemory.CU_MEMHOSTREGISTER_PORTABLE;
                        int result = CudaMemory.tryHostRegister(own.address(), BYTES, flags);
                        CudaError.check(-result, "cuMemHostRegister");
                        same(
                                CudaMemory.tryHostRegister(own.address(), BYTES, flags),
                                -CudaError.CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
                        same(CudaMemory.hostDevicePointer(own.address()), own.address());
                        CudaMemory.hostUnregister(own.address());
                        return before;
                    }
                });
        step("refused: free of nonsense", () -> refused(() -> CudaMemory.free(0x1234_5678_9000L)));
        step(
                "refused: too much memory",
                () -> CudaError.describe((int) CudaMemory.tryAlloc(1L << 50)));
    }

    private static String refused(Runnable call) {
        try {
            call.run();
        } catch (TelpherException.NativeFailure e) {
            return e.getMessage();
        }
        throw new AssertionError("not refused");
    }

    private static void batch() {
        step(
                "batch of copies",
                () -> {
                    if (!CudaCopies.hasBatch()) {
                        return "this driver has none";
                    }
                    try (Arena arena = Arena.ofConfined()) {
                        int count = 1000;
                        long from = CudaMemory.alloc(64L * count);
                        long to = CudaMemory.alloc(64L * count);
                        long pinned = CudaMemory.hostAlloc(64L * count, 0);
                        MemorySegment seen = Memory.segment(pinned, 64L * count);
                        for (int i = 0; i < count; i++) {
                            seen.set(ValueLayout.JAVA_INT, 64L * i, i);
                        }
                        MemorySegment sources = arena.allocate(ValueLayout.JAVA_LONG, count);
                        MemorySegment targets = arena.allocate(ValueLayout.JAVA_LONG, count);
                        MemorySegment sizes = arena.allocate(ValueLayout.JAVA_LONG, count);
                        for (int i = 0; i < count; i++) {
                            sources.setAtIndex(ValueLayout.JAVA_LONG, i, from + 64L * i);
                            targets.setAtIndex(
                                    ValueLayout.JAVA_LONG, i, to + 64L * (count - 1 - i));
                            sizes.setAtIndex(ValueLayout.JAVA_LONG, i, 64);
                        }
                        long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
                        CudaCopies.copy(from, pinned, 64L * count, stream);
                        CudaCopies.copyBatch(targets, sources, sizes, count, 0, stream);
                        CudaCopies.copy(pinned, to, 64L * count, stream);
                        CudaStreams.synchronize(stream);
                        for (int i = 0; i < count; i++) {
                            same(seen.get(ValueLayout.JAVA_INT, 64L * i), count - 1 - i);
                        }
                        CudaStreams.destroy(stream);
                        CudaMemory.freeHost(pinned);
                        CudaMemory.free(from);
                        CudaMemory.free(to);
                        return count + " pieces";
                    }
                });
    }

    private static void words() {
        step(
                "stream waits for and writes words",
                () -> {
                    long pinned = CudaMemory.hostAlloc(4096, 0);
                    MemorySegment words = Memory.segment(pinned, 4096);
                    words.fill((byte) 0);
                    CudaStreams.Priorities priorities = CudaStreams.priorities();
                    long stream =
                            CudaStreams.create(
                                    CudaStreams.CU_STREAM_NON_BLOCKING, priorities.greatest());
                    CudaStreams.waitValue32(
                            stream, pinned, 1, CudaStreams.CU_STREAM_WAIT_VALUE_GEQ);
                    CudaStreams.waitValue64(
                            stream, pinned + 8, 2, CudaStreams.CU_STREAM_WAIT_VALUE_EQ);
                    CudaStreams.writeValue32(stream, pinned + 16, 3, 0);
                    CudaStreams.writeValue64(stream, pinned + 24, 4L << 32, 0);
                    same(CudaStreams.query(stream), -CudaError.CUDA_ERROR_NOT_READY);
                    words.set(ValueLayout.JAVA_INT, 0, 1);
                    words.set(ValueLayout.JAVA_LONG, 8, 2);
                    CudaStreams.synchronize(stream);
                    same(CudaStreams.query(stream), 0);
                    same(words.get(ValueLayout.JAVA_INT, 16), 3);
                    same(words.get(ValueLayout.JAVA_LONG, 24), 4L << 32);
                    CudaStreams.destroy(stream);
                    CudaMemory.freeHost(pinned);
                    return priorities;
                });
    }

    private static void events() {
        step(
                "events",
                () -> {
                    long first = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
                    long second = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
                    long start = CudaEvents.create(CudaEvents.CU_EVENT_DEFAULT);
                    long end = CudaEvents.create(CudaEvents.CU_EVENT_DEFAULT);
                    same(CudaEvents.query(start), 0);
                    CudaEvents.record(start, first);
                    CudaStreams.waitEvent(second, start);
                    CudaEvents.record(end, second);
                    CudaEvents.synchronize(end);
                    same(CudaEvents.query(end), 0);
                    float millis = CudaEvents.elapsedMillis(start, end);
                    CudaEvents.destroy(start);
                    CudaEvents.destroy(end);
                    CudaStreams.destroy(first);
                    CudaStreams.destroy(second);
                    return millis + " ms";
                });
    }

    private static void kernel() {
        step(
                "compile, load, launch",
                () -> {
                    int architecture =
                            10 * CudaDevices.attribute(0, 75) + CudaDevices.attribute(0, 76);
                    long program = Nvrtc.create(VECTOR_ADD, "vector_add.cu");
                    int compiled =
                            Nvrtc.tryCompile(
                                    program, List.of("--gpu-architecture=sm_" + architecture));
                    same(Nvrtc.log(program) + compiled, "0");
                    byte[] ptx = Nvrtc.ptx(program).getBytes(StandardCharsets.US_ASCII);
                    byte[] cubin = Nvrtc.cubin(program);
                    Nvrtc.destroy(program);
                    return add(ptx) + ", " + add(cubin);
                });
        step(
                "refused: a module of nonsense",
                () -> refused(() -> CudaModules.load("not PTX".getBytes(StandardCharsets.UTF_8))));
    }

    private static String add(byte[] image) {
        try (Arena arena = Arena.ofConfined()) {
            int count = 10_000;
            long module = CudaModules.load(image);
            long function = CudaModules.function(module, "vector_add");
            CudaModules.setAttribute(
                    function,
                    CudaModules.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    64 << 10);
            long memory = CudaMemory.alloc(12L * count);
            long pinned = CudaMemory.hostAlloc(12L * count, 0);
            MemorySegment seen = Memory.segment(pinned, 12L * count);
            for (int i = 0; i < count; i++) {
                seen.setAtIndex(ValueLayout.JAVA_FLOAT, i, i);
                seen.setAtIndex(ValueLayout.JAVA_FLOAT, count + i, 0.5f);
            }
            long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
            KernelArguments arguments = new KernelArguments(arena, 4);
            arguments.set(0, memory);
            arguments.set(1, memory + 4L * count);
            arguments.set(2, memory + 8L * count);
            arguments.set(3, count);
            CudaCopies.copy(memory, pinned, 8L * count, stream);
            CudaModules.launch(function, (count + 255) / 256, 256, 0, stream, arguments);
            CudaCopies.copy(pinned, memory, 12L * count, stream);
            CudaStreams.synchronize(stream);
            for (int i = 0; i < count; i++) {
                same(seen.getAtIndex(ValueLayout.JAVA_FLOAT, 2L * count + i), i + 0.5f);
            }
            String told =
                    "%d bytes, %d registers, %d blocks per multiprocessor"
                            .formatted(
                                    image.length,
                                    CudaModules.attribute(
                                            function, CudaModules.CU_FUNC_ATTRIBUTE_NUM_REGS),
                                    CudaModules.maxActiveBlocks(function, 256, 0));
            CudaStreams.destroy(stream);
            CudaMemory.freeHost(pinned);
            CudaMemory.free(memory);
            CudaModules.unload(module);
            return told;
        }
    }

    private static void twoDevices(int device, int peer) {
        step(
                "peer access and copy, " + device + " to " + peer,
                () -> {
                    long near = CudaContexts.current();
                    long far = CudaContexts.retainPrimary(peer);
                    long here = CudaMemory.alloc(BYTES);
                    long stream = CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
                    CudaContexts.setCurrent(far);
                    long there = CudaMemory.alloc(BYTES);
                    CudaContexts.setCurrent(near);
                    int enabled = CudaContexts.tryEnablePeerAccess(far);
                    CudaCopies.fill(here, (byte) 9, BYTES, stream);
                    CudaCopies.copyPeer(there, far, here, near, BYTES, stream);
                    CudaCopies.fill(here, (byte) 0, BYTES, stream);
                    CudaCopies.copy(here, there, BYTES, stream);
                    long pinned = CudaMemory.hostAlloc(BYTES, 0);
                    CudaCopies.copy(pinned, here, BYTES, stream);
                    CudaStreams.synchronize(stream);
                    same(
                            Memory.segment(pinned, BYTES).get(ValueLayout.JAVA_BYTE, BYTES - 1L),
                            (byte) 9);
                    String again = CudaError.name(CudaContexts.tryEnablePeerAccess(far));
                    String off = CudaError.name(CudaContexts.tryDisablePeerAccess(far));
                    CudaMemory.freeHost(pinned);
                    CudaMemory.free(here);
                    CudaStreams.destroy(stream);
                    CudaContexts.setCurrent(far);
                    CudaMemory.free(there);
                    CudaContexts.setCurrent(near);
                    CudaContexts.releasePrimary(peer);
                    return CudaError.name(enabled) + ", again " + again + ", off " + off;
                });
    }

    private static String twoProcesses(int ordinal) throws Exception {
        // The child's libraries are this process's.
        List<String> flags =
                List.of(Cuda.LIBRARY_PROPERTY, Nvml.LIBRARY_PROPERTY, Nvrtc.LIBRARY_PROPERTY)
                        .stream()
                        .filter(property -> System.getProperty(property) != null)
                        .map(property -> "-D" + property + "=" + System.getProperty(property))
                        .toList();
        try (CudaPeer peer = CudaPeer.start(ordinal, flags, Map.of())) {
            peer.ask("alloc 100000");
            peer.ask("write 0102030405060708");
            long opened = CudaIpc.tryOpenMemHandle(peer.askBytes("handle"));
            CudaError.check((int) -Math.min(0, opened), "cuIpcOpenMemHandle");
            CudaCopies.fill(opened, (byte) 0x77, 4, 0);
            CudaStreams.synchronize(0);
            same(peer.ask("read 8"), "7777777705060708");
            CudaIpc.closeMemHandle(opened);
            peer.ask("free");

            String[] answer = peer.ask("map").split(" ");
            long bytes = Long.parseLong(answer[1]);
            int pidfd = Processes.pidfdOpen(peer.pid());
            int descriptor = Processes.pidfdGetfd(pidfd, Integer.parseInt(answer[0]));
            long handle = CudaVmm.tryImportDescriptor(descriptor);
            CudaError.check((int) -Math.min(0, handle), "cuMemImportFromShareableHandle");
            int unused = Descriptors.close(descriptor);
            unused = Descriptors.close(pidfd);
            long mapped = CudaVmm.reserve(bytes, 0);
            CudaVmm.map(mapped, bytes, handle);
            CudaVmm.release(handle);
            int access =
                    CudaVmm.trySetAccess(mapped, bytes, CudaContexts.currentDevice(), READ_WRITE);
            CudaError.check(-access, "cuMemSetAccess");
            CudaCopies.fill(mapped, (byte) 0x55, 4, 0);
            CudaStreams.synchronize(0);
            same(peer.ask("read 4"), "55555555");
            CudaVmm.unmap(mapped, bytes);
            CudaVmm.freeAddresses(mapped, bytes);
            peer.ask("unmap");

            String events = "events between processes: ";
            long event = CudaIpc.tryOpenEventHandle(peer.askBytes("event"));
            CudaError.check((int) -Math.min(0, event), "cuIpcOpenEventHandle");
            CudaStreams.waitEvent(0, event);
            int before = CudaEvents.query(event);
            peer.ask("signal");
            CudaStreams.synchronize(0);
            same(CudaEvents.query(event), 0);
            CudaEvents.destroy(event);
            return "IPC memory, descriptors, "
                    + events
                    + CudaError.name(before)
                    + " until signalled";
        }
    }
}

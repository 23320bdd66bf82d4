package io.telpher.internal.device.cuda;

import io.telpher.internal.device.CopyQueue.Way;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.device.cuda.Stage.Done;
import io.telpher.internal.ffi.cuda.CudaCopies;
import io.telpher.internal.ffi.cuda.CudaStreams;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/// Measures the queue on real devices: what the thresholds of [Tuning] are set by. Not a test.
///
/// ```text
/// java --enable-native-access=ALL-UNNAMED -cp CLASSES:TEST-CLASSES:JSPECIFY
///     io.telpher.internal.device.cuda.QueueBench [SECTION...]
/// ```
///
/// Sections: `here` (one process, device 0 to device 1), `ipc` and `fd` (memory of device 1 in a
/// process of its own), `host` (device 0 and pinned memory), `sweep` (blocks, threads, streams).
/// All of them when none is named. Every figure's bytes are compared afterwards.
final class QueueBench {
    private static final long KIB = 1 << 10;
    private static final long MIB = 1 << 20;
    private static final long GIB = 1 << 30;
    private static final long[] SIZES = {
        8, KIB, 4 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB
    };

    private final CudaGpu gpu = Stage.gpu(0);
    private final Tuning tuning = Tuning.current();

    /// Kernels for everything, engines for everything, and as it comes.
    private final CudaQueue kernels = queue(kernelsOnly(tuning));

    private final CudaQueue engines = queue(enginesOnly(tuning));
    private final CudaQueue mixed = queue(tuning);

    /// The resident kernel for what is small, whatever `agent.bytes` says.
    private final CudaQueue agent = queue(agentToo(tuning));

    private final long stream = stream();
    private final long most;

    private QueueBench(long most) {
        this.most = most;
    }

    /// Runs the sections.
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("owner")) {
            own(Integer.parseInt(arguments[1]), Long.parseLong(arguments[2]));
            return;
        }
        List<String> sections =
                arguments.length > 0
                        ? Arrays.asList(arguments)
                        : List.of("here", "fd", "ipc", "host", "sweep");
        QueueBench bench = new QueueBench(Long.getLong("telpher.bench.most", GIB));
        System.out.println(bench.gpu.device() + "; " + CudaRuntime.INSTANCE.probe());
        System.out.println(bench.tuning);
        for (String section : sections) {
            switch (section) {
                case "here" -> bench.here();
                case "fd" -> bench.there(Gpu.WAY_DESCRIPTOR);
                case "ipc" -> bench.there(Gpu.WAY_IPC);
                case "host" -> bench.host();
                case "sweep" -> bench.sweep();
                default -> throw new IllegalArgumentException("no section " + section);
            }
        }
    }

    // ---- sections

    private void here() {
        CudaGpu other = Stage.gpu(1);
        try (Gpu.Allocation from = gpu.allocate(most);
                Gpu.Allocation to = other.allocate(most)) {
            Way way = other == gpu ? Way.LOCAL : Way.PEER;
            fill(from.address(), most);
            long there = gpu.reach(other, to.address(), most).address();
            all("one process, " + way + ", write", way, there, from.address());
            all("one process, " + way + ", read", way, from.address(), there);
        }
    }

    private void there(int way) throws Exception {
        Process owner = child("owner", String.valueOf(way), String.valueOf(most));
        try (Gpu.Allocation from = gpu.allocate(most)) {
            fill(from.address(), most);
            Gpu.Import memory =
                    Stage.open(gpu, owner, owner.inputReader(StandardCharsets.UTF_8).readLine());
            all("two processes, " + memory.path(), Way.PEER, memory.address(), from.address());
            memory.close();
        } finally {
            owner.destroyForcibly();
        }
    }

    private static Process child(String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(ProcessHandle.current().info().command().orElseThrow());
        command.add("--enable-native-access=ALL-UNNAMED");
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("telpher.")) {
                command.add("-D" + name + "=" + System.getProperty(name));
            }
        }
        command.addAll(List.of("-cp", System.getProperty("java.class.path")));
        command.add(QueueBench.class.getName());
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    /// The other process: says its memory's record and descriptor, and waits to be killed.
    private static void own(int way, long bytes) throws Exception {
        if (way == Gpu.WAY_IPC) {
            System.setProperty("telpher.cuda.cumem", "0");
        }
        CudaGpu gpu = Stage.gpu(1);
        Gpu.Allocation memory = gpu.allocate(bytes);
        Gpu.Export export = gpu.export(memory.address(), bytes, way);
        System.out.println(Stage.say(export));
        Thread.sleep(600_000);
        export.close();
        memory.close();
    }

    private void host() {
        long bytes = Math.min(most, 256 * MIB);
        try (Arena arena = Arena.ofShared();
                Gpu.Allocation device = gpu.allocate(bytes)) {
            MemorySegment host = arena.allocate(bytes, 4096).fill((byte) 1);
            try (Gpu.Pin pin = gpu.pin(host.address(), bytes)) {
                fill(device.address(), bytes);
                all("device to pinned host", Way.HOST, host.address(), device.address(), bytes);
                all("pinned host to device", Way.HOST, device.address(), host.address(), bytes);
                assert pin != null;
            }
        }
    }

    private CudaQueue queue(Tuning with) {
        return new CudaQueue(gpu.device(), gpu.context(), with);
    }

    private long stream() {
        long before = gpu.context().enter();
        try {
            return CudaStreams.create(CudaStreams.CU_STREAM_NON_BLOCKING, 0);
        } finally {
            gpu.context().exit(before);
        }
    }

    private static Tuning kernelsOnly(Tuning t) {
        long all = Long.MAX_VALUE;
        return with(t, true, all, t.blocks(), t.threads(), t.engineStreams(), t.splitBytes());
    }

    private static Tuning enginesOnly(Tuning t) {
        return with(t, false, 0, t.blocks(), t.threads(), t.engineStreams(), t.splitBytes());
    }

    private static Tuning agentToo(Tuning t) {
        return new Tuning(
                t.kernels(),
                t.cuMem(),
                t.probe(),
                t.probeSeconds(),
                t.kernelBytes(),
                t.kernelPiece(),
                t.viaKernelBytes(),
                t.hostBytes(),
                t.hostPiece(),
                t.lone(),
                t.blocks(),
                t.blockBytes(),
                t.threads(),
                t.kernelWindow(),
                t.engineWindow(),
                t.engineStreams(),
                t.splitBytes(),
                t.viaBytes(),
                t.viaBuffers(),
                t.askBytes(),
                t.gatherBytes(),
                t.holdPieces(),
                t.holdBytes(),
                t.holdNanos(),
                t.stageBytes(),
                t.stageBuffers(),
                1 << 20,
                t.agentWindow(),
                t.agentIdle(),
                t.agentLife());
    }

    /// @param below what goes by kernel, in any way
    private static Tuning with(
            Tuning t,
            boolean kernels,
            long below,
            int blocks,
            int threads,
            int streams,
            long split) {
        return new Tuning(
                kernels,
                t.cuMem(),
                t.probe(),
                t.probeSeconds(),
                below,
                below,
                below,
                below,
                below,
                true,
                blocks,
                t.blockBytes(),
                threads,
                t.kernelWindow(),
                t.engineWindow(),
                streams,
                split,
                t.viaBytes(),
                t.viaBuffers(),
                t.askBytes(),
                t.gatherBytes(),
                t.holdPieces(),
                t.holdBytes(),
                t.holdNanos(),
                t.stageBytes(),
                t.stageBuffers(),
                0,
                1,
                1,
                1);
    }

    private void sweep() {
        CudaGpu other = Stage.gpu(1);
        long bytes = Math.min(most, 256 * MIB);
        try (Gpu.Allocation from = gpu.allocate(bytes);
                Gpu.Allocation to = other.allocate(bytes)) {
            Way way = other == gpu ? Way.LOCAL : Way.PEER;
            fill(from.address(), bytes);
            long there = gpu.reach(other, to.address(), bytes).address();
            long[] sizes = {64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB};
            System.out.println("\n## kernels, us (GB/s) of one write by blocks and threads");
            for (int threads : new int[] {256, 512, 1024}) {
                for (int blocks : new int[] {4, 8, 16, 24, 32, 48, 64, 96, 128}) {
                    CudaQueue queue =
                            queue(with(tuning, true, Long.MAX_VALUE, blocks, threads, 1, 0));
                    StringBuilder line = new StringBuilder("%4d x %4d".formatted(blocks, threads));
                    for (long size : sizes) {
                        if (size <= bytes) {
                            double us = latency(queue, way, there, from.address(), size)[0];
                            line.append(
                                    "  %s %.1f (%.0f)".formatted(text(size), us, size / us / 1e3));
                        }
                    }
                    System.out.println(line);
                }
            }
            System.out.println("\n## engines, us (GB/s) of one write by streams and split");
            for (int streams = 1; streams <= 4; streams++) {
                for (long split : new long[] {0, MIB, 16 * MIB}) {
                    CudaQueue queue = queue(with(tuning, false, 0, 1, 32, streams, split));
                    StringBuilder line =
                            new StringBuilder("%d streams, split %s".formatted(streams, split));
                    for (long size : sizes) {
                        if (size <= bytes) {
                            double us = latency(queue, way, there, from.address(), size)[0];
                            double rate = flight(queue, way, there, from.address(), size, 16);
                            line.append(
                                    "  %s %.1f (%.0f; 16: %.0f)"
                                            .formatted(text(size), us, size / us / 1e3, rate));
                        }
                    }
                    System.out.println(line);
                }
            }
        }
    }

    // ---- figures

    private void all(String what, Way way, long to, long from) {
        all(what, way, to, from, most);
    }

    private void all(String what, Way way, long to, long from, long room) {
        System.out.println("\n## " + what);
        System.out.println(
                "one at a time, us median (p99):  bare = cuMemcpyAsync + cuStreamSynchronize");
        for (long size : SIZES) {
            if (size > room) {
                break;
            }
            System.out.printf(
                    "%8s  kernel %s  engine %s  agent %s  as it comes %s  bare %s%n",
                    text(size),
                    shown(latency(kernels, way, to, from, size)),
                    shown(latency(engines, way, to, from, size)),
                    size > MIB ? "" : shown(latency(agent, way, to, from, size)),
                    shown(latency(mixed, way, to, from, size)),
                    shown(bare(to, from, size)));
        }
        System.out.println("in flight, GB/s (million jobs a second)");
        for (long size : SIZES) {
            if (size > Math.min(room / 32, 16 * MIB)) {
                break;
            }
            StringBuilder line = new StringBuilder("%8s x 32 ".formatted(text(size)));
            for (CudaQueue queue : new CudaQueue[] {kernels, engines, mixed}) {
                double rate = flight(queue, way, to, from, size, 32);
                line.append("  %.2f (%.3f)".formatted(rate, rate * 1e3 / size));
            }
            System.out.println(line);
        }
        double[] rates = new double[3];
        CudaQueue[] three = {kernels, engines, mixed};
        if (room >= 16 * MIB) {
            for (int i = 0; i < 3; i++) {
                rates[i] = flight(three[i], way, to, from, MIB, 16);
            }
            System.out.printf(
                    "1 MiB x 16: kernel %.0f, engine %.0f, as it comes %.0f GB/s%n",
                    rates[0], rates[1], rates[2]);
        }
        list(way, to, from, room, 1000, 64 * KIB);
        list(way, to, from, room, 10_000, 4 * KIB);
        list(way, to, from, room, 100_000, 64);
    }

    private void list(Way way, long to, long from, long room, int count, long bytes) {
        if (count * bytes > room) {
            return;
        }
        int[] order = new int[count];
        Arrays.setAll(order, i -> i);
        Random random = new Random(4);
        for (int i = count - 1; i > 0; i--) {
            int other = random.nextInt(i + 1);
            int held = order[i];
            order[i] = order[other];
            order[other] = held;
        }
        StringBuilder line = new StringBuilder("%,7d x %s: ".formatted(count, text(bytes)));
        for (CudaQueue queue : new CudaQueue[] {kernels, engines, mixed}) {
            double[] times = new double[queue == engines ? 5 : 20];
            Done done = new Done();
            for (int round = -2; round < times.length; round++) {
                long start = System.nanoTime();
                queue.begin(way, count, count * bytes);
                for (int i = 0; i < count; i++) {
                    queue.copy(to + order[i] * bytes, from + i * bytes, bytes);
                }
                queue.end(done.again());
                Stage.await(queue, done);
                if (round >= 0) {
                    times[round] = (System.nanoTime() - start) / 1e3;
                }
                check(done);
            }
            Arrays.sort(times);
            double us = times[times.length / 2];
            line.append("  %.0f us (%.0f GB/s)".formatted(us, count * bytes / us / 1e3));
        }
        System.out.println(line);
        for (int i = 0; i < count; i += Math.max(1, count / 500)) {
            compare(to + order[i] * bytes, from + i * bytes, bytes);
        }
    }

    /// Median and p99 of one at a time, in us.
    private double[] latency(CudaQueue queue, Way way, long to, long from, long bytes) {
        int rounds = rounds(bytes);
        double[] times = new double[rounds];
        Done done = new Done();
        for (int i = -rounds / 10 - 2; i < rounds; i++) {
            long start = System.nanoTime();
            queue.begin(way, 1, bytes);
            queue.copy(to, from, bytes);
            queue.end(done.again());
            while (!done.ended) {
                int unused = queue.poll();
            }
            if (i >= 0) {
                times[i] = (System.nanoTime() - start) / 1e3;
            }
            check(done);
        }
        compare(to, from, bytes);
        return spread(times);
    }

    private double[] bare(long to, long from, long bytes) {
        int rounds = rounds(bytes);
        double[] times = new double[rounds];
        long before = gpu.context().enter();
        try {
            for (int i = -rounds / 10 - 2; i < rounds; i++) {
                long start = System.nanoTime();
                CudaCopies.copy(to, from, bytes, stream);
                CudaStreams.synchronize(stream);
                if (i >= 0) {
                    times[i] = (System.nanoTime() - start) / 1e3;
                }
            }
        } finally {
            gpu.context().exit(before);
        }
        return spread(times);
    }

    /// GB/s with so many jobs under way.
    private double flight(CudaQueue queue, Way way, long to, long from, long bytes, int depth) {
        int jobs = Math.max(4 * depth, 4 * rounds(bytes));
        Done[] slots = new Done[depth];
        for (int i = 0; i < depth; i++) {
            slots[i] = new Done();
            slots[i].ended = true;
        }
        long start = 0;
        int ended = -2 * depth;
        for (int i = -2 * depth; i < jobs + depth; i++) {
            Done slot = slots[Math.floorMod(i, depth)];
            while (!slot.ended) {
                int unused = queue.poll();
            }
            check(slot);
            ended++;
            if (ended == 0) {
                start = System.nanoTime();
            }
            if (i < jobs) {
                long at = Math.floorMod(i, depth) * bytes;
                if (at + bytes > most) {
                    at = 0;
                }
                queue.begin(way, 1, bytes);
                queue.copy(to + at, from + at, bytes);
                queue.end(slot.again());
            }
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        compare(to, from, bytes);
        return ended * (double) bytes / seconds / 1e9;
    }

    private static int rounds(long bytes) {
        return Math.clamp(
                4 * GIB / Math.max(bytes, 1), 10, Integer.getInteger("telpher.bench.rounds", 3000));
    }

    private static void check(Done done) {
        if (done.failure != null) {
            throw new AssertionError(done.failure);
        }
    }

    /// The ends of both ranges, which is where copies go wrong.
    private void compare(long to, long from, long bytes) {
        int some = (int) Math.min(bytes, 256 * KIB);
        compare(to, from, some);
        compare(to + bytes - some, from + bytes - some, some);
    }

    private void compare(long to, long from, int bytes) {
        int at = Arrays.mismatch(Stage.get(gpu, to, bytes), Stage.get(gpu, from, bytes));
        if (at >= 0) {
            throw new AssertionError("byte %d of %d differs".formatted(at, bytes));
        }
    }

    private void fill(long address, long room) {
        byte[] bytes = new byte[(int) Math.min(room, 64 * MIB)];
        new Random(3).nextBytes(bytes);
        for (long at = 0; at < room; at += bytes.length) {
            Stage.put(gpu, address + at, bytes);
        }
    }

    private static double[] spread(double[] times) {
        Arrays.sort(times);
        return new double[] {times[times.length / 2], times[times.length * 99 / 100]};
    }

    private static String shown(double[] spread) {
        return "%7.1f (%7.1f)".formatted(spread[0], spread[1]);
    }

    private static String text(long bytes) {
        return bytes >= GIB
                ? bytes / GIB + " GiB"
                : bytes >= MIB
                        ? bytes / MIB + " MiB"
                        : bytes >= KIB ? bytes / KIB + " KiB" : bytes + " B";
    }
}

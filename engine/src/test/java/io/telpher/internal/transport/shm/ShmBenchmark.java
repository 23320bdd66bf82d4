package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import io.telpher.internal.ffi.linux.Processes;
import io.telpher.internal.memory.SharedMemory;
import io.telpher.spi.Lane;
import io.telpher.spi.Link;
import io.telpher.spi.PeerAddress;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import io.telpher.spi.Window;
import java.io.BufferedReader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HexFormat;
import java.util.List;

/// Figures of the transport alone, between two processes pinned to CPU 0 and 1: latency and rate of
/// the ring, cost of one-sided writes, bandwidth by size. A main program, not a test.
public final class ShmBenchmark {
    private static final int WARM_UP = 100_000;
    private static final int ROUNDS = 500_000;

    private ShmBenchmark() {}

    /// @param arguments `ring`, `windows`, or none for both; `child` is the second process
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("child")) {
            child();
            return;
        }
        pin(0);
        try (ShmHarness harness = new ShmHarness();
                ChildJvm child = new ChildJvm(ShmBenchmark.class, "child")) {
            child.say(ChildJvm.text(harness.address()));
            PeerAddress peer = ChildJvm.address(child.hear());
            Link link = harness.connect(peer);
            RemoteMemory memory = RemoteMemory.ofBytes(HexFormat.of().parseHex(child.hear()));
            RemoteMemory foreign = RemoteMemory.ofBytes(HexFormat.of().parseHex(child.hear()));
            String part = arguments.length > 0 ? arguments[0] : "all";
            if (part.equals("all") || part.equals("ring")) {
                for (int payload : new int[] {0, 8, 64, 1024, 8192}) {
                    pingPong(link.lane(), payload);
                }
                for (int payload : new int[] {0, 8, 1024, 8192, link.lane().maxPayload()}) {
                    stream(link.lane(), payload);
                }
            }
            child.say("quiet");
            child.hear();
            if (part.equals("all") || part.equals("windows")) {
                windows(link.windows().open(memory, ShmHarness.soon()).join());
                windows(link.windows().open(foreign, ShmHarness.soon()).join());
            }
            child.say("end");
            link.windows().close();
            link.lane().close();
        }
    }

    private static void pin(int cpu) {
        BitSet cpus = new BitSet();
        cpus.set(cpu);
        Processes.setAffinity(cpus);
    }

    /// Answers every frame whose word 1 is 1, swallows the others.
    private static void child() throws Exception {
        pin(1);
        BufferedReader in = ChildJvm.parent();
        PeerAddress peer = ChildJvm.address(in.readLine());
        try (ShmHarness harness = new ShmHarness()) {
            System.out.println(ChildJvm.text(harness.address()));
            Link link = harness.accept(peer);
            SharedMemory memory =
                    SharedMemory.allocate(64 << 20, Access.READ_WRITE, SharedMemory.Pages.SMALL);
            MemorySegment foreign = Arena.ofAuto().allocate(64 << 20, 4096).fill((byte) 1);
            for (ShmHarness.Region region :
                    List.of(
                            harness.register(memory),
                            harness.register(foreign, Access.READ_WRITE))) {
                System.out.println(HexFormat.of().formatHex(harness.remote(region).toBytes()));
            }
            Lane lane = link.lane();
            Echo echo = new Echo(lane);
            while (!in.ready()) {
                for (int i = 0; i < 1000; i++) {
                    if (lane.poll(echo, 16) > 0) {
                        lane.confirm(echo.frames);
                    } else {
                        Thread.onSpinWait();
                    }
                }
            }
            in.readLine();
            System.out.println("quiet");
            in.readLine();
            link.windows().close();
            lane.close();
        }
    }

    private static final class Echo implements Receiver {
        private final Lane lane;
        private final MemorySegment header = Arena.ofAuto().allocate(Lane.HEADER, 64);
        private long frames;

        Echo(Lane lane) {
            this.lane = lane;
        }

        @Override
        public boolean begin(MemorySegment frame, long at, Placement placement) {
            placement.buffer();
            return true;
        }

        @Override
        public void end(
                MemorySegment frame, long at, MemorySegment payload, long from, Placement place) {
            frames++;
            long kind = frame.get(JAVA_LONG, at + 8);
            if (kind != 0) {
                int length = kind == 1 ? frame.get(JAVA_INT, at + 4) : 0;
                header.set(JAVA_LONG, 0, 1 | (long) length << 32);
                while (lane.send(header, 0, payload, from, length, null) == Lane.FULL) {
                    Thread.onSpinWait();
                }
                lane.flush();
            }
        }
    }

    private static final class Count implements Receiver {
        private long frames;

        @Override
        public boolean begin(MemorySegment frame, long at, Placement placement) {
            placement.buffer();
            return true;
        }

        @Override
        public void end(
                MemorySegment frame, long at, MemorySegment payload, long from, Placement place) {
            frames++;
        }
    }

    private static void pingPong(Lane lane, int payload) {
        MemorySegment header = Arena.ofAuto().allocate(Lane.HEADER, 64);
        MemorySegment bytes = Arena.ofAuto().allocate(payload + 64, 64);
        header.set(JAVA_LONG, 0, 1 | (long) payload << 32);
        header.set(JAVA_LONG, 8, 1);
        Count count = new Count();
        long[] nanos = new long[ROUNDS];
        long before = 0;
        for (int i = -WARM_UP; i < ROUNDS; i++) {
            long start = System.nanoTime();
            if (i == 0) {
                before = start;
            }
            long want = count.frames + 1;
            lane.send(header, 0, bytes, 0, payload, null);
            lane.flush();
            while (count.frames < want) {
                if (lane.poll(count, 16) > 0) {
                    lane.confirm(count.frames);
                } else {
                    Thread.onSpinWait();
                }
            }
            if (i >= 0) {
                nanos[i] = System.nanoTime() - start;
            }
        }
        double mean = (System.nanoTime() - before) / 2.0 / ROUNDS;
        Arrays.sort(nanos);
        System.out.printf(
                "ring, %5d bytes: one way %.0f ns mean, %.0f median, %.0f p99%n",
                payload, mean, nanos[ROUNDS / 2] / 2.0, nanos[ROUNDS / 100 * 99] / 2.0);
    }

    private static void stream(Lane lane, int payload) {
        MemorySegment header = Arena.ofAuto().allocate(Lane.HEADER, 64);
        MemorySegment bytes = Arena.ofAuto().allocate(1 << 20, 64);
        Count count = new Count();
        int frames = payload > 512 ? 4_000 : 40_000;
        double best = 0;
        for (int round = 0; round < 150; round++) {
            long before = System.nanoTime();
            long want = count.frames + 1;
            for (int i = 1; i <= frames; i++) {
                header.set(JAVA_LONG, 0, 1 | (long) payload << 32);
                header.set(JAVA_LONG, 8, i == frames ? 2 : 0);
                long from = (i * (long) payload) & ((1 << 19) - 1);
                while (lane.send(header, 0, bytes, from, payload, null) == Lane.FULL) {
                    lane.flush();
                    Thread.onSpinWait();
                }
                lane.flush();
            }
            while (count.frames < want) {
                lane.poll(count, 16);
            }
            best = Math.max(best, frames * 1e9 / (System.nanoTime() - before));
        }
        System.out.printf(
                "ring, %5d bytes: %.2f million frames/s, %.2f GB/s%n",
                payload, best / 1e6, best * payload / 1e9);
    }

    private static void windows(Window window) {
        MemorySegment local = Arena.ofAuto().allocate(64 << 20, 4096).fill((byte) 3);
        MemorySegment plain = Arena.ofAuto().allocate(64 << 20, 4096).fill((byte) 4);
        for (int size : new int[] {8, 64, 4096, 64 << 10, 1 << 20, 64 << 20}) {
            double write = best(size, () -> write(window, local, size));
            double read = best(size, () -> read(window, local, size));
            double copy = best(size, () -> MemorySegment.copy(local, 0, plain, 0, size));
            System.out.printf(
                    "%s, %8d bytes: write %.1f ns = %.2f GB/s, read %.1f ns = %.2f GB/s, memcpy"
                            + " %.1f ns = %.2f GB/s%n",
                    window.path(), size, write, size / write, read, size / read, copy, size / copy);
        }
    }

    private static void write(Window window, MemorySegment local, long size) {
        int ticket = window.enter();
        window.write(ticket, local, 0, 0, size, () -> true);
        window.exit(ticket);
    }

    private static void read(Window window, MemorySegment local, long size) {
        int ticket = window.enter();
        window.read(ticket, local, 0, 0, size, () -> true);
        window.exit(ticket);
    }

    /// @return nanoseconds of one run, from the best of many short samples: other programs share
    ///     these CPUs
    private static double best(int size, Runnable work) {
        int runs = Math.clamp((16 << 20) / size, 1, 100_000);
        double best = Double.MAX_VALUE;
        for (int sample = 0; sample < 60; sample++) {
            long start = System.nanoTime();
            for (int i = 0; i < runs; i++) {
                work.run();
            }
            best = Math.min(best, (double) (System.nanoTime() - start) / runs);
        }
        return best;
    }
}

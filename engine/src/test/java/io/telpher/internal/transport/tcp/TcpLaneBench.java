package io.telpher.internal.transport.tcp;

import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/// Measures bare lanes between two processes, each tied to a core of its own: what the transport
/// can do before the engine adds anything. No test: run it by hand.
///
/// ```text
/// java -cp ... io.telpher.internal.transport.tcp.TcpLaneBench [-Dname=value ...]
///   bench.cpus=0,1   cores of sender and receiver
///   bench.frame      payload bytes of the bandwidth run (1 MiB)
///   bench.lanes      streams in the bandwidth run (1)
///   bench.only       bw, lat or rtt
/// ```
public final class TcpLaneBench {
    private static final int FRAME = Integer.getInteger("bench.frame", 1 << 20);
    private static final int LANES = Integer.getInteger("bench.lanes", 1);
    private static final int ROUNDS = Integer.getInteger("bench.rounds", 5);
    private static final int BW_FRAMES = Integer.getInteger("bench.frames", 8000);
    private static final int LAT_FRAMES = 100_000;
    private static final int RTT_FRAMES = 20_000;
    private static final int RTT_BYTES = 64 << 10;
    private static final String ONLY = System.getProperty("bench.only", "bw lat rtt");
    private static final Object OWNER = new Object();

    private TcpLaneBench() {}

    /// Counts frames and checks the first and last word of each against its number.
    private static final class Sink implements Receiver {
        private final MemorySegment target;
        private long frames;

        Sink(MemorySegment target) {
            this.target = target;
        }

        @Override
        public boolean begin(MemorySegment header, long at, Placement placement) {
            if (Frames.length(header, at) > 0) {
                placement.into(target, 0, OWNER);
            }
            return true;
        }

        @Override
        public void end(
                MemorySegment header,
                long at,
                MemorySegment payload,
                long payloadAt,
                Placement placement) {
            int length = Frames.length(header, at);
            long number = Frames.number(header, at);
            if (length >= 8
                    && (target.get(JAVA_LONG_UNALIGNED, 0) != number
                            || target.get(JAVA_LONG_UNALIGNED, length - 8) != number)) {
                throw new IllegalStateException("frame " + number + " arrived damaged");
            }
            frames++;
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            parent();
        } else {
            receiver(Integer.parseInt(args[0]));
        }
    }

    private static void parent() throws Exception {
        TcpListener listener = TcpListener.at(TcpPair.loopback(0), 0, TcpListener.Fallback.NONE);
        String[] cpus = System.getProperty("bench.cpus", "0,1").split(",");
        List<String> command = new ArrayList<>(List.of("taskset", "-c", cpus[1]));
        command.add(ProcessHandle.current().info().command().orElse("java"));
        for (String name : System.getProperties().stringPropertyNames()) {
            if (name.startsWith("bench.")) {
                command.add("-D" + name + "=" + System.getProperty(name));
            }
        }
        command.addAll(
                List.of(
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        System.getProperty("java.class.path"),
                        TcpLaneBench.class.getName(),
                        String.valueOf(listener.port())));
        Process child =
                new ProcessBuilder(command)
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .directory(new File("."))
                        .start();
        List<TcpLane> lanes = new ArrayList<>();
        while (lanes.size() < LANES) {
            listener.accept(channel -> lanes.add(lane(((TcpChannel) channel).detach())));
            Thread.onSpinWait();
        }
        listener.close();
        try (Arena arena = Arena.ofShared()) {
            for (int round = 0; round < ROUNDS; round++) {
                if (ONLY.contains("bw")) {
                    bandwidth(arena, lanes);
                }
                if (ONLY.contains("lat")) {
                    pingPong(arena, lanes.getFirst(), 8, LAT_FRAMES, "8 B one way", 2);
                }
                if (ONLY.contains("rtt")) {
                    pingPong(arena, lanes.getFirst(), RTT_BYTES, RTT_FRAMES, "64 KiB + ack", 1);
                }
            }
        }
        lanes.forEach(TcpLane::close);
        try (BufferedReader out =
                new BufferedReader(
                        new InputStreamReader(child.getInputStream(), StandardCharsets.UTF_8))) {
            out.lines().forEach(System.out::println);
        }
        System.exit(child.waitFor());
    }

    private static TcpLane lane(int fd) {
        TcpSocket.configure(fd, 5000);
        String congestion = System.getProperty("bench.cc");
        if (congestion != null) {
            Sockets.setsockoptText(fd, Sockets.IPPROTO_TCP, Sockets.TCP_CONGESTION, congestion);
        }
        Integer busy = Integer.getInteger("bench.busypoll");
        if (busy != null) {
            Sockets.setsockopt(fd, Sockets.SOL_SOCKET, Sockets.SO_BUSY_POLL, busy);
        }
        Integer sndbuf = Integer.getInteger("bench.sndbuf");
        if (sndbuf != null) {
            Sockets.setsockopt(fd, Sockets.SOL_SOCKET, Sockets.SO_SNDBUF, sndbuf);
        }
        Integer rcvbuf = Integer.getInteger("bench.rcvbuf");
        if (rcvbuf != null) {
            Sockets.setsockopt(fd, Sockets.SOL_SOCKET, Sockets.SO_RCVBUF, rcvbuf);
        }
        return new TcpLane(fd);
    }

    /// Sends frames over all lanes as they take them, then waits for the receiver's word.
    private static void bandwidth(Arena arena, List<TcpLane> lanes) {
        MemorySegment header = arena.allocate(Lane.HEADER, 8);
        MemorySegment[][] sources = new MemorySegment[lanes.size()][8];
        for (MemorySegment[] each : sources) {
            for (int i = 0; i < each.length; i++) {
                each[i] = arena.allocate(FRAME, 4096);
            }
        }
        int[] taken = new int[sources.length];
        long began = System.nanoTime();
        long sent = 0;
        while (sent < BW_FRAMES) {
            for (int i = 0; i < sources.length; i++) {
                TcpLane lane = lanes.get(i);
                if (lane.wantsWrite() && must(lane.flush()) == Lane.FULL) {
                    continue;
                }
                // Used in turn, so that the last one may still be on its way while the next is
                // stamped.
                MemorySegment source = sources[i][taken[i] % 8];
                source.set(JAVA_LONG_UNALIGNED, 0, sent);
                source.set(JAVA_LONG_UNALIGNED, FRAME - 8, sent);
                Frames.fill(header, sent, FRAME);
                if (must(lane.send(header, 0, source, 0, FRAME, OWNER)) == Lane.OK) {
                    sent++;
                    taken[i]++;
                }
            }
        }
        Sink sink = new Sink(header);
        for (TcpLane lane : lanes) {
            while (must(lane.flush()) == Lane.FULL) {
                Thread.onSpinWait();
            }
        }
        while (sink.frames == 0) {
            must(lanes.getFirst().poll(sink, 1));
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.printf(
                Locale.ROOT,
                "bw   %d x %d B over %d: %.2f GB/s%n",
                BW_FRAMES,
                FRAME,
                lanes.size(),
                BW_FRAMES * (double) FRAME / seconds / 1e9);
    }

    private static void pingPong(
            Arena arena, TcpLane lane, int bytes, int frames, String what, int ways) {
        MemorySegment header = arena.allocate(Lane.HEADER, 8);
        MemorySegment source = arena.allocate(bytes, 4096);
        Sink sink = new Sink(arena.allocate(bytes, 4096));
        long[] times = new long[frames];
        for (int i = 0; i < frames; i++) {
            long began = System.nanoTime();
            Frames.fill(header, i, bytes);
            source.set(JAVA_LONG_UNALIGNED, 0, i);
            source.set(JAVA_LONG_UNALIGNED, bytes - 8, i);
            must(lane.send(header, 0, source, 0, bytes, OWNER));
            while (must(lane.flush()) == Lane.FULL) {
                Thread.onSpinWait();
            }
            while (sink.frames == i) {
                must(lane.poll(sink, 16));
            }
            times[i] = System.nanoTime() - began;
        }
        java.util.Arrays.sort(times);
        System.out.printf(
                Locale.ROOT,
                "%-12s p50 %.2f us  p99 %.2f us%n",
                what,
                times[frames / 2] / 1e3 / ways,
                times[frames * 99 / 100] / 1e3 / ways);
    }

    private static void receiver(int port) {
        List<TcpLane> lanes = new ArrayList<>();
        for (int i = 0; i < LANES; i++) {
            int fd = TcpPair.dial(port);
            TcpSocket.prepare(fd);
            lanes.add(lane(fd));
        }
        try (Arena arena = Arena.ofShared()) {
            Sink[] sinks = new Sink[LANES];
            for (int i = 0; i < LANES; i++) {
                sinks[i] = new Sink(arena.allocate(Math.max(FRAME, RTT_BYTES), 4096));
            }
            Sink sink = sinks[0];
            for (int round = 0; round < ROUNDS; round++) {
                if (ONLY.contains("bw")) {
                    for (long seen = 0; seen < BW_FRAMES; ) {
                        for (int i = 0; i < LANES; i++) {
                            seen += must(lanes.get(i).poll(sinks[i], 4));
                        }
                    }
                    answer(arena, lanes.getFirst(), 0);
                }
                if (ONLY.contains("lat")) {
                    echo(arena, lanes.getFirst(), sink, LAT_FRAMES, 8);
                }
                if (ONLY.contains("rtt")) {
                    echo(arena, lanes.getFirst(), sink, RTT_FRAMES, 0);
                }
            }
        }
    }

    private static void echo(Arena arena, TcpLane lane, Sink sink, int frames, int bytes) {
        sink.frames = 0;
        MemorySegment header = arena.allocate(Lane.HEADER, 8);
        MemorySegment source = arena.allocate(8, 8);
        long seen = 0;
        while (seen < frames) {
            must(lane.poll(sink, 16));
            if (sink.frames > seen) {
                Frames.fill(header, seen, bytes);
                source.set(JAVA_LONG_UNALIGNED, 0, seen);
                must(lane.send(header, 0, source, 0, bytes, OWNER));
                must(lane.flush());
                seen++;
            }
        }
    }

    private static void answer(Arena arena, TcpLane lane, long number) {
        must(lane.send(Frames.header(arena, number, 0), 0, MemorySegment.NULL, 0, 0, null));
        must(lane.flush());
    }

    private static int must(int result) {
        if (result == Lane.DEAD) {
            throw new IllegalStateException("the lane died");
        }
        return result;
    }
}

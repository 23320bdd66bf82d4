package io.telpher.internal.transport.tcp;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.linux.Sockets;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.VarHandle;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;

/// Measures io_uring against the calls that the transport makes, over one TCP stream between two
/// processes, each tied to a core of its own, in turn. No test: run it by hand.
///
/// ```text
/// java --enable-native-access=ALL-UNNAMED -cp ... io.telpher.internal.transport.tcp.TcpUringBench
/// ```
public final class TcpUringBench {
    private static final int BLOCK = 1 << 20;
    private static final int BLOCKS = Integer.getInteger("bench.blocks", 6000);
    private static final int PINGS = Integer.getInteger("bench.pings", 100_000);
    private static final int ROUNDS = Integer.getInteger("bench.rounds", 3);
    private static final int BUFFERS = 8;

    /// How bytes are moved.
    enum Mode {
        /// `send` and `recv` that do not block, called again until they take or bring something.
        CALLS,
        /// A submission and a wait in one call.
        URING,
        /// The same without a copy at the sender.
        URING_ZERO_COPY,
        /// Completions are looked for in the ring, without a call.
        URING_SPIN,
        /// Work is run when this thread asks for completions.
        URING_DEFERRED
    }

    private TcpUringBench() {}

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            parent();
        } else {
            int fd = TcpPair.dial(Integer.parseInt(args[0]));
            TcpSocket.prepare(fd);
            new Side(fd).receive();
        }
    }

    private static void parent() throws Exception {
        TcpListener listener = TcpListener.at(TcpPair.loopback(0), 0, TcpListener.Fallback.NONE);
        Process child =
                new ProcessBuilder(
                                "taskset",
                                "-c",
                                "1",
                                ProcessHandle.current().info().command().orElse("java"),
                                "-Dbench.blocks=" + BLOCKS,
                                "-Dbench.pings=" + PINGS,
                                "-Dbench.rounds=" + ROUNDS,
                                "--enable-native-access=ALL-UNNAMED",
                                "-cp",
                                System.getProperty("java.class.path"),
                                TcpUringBench.class.getName(),
                                String.valueOf(listener.port()))
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        int[] fd = {-1};
        while (fd[0] < 0) {
            listener.accept(channel -> fd[0] = ((TcpChannel) channel).detach());
            Thread.onSpinWait();
        }
        listener.close();
        new Side(fd[0]).send();
        try (BufferedReader out =
                new BufferedReader(
                        new InputStreamReader(child.getInputStream(), StandardCharsets.UTF_8))) {
            out.lines().forEach(System.out::println);
        }
        System.exit(child.waitFor());
    }

    /// One end of the stream.
    private static final class Side {
        private final int fd;
        private final Arena arena = Arena.ofShared();
        private final MemorySegment word = arena.allocate(8, 8);
        private final MemorySegment reply = arena.allocate(8, 8);
        private final MemorySegment[] blocks = new MemorySegment[BUFFERS];
        private final Ring plain = new Ring(0);
        private final Ring deferred = new Ring(Ring.SINGLE_ISSUER | Ring.DEFER_TASKRUN);

        Side(int fd) {
            this.fd = fd;
            TcpSocket.configure(fd, 5000);
            Ring.makeBlocking(fd); // io_uring answers EAGAIN for a socket that does not block
            for (int i = 0; i < BUFFERS; i++) {
                blocks[i] = arena.allocate(BLOCK, 4096);
            }
        }

        private Ring ring(Mode mode) {
            return mode == Mode.URING_DEFERRED ? deferred : plain;
        }

        void send() {
            for (int round = 0; round < ROUNDS; round++) {
                for (Mode mode : Mode.values()) {
                    if (mode != Mode.URING_SPIN) {
                        sendBlocks(mode);
                    }
                }
                for (Mode mode : Mode.values()) {
                    if (mode != Mode.URING_ZERO_COPY) {
                        ping(mode);
                    }
                }
            }
        }

        void receive() {
            for (int round = 0; round < ROUNDS; round++) {
                for (Mode mode : Mode.values()) {
                    if (mode != Mode.URING_SPIN) {
                        receiveBlocks(mode);
                    }
                }
                for (Mode mode : Mode.values()) {
                    if (mode != Mode.URING_ZERO_COPY) {
                        for (int i = 0; i < PINGS; i++) {
                            all(mode, false, word, 8);
                            all(mode, true, word, 8);
                        }
                    }
                }
            }
        }

        private void sendBlocks(Mode mode) {
            long cpu = cpu();
            long began = System.nanoTime();
            for (long i = 0; i < BLOCKS; i++) {
                MemorySegment block = blocks[(int) (i % BUFFERS)];
                if (mode == Mode.URING_ZERO_COPY) {
                    plain.awaitNotices(BUFFERS - 1);
                }
                block.set(JAVA_LONG, 0, i);
                block.set(JAVA_LONG, BLOCK - 8, i);
                all(mode, true, block, BLOCK);
            }
            plain.awaitNotices(0);
            all(Mode.CALLS, false, word, 8);
            report("sends", mode, began, cpu);
        }

        private void receiveBlocks(Mode mode) {
            long cpu = cpu();
            long began = System.nanoTime();
            for (long i = 0; i < BLOCKS; i++) {
                MemorySegment block = blocks[0];
                all(mode, false, block, BLOCK);
                if (block.get(JAVA_LONG, 0) != i || block.get(JAVA_LONG, BLOCK - 8) != i) {
                    throw new IllegalStateException("block " + i + " arrived damaged");
                }
            }
            all(Mode.CALLS, true, word, 8);
            report("receives", mode, began, cpu);
        }

        private static long cpu() {
            return ProcessHandle.current()
                    .info()
                    .totalCpuDuration()
                    .orElse(Duration.ZERO)
                    .toNanos();
        }

        private static void report(String what, Mode mode, long began, long cpu) {
            double bytes = (double) BLOCKS * BLOCK;
            System.out.printf(
                    Locale.ROOT,
                    "%-8s 1 MiB %-16s %.2f GB/s  %.3f CPU s/GB%n",
                    what,
                    mode,
                    bytes / (System.nanoTime() - began),
                    (cpu() - cpu) / bytes);
        }

        private void ping(Mode mode) {
            long[] times = new long[PINGS];
            for (int i = 0; i < PINGS; i++) {
                long began = System.nanoTime();
                word.set(JAVA_LONG, 0, i);
                all(mode, true, word, 8);
                all(mode, false, reply, 8);
                times[i] = System.nanoTime() - began;
                if (reply.get(JAVA_LONG, 0) != i) {
                    throw new IllegalStateException("ping " + i + " was answered wrongly");
                }
            }
            Arrays.sort(times);
            System.out.printf(
                    Locale.ROOT,
                    "one way  8 B   %-16s p50 %.2f us  p99 %.2f us%n",
                    mode,
                    times[PINGS / 2] / 2e3,
                    times[PINGS * 99 / 100] / 2e3);
        }

        /// Moves so many bytes, all of them.
        private void all(Mode mode, boolean out, MemorySegment memory, int length) {
            int done = 0;
            while (done < length) {
                long n = some(mode, out, memory, done, length - done);
                if (n <= 0 && n != -Errno.EAGAIN) {
                    throw new IllegalStateException(mode + ": " + Errno.describe((int) n));
                }
                done += (int) Math.max(0, n);
            }
        }

        private long some(Mode mode, boolean out, MemorySegment memory, int from, int length) {
            if (mode == Mode.CALLS) {
                MemorySegment part = memory.asSlice(from, length);
                int flags = Sockets.MSG_DONTWAIT | Sockets.MSG_NOSIGNAL;
                return out
                        ? Sockets.send(fd, part, length, flags)
                        : Sockets.recv(fd, part, length, Sockets.MSG_DONTWAIT);
            }
            int operation =
                    out ? mode == Mode.URING_ZERO_COPY ? Ring.SEND_ZC : Ring.SEND : Ring.RECV;
            Ring ring = ring(mode);
            ring.prepare(operation, fd, memory.address() + from, length, Sockets.MSG_WAITALL);
            return ring.await(mode == Mode.URING_SPIN);
        }
    }

    /// An io_uring of one thread.
    private static final class Ring {
        static final int SEND = 26;
        static final int RECV = 27;
        static final int SEND_ZC = 47;
        static final int SINGLE_ISSUER = 1 << 12;
        static final int DEFER_TASKRUN = 1 << 13;

        private static final long SYS_SETUP = 425;
        private static final long SYS_ENTER = 426;
        private static final int ENTER_GETEVENTS = 1;
        private static final int ENTRIES = 32;
        private static final int SQE = 64;
        private static final int CQE = 16;
        private static final int NOTICE = 1 << 3;
        private static final int MORE = 1 << 1;
        private static final long SQES_OFFSET = 0x1000_0000L;

        // In `struct io_uring_params`.
        private static final int SQ = 40;
        private static final int CQ = 80;

        private static final VarHandle INT = JAVA_INT.varHandle();
        private static final Linker LINKER = Linker.nativeLinker();
        private static final MethodHandle SYSCALL6 =
                call(
                        "syscall",
                        FunctionDescriptor.of(
                                JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG, JAVA_LONG,
                                JAVA_LONG, JAVA_LONG),
                        Linker.Option.firstVariadicArg(1));
        private static final MethodHandle MMAP =
                call(
                        "mmap",
                        FunctionDescriptor.of(
                                ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, JAVA_INT, JAVA_INT,
                                JAVA_LONG));
        private static final MethodHandle FCNTL =
                call(
                        "fcntl",
                        FunctionDescriptor.of(JAVA_INT, JAVA_INT, JAVA_INT, JAVA_INT),
                        Linker.Option.firstVariadicArg(2));

        private final int fd;
        private final MemorySegment ring;
        private final MemorySegment sqes;
        private final int sqTail;
        private final int sqMask;
        private final int cqHead;
        private final int cqTail;
        private final int cqMask;
        private final int cqes;
        private int unsubmitted;
        private int notices;

        Ring(int flags) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment params = arena.allocate(120, 8);
                params.set(JAVA_INT, 8, flags);
                fd = (int) syscall(SYS_SETUP, ENTRIES, params.address(), 0, 0);
                int sqEntries = params.get(JAVA_INT, 0);
                int cqEntries = params.get(JAVA_INT, 4);
                int array = params.get(JAVA_INT, SQ + 24);
                cqes = params.get(JAVA_INT, CQ + 20);
                ring = map(Math.max(array + 4L * sqEntries, cqes + (long) CQE * cqEntries), 0);
                sqes = map((long) SQE * sqEntries, SQES_OFFSET);
                sqTail = params.get(JAVA_INT, SQ + 4);
                sqMask = ring.get(JAVA_INT, params.get(JAVA_INT, SQ + 8));
                cqHead = params.get(JAVA_INT, CQ);
                cqTail = params.get(JAVA_INT, CQ + 4);
                cqMask = ring.get(JAVA_INT, params.get(JAVA_INT, CQ + 8));
                for (int i = 0; i < sqEntries; i++) {
                    ring.set(JAVA_INT, array + 4L * i, i);
                }
            }
        }

        private static MethodHandle call(
                String name, FunctionDescriptor descriptor, Linker.Option... options) {
            return LINKER.downcallHandle(
                    LINKER.defaultLookup().findOrThrow(name), descriptor, options);
        }

        private static long syscall(long number, long a, long b, long c, long d) {
            try {
                long result = (long) SYSCALL6.invokeExact(number, a, b, c, d, 0L, 0L);
                if (result < 0) {
                    throw new IllegalStateException("system call " + number + " failed");
                }
                return result;
            } catch (RuntimeException e) {
                throw e;
            } catch (Throwable e) {
                throw new AssertionError(e);
            }
        }

        private MemorySegment map(long bytes, long offset) {
            try {
                int readWrite = 3;
                int sharedPopulate = 0x8001;
                MemorySegment at =
                        (MemorySegment)
                                MMAP.invokeExact(
                                        MemorySegment.NULL,
                                        bytes,
                                        readWrite,
                                        sharedPopulate,
                                        fd,
                                        offset);
                if (at.address() == -1) {
                    throw new IllegalStateException("mmap of an io_uring failed");
                }
                return at.reinterpret(bytes);
            } catch (RuntimeException e) {
                throw e;
            } catch (Throwable e) {
                throw new AssertionError(e);
            }
        }

        static void makeBlocking(int socket) {
            try {
                int setFlags = 4;
                int result = (int) FCNTL.invokeExact(socket, setFlags, 0);
                if (result != 0) {
                    throw new IllegalStateException("fcntl failed");
                }
            } catch (RuntimeException e) {
                throw e;
            } catch (Throwable e) {
                throw new AssertionError(e);
            }
        }

        void prepare(int operation, int socket, long address, int length, int flags) {
            int tail = ring.get(JAVA_INT, sqTail);
            long at = (long) (tail & sqMask) * SQE;
            sqes.asSlice(at, SQE).fill((byte) 0);
            sqes.set(JAVA_BYTE, at, (byte) operation);
            sqes.set(JAVA_INT, at + 4, socket);
            sqes.set(JAVA_LONG, at + 16, address);
            sqes.set(JAVA_INT, at + 24, length);
            sqes.set(JAVA_INT, at + 28, flags);
            INT.setRelease(ring, (long) sqTail, tail + 1);
            unsubmitted++;
        }

        /// Submits what was prepared, and waits for its result.
        long await(boolean spin) {
            if (spin) {
                enter(0);
            }
            while (true) {
                int head = ring.get(JAVA_INT, cqHead);
                if (head != (int) INT.getAcquire(ring, (long) cqTail)) {
                    long at = cqes + (long) (head & cqMask) * CQE;
                    int result = ring.get(JAVA_INT, at + 8);
                    int flags = ring.get(JAVA_INT, at + 12);
                    INT.setRelease(ring, (long) cqHead, head + 1);
                    if ((flags & NOTICE) != 0) {
                        notices--;
                        continue;
                    }
                    notices += (flags & MORE) != 0 ? 1 : 0;
                    return result;
                }
                if (spin) {
                    Thread.onSpinWait();
                } else {
                    enter(1);
                }
            }
        }

        /// Waits until no more than so many sends may still read their memory.
        void awaitNotices(int left) {
            while (notices > left) {
                int head = ring.get(JAVA_INT, cqHead);
                if (head == (int) INT.getAcquire(ring, (long) cqTail)) {
                    enter(1);
                } else {
                    INT.setRelease(ring, (long) cqHead, head + 1);
                    notices--;
                }
            }
        }

        private void enter(int wanted) {
            long ignored = syscall(SYS_ENTER, fd, unsubmitted, wanted, ENTER_GETEVENTS);
            assert ignored >= 0;
            unsubmitted = 0;
        }
    }
}

package io.telpher.internal.transport.tcp;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/// Any bytes come in over a stream, in pieces of any size: each frame is handed over once, whole
/// and in order, or the stream ends with a reason.
///
/// The first byte chooses the size of the pieces. The receiver decides by the frame's type where a
/// payload goes, turns some away, and compares what it gets with the bytes that were sent.
public final class TcpInputFuzz {
    private static final int TARGET = 4096;
    private static final byte FILLING = 0x5a;

    private TcpInputFuzz() {}

    /// @param data a byte of choices, then the stream
    public static void fuzzerTestOneInput(byte[] data) {
        if (data.length == 0) {
            return;
        }
        int[] fds = new int[2];
        int made =
                Sockets.socketpair(
                        Sockets.AF_UNIX, Sockets.SOCK_STREAM | Sockets.SOCK_NONBLOCK, 0, fds);
        if (made < 0) {
            throw new IllegalStateException("socketpair failed: " + made);
        }
        TcpSocket socket = new TcpSocket(fds[0], "the fuzzer");
        try (Arena arena = Arena.ofConfined()) {
            play(new TcpInput(socket), fds[1], data, arena);
        } finally {
            socket.close();
            int unused = Descriptors.close(fds[1]);
        }
    }

    private static void play(TcpInput input, int fd, byte[] data, Arena arena) {
        MemorySegment stream =
                arena.allocate(Math.max(1, data.length - 1), 8)
                        .copyFrom(MemorySegment.ofArray(data).asSlice(1));
        long size = data.length - 1L;
        Checker checker = new Checker(stream, arena.allocate(3 * TARGET, 8));
        int piece = Math.max(1, (data[0] & 0xff) * 8);
        for (long sent = 0; sent < size; ) {
            long n =
                    Sockets.send(
                            fd,
                            stream.asSlice(sent),
                            Math.min(piece, size - sent),
                            Sockets.MSG_NOSIGNAL);
            boolean over = false;
            for (int frames = 1; frames > 0; ) {
                frames = input.poll(checker, 3);
                over = frames == Lane.DEAD;
            }
            if (over) {
                checker.check();
                return;
            }
            if (n > 0) {
                sent += n;
            }
        }
        int unused = Sockets.shutdown(fd, Sockets.SHUT_WR);
        for (int frames = 1; frames >= 0; ) {
            frames = input.poll(checker, 3);
        }
        checker.check();
    }

    private static final class Checker implements Receiver {
        private final MemorySegment stream;
        private final MemorySegment memory;
        private long at;
        private boolean inside;

        Checker(MemorySegment stream, MemorySegment memory) {
            this.stream = stream;
            this.memory = memory.fill(FILLING);
        }

        @Override
        public boolean begin(MemorySegment header, long from, Placement placement) {
            if (inside) {
                throw new AssertionError("a frame began inside of another one");
            }
            same(header, from, Lane.HEADER);
            int type = header.get(JAVA_BYTE, from) & 3;
            int length = header.get(Words.INT, from + 4);
            inside = true;
            at += Lane.HEADER;
            switch (type) {
                case 0 -> placement.buffer();
                case 1 -> {
                    if (length > TARGET) {
                        placement.discard();
                    } else {
                        placement.into(memory, TARGET, this);
                    }
                }
                case 2 -> placement.discard();
                default -> {
                    return length % 2 == 0;
                }
            }
            return true;
        }

        @Override
        public void end(
                MemorySegment header,
                long from,
                MemorySegment payload,
                long payloadAt,
                Placement placement) {
            inside = false;
            int length = header.get(Words.INT, from + 4);
            switch (placement.mode()) {
                case BUFFER -> same(payload, payloadAt, length);
                case INTO -> same(memory, TARGET, length);
                case DISCARD -> {}
            }
            at += length;
        }

        private void same(MemorySegment got, long from, int length) {
            if (MemorySegment.mismatch(stream, at, at + length, got, from, from + length) >= 0) {
                throw new AssertionError("other bytes than those that were sent, at " + at);
            }
        }

        void check() {
            for (long i = 0; i < 3L * TARGET; i++) {
                if ((i < TARGET || i >= 2 * TARGET) && memory.get(JAVA_BYTE, i) != FILLING) {
                    throw new AssertionError("a byte changed outside of the target, at " + i);
                }
            }
        }
    }

    private static final class Words {
        static final java.lang.foreign.ValueLayout.OfInt INT =
                java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED.withOrder(
                        java.nio.ByteOrder.LITTLE_ENDIAN);
    }
}

package io.telpher.internal.transport.tcp;

import static org.assertj.core.api.Assertions.assertThat;

import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TcpLaneTest {
    private static final Object OWNER = new Object();

    /// What a receiver does with the frames of a random run, by the frame's number.
    private static Placement.Mode modeOf(long number) {
        return Placement.Mode.values()[(int) (number % 3)];
    }

    /// Checks every frame and puts payloads where the number says.
    private static final class Checker implements Receiver {
        final MemorySegment target;
        final List<String> errors = new ArrayList<>();
        long next;

        Checker(MemorySegment target) {
            this.target = target;
        }

        @Override
        public boolean begin(MemorySegment header, long at, Placement placement) {
            if (placement.mode() != Placement.Mode.DISCARD || placement.discarded()) {
                errors.add("placement starts as " + placement.mode());
            }
            if (!Frames.intact(header, at) || Frames.number(header, at) != next) {
                errors.add("header of " + Frames.number(header, at) + ", expected " + next);
            }
            switch (modeOf(next)) {
                case INTO -> placement.into(target, next % 7, OWNER);
                case BUFFER -> placement.buffer();
                case DISCARD -> placement.discard();
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
            byte[] expected = Frames.payload(next, length);
            if (!Frames.intact(header, at) || Frames.number(header, at) != next) {
                errors.add("end of " + Frames.number(header, at) + ", expected " + next);
            }
            MemorySegment found =
                    switch (modeOf(next)) {
                        case INTO ->
                                placement.discarded() ? null : target.asSlice(next % 7, length);
                        case BUFFER -> payload.asSlice(payloadAt, length);
                        case DISCARD, KEEP -> null;
                    };
            if (found != null && found.mismatch(MemorySegment.ofArray(expected)) != -1) {
                errors.add("payload of frame " + next + " with " + length + " bytes is wrong");
            }
            next++;
        }
    }

    private static int size(Random random) {
        return switch (random.nextInt(8)) {
            case 0, 1 -> 0;
            case 2, 3 -> random.nextInt(200);
            case 4 -> TcpOutput.SMALL - Lane.HEADER - 2 + random.nextInt(5);
            case 5 -> random.nextInt(TcpInput.BUFFER * 2);
            case 6 -> random.nextInt(TcpLane.MAX_PAYLOAD + 1);
            default -> TcpLane.MAX_PAYLOAD;
        };
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 4096, 65536})
    void framesOfRandomSizesArriveInOrder(int buffer) {
        long seed = System.nanoTime();
        System.out.println("TcpLaneTest seed " + seed + ", buffer " + buffer);
        Random random = new Random(seed);
        int frames = buffer == 4096 ? 60 : 300;
        try (Arena arena = Arena.ofShared();
                TcpPair pair = TcpPair.open(buffer)) {
            MemorySegment target = arena.allocate(TcpLane.MAX_PAYLOAD + 7);
            Checker checker = new Checker(target);
            Deque<MemorySegment> inUse = new ArrayDeque<>();
            MemorySegment source = arena.allocate(TcpLane.MAX_PAYLOAD);
            int sent = 0;
            boolean taken = true;
            int length = 0;
            long until = System.nanoTime() + 60_000_000_000L;
            while (checker.next < frames) {
                assertThat(System.nanoTime()).isLessThan(until);
                for (int i = random.nextInt(4); i > 0 && sent < frames; i--) {
                    if (taken) {
                        length = size(random);
                        source = arena.allocate(Math.max(1, length));
                        byte[] bytes = Frames.payload(sent, length);
                        MemorySegment.copy(
                                bytes, 0, source, ValueLayout.JAVA_BYTE, 0, bytes.length);
                        inUse.add(source);
                    }
                    MemorySegment header = Frames.header(arena, sent, length);
                    int result = pair.a().send(header, 0, source, 0, length, source);
                    assertThat(result).isNotEqualTo(Lane.DEAD);
                    header.fill((byte) 0);
                    taken = result == Lane.OK;
                    if (taken) {
                        sent++;
                    }
                }
                if (random.nextInt(3) == 0) {
                    assertThat(pair.a().flush()).isNotEqualTo(Lane.DEAD);
                }
                if (random.nextInt(5) == 0 && taken) {
                    // After the release the memory may change at once.
                    for (MemorySegment memory : inUse) {
                        pair.a().releaseOutbound(memory);
                        memory.fill((byte) 0x55);
                    }
                    inUse.clear();
                }
                if (random.nextInt(3) > 0) {
                    assertThat(pair.b().poll(checker, 1 + random.nextInt(5)))
                            .isGreaterThanOrEqualTo(0);
                }
                assertThat(checker.errors).isEmpty();
            }
            assertThat(sent).isEqualTo(frames);
            assertThat(pair.a().flush()).isEqualTo(Lane.OK);
            assertThat(pair.a().wantsWrite()).isFalse();
        }
    }

    @Test
    void piecesOfAnySizeMakeTheSameFrames() {
        long seed = System.nanoTime();
        System.out.println("TcpLaneTest seed " + seed);
        Random random = new Random(seed);
        try (Arena arena = Arena.ofShared();
                TcpPair pair = TcpPair.open()) {
            int frames = 60;
            MemorySegment stream = arena.allocate(1 << 20);
            long end = 0;
            for (int number = 0; number < frames; number++) {
                int length = random.nextInt(5) == 0 ? random.nextInt(40_000) : random.nextInt(90);
                MemorySegment header = Frames.header(arena, number, length);
                MemorySegment.copy(header, 0, stream, end, Lane.HEADER);
                byte[] payload = Frames.payload(number, length);
                MemorySegment.copy(
                        payload, 0, stream, ValueLayout.JAVA_BYTE, end + Lane.HEADER, length);
                end += Lane.HEADER + length;
            }
            Checker checker = new Checker(arena.allocate(TcpLane.MAX_PAYLOAD + 7));
            long at = 0;
            long until = System.nanoTime() + 30_000_000_000L;
            while (checker.next < frames) {
                assertThat(System.nanoTime()).isLessThan(until);
                if (at < end) {
                    int most = random.nextInt(20) == 0 ? 50_000 : 70;
                    long piece = Math.min(end - at, 1 + random.nextInt(most));
                    long sent =
                            Sockets.send(
                                    pair.a().descriptor(), stream.asSlice(at, piece), piece, 0);
                    at += Math.max(0, sent);
                }
                assertThat(pair.b().poll(checker, 1 + random.nextInt(3))).isNotNegative();
                assertThat(checker.errors).isEmpty();
            }
        }
    }
}

package io.telpher.internal.transport.tcp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.telpher.internal.ffi.linux.Descriptors;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.List;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// What happens to a lane in the middle of a frame.
class TcpLaneEdgeTest {
    private static final Object OWNER = new Object();
    private static final int LARGE = TcpLane.MAX_PAYLOAD;

    private final Arena arena = Arena.ofShared();

    /// Arenas that a test may close early.
    private final Arena theirs = Arena.ofShared();

    private final Arena others = Arena.ofShared();

    @AfterEach
    void closeArenas() {
        for (Arena each : List.of(arena, theirs, others)) {
            if (each.scope().isAlive()) {
                each.close();
            }
        }
    }

    /// Receives into `target`, or elsewhere as `where` says, and remembers the last frame.
    private static final class Recorder implements Receiver {
        final MemorySegment target;
        final BiConsumer<Long, Placement> where;
        long begun = -1;
        long ended = -1;
        boolean discarded;
        boolean accept = true;

        Recorder(MemorySegment target, BiConsumer<Long, Placement> where) {
            this.target = target;
            this.where = where;
        }

        Recorder(MemorySegment target) {
            this(target, (number, placement) -> placement.into(target, 0, OWNER));
        }

        @Override
        public boolean begin(MemorySegment header, long at, Placement placement) {
            begun = Frames.number(header, at);
            where.accept(begun, placement);
            return accept;
        }

        @Override
        public void end(
                MemorySegment header,
                long at,
                MemorySegment payload,
                long payloadAt,
                Placement placement) {
            ended = Frames.number(header, at);
            discarded = placement.discarded();
        }
    }

    private MemorySegment payload(long number, int length) {
        return arena.allocateFrom(ValueLayout.JAVA_BYTE, Frames.payload(number, length));
    }

    private int send(Lane lane, long number, MemorySegment payload, int length) {
        return lane.send(Frames.header(arena, number, length), 0, payload, 0, length, OWNER);
    }

    /// Moves bytes until the frame has ended.
    private static void carry(TcpPair pair, Recorder recorder, long number) {
        long until = System.nanoTime() + 10_000_000_000L;
        while (recorder.ended != number) {
            assertThat(System.nanoTime()).isLessThan(until);
            assertThat(pair.a().flush()).isNotEqualTo(Lane.DEAD);
            assertThat(pair.b().poll(recorder, 1)).isNotEqualTo(Lane.DEAD);
        }
    }

    /// Polls until the lane is dead.
    private static String death(TcpLane lane, Receiver receiver) {
        long until = System.nanoTime() + 10_000_000_000L;
        while (lane.poll(receiver, 4) != Lane.DEAD) {
            assertThat(System.nanoTime()).isLessThan(until);
        }
        String failure = lane.failure();
        assertThat(failure).isNotNull().contains("127.0.0.1:", " - ");
        assertThat(lane.poll(receiver, 1)).isEqualTo(Lane.DEAD);
        assertThat(lane.flush()).isEqualTo(Lane.DEAD);
        return failure;
    }

    @Test
    void aFullLaneTakesNothingUntilItIsFlushed() {
        try (TcpPair pair = TcpPair.open(4096)) {
            MemorySegment large = payload(0, LARGE);
            assertThat(pair.a().wantsWrite()).isFalse();
            assertThat(send(pair.a(), 0, large, LARGE)).isEqualTo(Lane.OK);
            assertThat(pair.a().flush()).isEqualTo(Lane.FULL);
            assertThat(pair.a().wantsWrite()).isTrue();
            assertThat(send(pair.a(), 1, large, 8)).isEqualTo(Lane.FULL);
            Recorder recorder = new Recorder(arena.allocate(LARGE));
            carry(pair, recorder, 0);
            assertThat(recorder.target.mismatch(large)).isEqualTo(-1);
            assertThat(pair.a().wantsWrite()).isFalse();
            assertThat(send(pair.a(), 1, large, 8)).isEqualTo(Lane.OK);
            carry(pair, recorder, 1);
        }
    }

    @Test
    void smallFramesFillTheBufferAndNoMore() {
        try (TcpPair pair = TcpPair.open(4096)) {
            MemorySegment small = payload(0, 1000);
            int taken = 0;
            while (send(pair.a(), taken, small, 1000) == Lane.OK) {
                taken++;
            }
            assertThat(taken).isGreaterThan(TcpOutput.BUFFER / 1064 - 1);
            Recorder recorder = new Recorder(arena.allocate(1000));
            carry(pair, recorder, taken - 1);
            assertThat(pair.a().flush()).isEqualTo(Lane.OK);
        }
    }

    @Test
    void aReleasedPayloadMayChangeAtOnce() {
        try (TcpPair pair = TcpPair.open(4096)) {
            for (int number = 0; number < 3; number++) {
                byte[] expected = Frames.payload(number, LARGE - number);
                MemorySegment source = payload(number, LARGE - number);
                assertThat(send(pair.a(), number, source, LARGE - number)).isEqualTo(Lane.OK);
                assertThat(pair.a().flush()).isEqualTo(Lane.FULL);
                pair.a().releaseOutbound(new Object());
                pair.a().releaseOutbound(OWNER);
                source.fill((byte) 1);
                Recorder recorder = new Recorder(arena.allocate(LARGE - number));
                carry(pair, recorder, number);
                assertThat(recorder.target.mismatch(MemorySegment.ofArray(expected))).isEqualTo(-1);
            }
        }
    }

    @Test
    void aDiscardedDestinationIsNotTouchedAnyMore() {
        try (TcpPair pair = TcpPair.open(4096)) {
            assertThat(send(pair.a(), 0, payload(0, LARGE), LARGE)).isEqualTo(Lane.OK);
            assertThat(pair.a().flush()).isEqualTo(Lane.FULL);
            Recorder recorder = new Recorder(arena.allocate(LARGE));
            while (recorder.begun != 0) {
                assertThat(pair.b().poll(recorder, 1)).isZero();
            }
            pair.b().discardInbound(new Object());
            pair.b().discardInbound(OWNER);
            recorder.target.fill((byte) 3);
            carry(pair, recorder, 0);
            assertThat(recorder.discarded).isTrue();
            assertThat(recorder.target.mismatch(filled((byte) 3, LARGE))).isEqualTo(-1);
            // The lane lives, and the next frame goes where it should.
            MemorySegment next = payload(1, LARGE);
            assertThat(send(pair.a(), 1, next, LARGE)).isEqualTo(Lane.OK);
            carry(pair, recorder, 1);
            assertThat(recorder.discarded).isFalse();
            assertThat(recorder.target.mismatch(next)).isEqualTo(-1);
        }
    }

    private static MemorySegment filled(byte value, int length) {
        byte[] bytes = new byte[length];
        Arrays.fill(bytes, value);
        return MemorySegment.ofArray(bytes);
    }

    @ParameterizedTest
    @ValueSource(ints = {100, LARGE})
    void aDestinationWhoseArenaWasClosedIsTurnedAway(int length) {
        try (TcpPair pair = TcpPair.open(4096)) {
            Recorder recorder = new Recorder(theirs.allocate(LARGE));
            assertThat(send(pair.a(), 0, payload(0, length), length)).isEqualTo(Lane.OK);
            assertThat(pair.a().flush()).isNotEqualTo(Lane.DEAD);
            if (length == LARGE) {
                while (recorder.begun != 0) {
                    assertThat(pair.b().poll(recorder, 1)).isZero();
                }
            }
            theirs.close();
            carry(pair, recorder, 0);
            assertThat(recorder.discarded).isTrue();
        }
    }

    @Test
    void aClosedSourceIsRefusedBeforeAndFatalWithinAFrame() {
        try (TcpPair pair = TcpPair.open(4096)) {
            Recorder recorder = new Recorder(arena.allocate(LARGE));
            MemorySegment source = theirs.allocate(LARGE);
            theirs.close();
            assertThatThrownBy(() -> send(pair.a(), 0, source, 100))
                    .isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(() -> send(pair.a(), 0, source, LARGE))
                    .isInstanceOf(IllegalStateException.class);
            assertThat(send(pair.a(), 1, payload(1, LARGE), LARGE)).isEqualTo(Lane.OK);
            carry(pair, recorder, 1);

            assertThat(send(pair.a(), 2, others.allocate(LARGE), LARGE)).isEqualTo(Lane.OK);
            assertThat(pair.a().flush()).isEqualTo(Lane.FULL);
            others.close();
            // What the kernel has is read first, so that there is room to go on.
            while (recorder.begun != 2) {
                assertThat(pair.b().poll(recorder, 1)).isZero();
            }
            int result = Lane.FULL;
            while (result == Lane.FULL) {
                pair.b().poll(recorder, 1);
                result = pair.a().flush();
            }
            assertThat(result).isEqualTo(Lane.DEAD);
            assertThat(pair.a().failure()).contains("memory", "closed");
            assertThat(send(pair.a(), 3, payload(3, 1), 1)).isEqualTo(Lane.DEAD);
            assertThat(death(pair.b(), recorder)).contains("within a frame");
        }
    }

    @Test
    void theEndOfTheStreamIsNamed() {
        Recorder recorder = new Recorder(arena.allocate(LARGE));
        try (TcpPair pair = TcpPair.open()) {
            send(pair.a(), 0, payload(0, 10), 10);
            pair.a().flush();
            Sockets.shutdown(pair.a().descriptor(), Sockets.SHUT_WR);
            assertThat(death(pair.b(), recorder)).endsWith("the peer closed the stream");
            assertThat(recorder.ended).isZero();
        }
        try (TcpPair pair = TcpPair.open()) {
            Sockets.send(pair.a().descriptor(), Frames.header(arena, 5, 10), 64, 0);
            Sockets.shutdown(pair.a().descriptor(), Sockets.SHUT_WR);
            assertThat(death(pair.b(), recorder)).contains("within a frame, after 0 of 10 bytes");
        }
        try (TcpPair pair = TcpPair.open()) {
            Sockets.send(pair.a().descriptor(), Frames.header(arena, 6, 10), 63, 0);
            Sockets.shutdown(pair.a().descriptor(), Sockets.SHUT_WR);
            assertThat(death(pair.b(), recorder)).contains("within a header");
        }
    }

    @Test
    void aResetIsNamedOnBothHalves() {
        int[] fds = TcpPair.descriptors(0);
        TcpLane lane = new TcpLane(fds[1]);
        // Unread bytes make the kernel reset the connection.
        send(lane, 0, payload(0, 10), 10);
        lane.flush();
        Descriptors.close(fds[0]);
        Recorder recorder = new Recorder(arena.allocate(LARGE));
        assertThat(death(lane, recorder)).containsAnyOf("ECONNRESET", "closed");
        assertThat(send(lane, 1, payload(0, 10), 10)).isEqualTo(Lane.DEAD);
        lane.close();
    }

    @Test
    void aClosedPeerIsNoticedBySending() {
        int[] fds = TcpPair.descriptors(0);
        TcpLane lane = new TcpLane(fds[1]);
        Descriptors.close(fds[0]);
        long until = System.nanoTime() + 10_000_000_000L;
        int result = Lane.OK;
        for (long i = 0; result != Lane.DEAD; i++) {
            assertThat(System.nanoTime()).isLessThan(until);
            send(lane, i, payload(0, 10), 10);
            result = lane.flush();
        }
        assertThat(lane.failure()).containsAnyOf("EPIPE", "ECONNRESET");
        lane.close();
    }

    @Test
    void garbageEndsTheLane() {
        Recorder recorder = new Recorder(arena.allocate(LARGE));
        try (TcpPair pair = TcpPair.open()) {
            recorder.accept = false;
            send(pair.a(), 0, payload(0, 10), 10);
            pair.a().flush();
            assertThat(death(pair.b(), recorder)).contains("protocol");
            assertThat(send(pair.b(), 0, payload(0, 1), 1)).isEqualTo(Lane.DEAD);
            assertThat(death(pair.a(), recorder)).contains("closed the stream");
        }
        for (int length : new int[] {LARGE + 1, -1, Integer.MIN_VALUE}) {
            try (TcpPair pair = TcpPair.open()) {
                Sockets.send(pair.a().descriptor(), Frames.header(arena, 0, length), 64, 0);
                recorder.accept = true;
                recorder.begun = -1;
                assertThat(death(pair.b(), recorder))
                        .contains("protocol")
                        .contains(Integer.toUnsignedString(length));
                assertThat(recorder.begun).isEqualTo(-1);
            }
        }
    }

    @Test
    void aDestinationOutsideItsSegmentIsRefused() {
        try (TcpPair pair = TcpPair.open()) {
            MemorySegment small = arena.allocate(10);
            Recorder recorder = new Recorder(small, (n, p) -> p.into(small, 1, OWNER));
            send(pair.a(), 0, payload(0, 10), 10);
            pair.a().flush();
            Poll.poll(pair.b().descriptor(), Poll.POLLIN, 5000);
            assertThatThrownBy(() -> pair.b().poll(recorder, 1))
                    .isInstanceOf(IndexOutOfBoundsException.class);
        }
    }

    @Test
    void parkingIsRefusedWhileFramesAreBuffered() {
        try (TcpPair pair = TcpPair.open()) {
            Recorder recorder = new Recorder(arena.allocate(LARGE));
            assertThat(pair.b().park()).isTrue();
            pair.b().unpark();
            send(pair.a(), 0, payload(0, 8), 8);
            send(pair.a(), 1, MemorySegment.NULL, 0);
            pair.a().flush();
            assertThat(Poll.poll(pair.b().descriptor(), Poll.POLLIN, 5000)).isPositive();
            assertThat(pair.b().poll(recorder, 1)).isEqualTo(1);
            // The second frame is in user space: the descriptor would not tell of it.
            assertThat(Poll.poll(pair.b().descriptor(), Poll.POLLIN, 0)).isZero();
            assertThat(pair.b().park()).isFalse();
            assertThat(pair.b().poll(recorder, 1)).isEqualTo(1);
            assertThat(pair.b().park()).isTrue();
            pair.b().unpark();
            assertThat(pair.b().poll(recorder, 1)).isZero();
        }
    }

    @Test
    void idleLanesAreNotSilent() throws InterruptedException {
        try (TcpPair pair = TcpPair.open()) {
            assertThat(pair.a().silence()).isZero();
            send(pair.a(), 0, payload(0, 8), 8);
            pair.a().flush();
            Thread.sleep(50);
            assertThat(pair.a().silence()).isZero();
            assertThat(pair.b().silence()).isZero();
        }
    }

    @Test
    void framesThatWereSentBeforeCloseArrive() {
        for (int i = 0; i < 50; i++) {
            TcpPair pair = TcpPair.open();
            // Bytes that nobody reads would turn the close into a reset.
            send(pair.b(), 0, payload(0, 100), 100);
            pair.b().flush();
            send(pair.a(), 7, payload(0, 100), 100);
            pair.a().flush();
            Poll.poll(pair.a().descriptor(), Poll.POLLIN, 5000);
            pair.a().close();
            Recorder recorder = new Recorder(arena.allocate(LARGE));
            assertThat(death(pair.b(), recorder)).contains("closed the stream");
            assertThat(recorder.ended).isEqualTo(7);
            pair.b().close();
        }
    }

    @Test
    void aThousandLanesLeaveNoDescriptors() throws Exception {
        TcpPair.open().close();
        long before = TcpEndpointTest.descriptors();
        for (int i = 0; i < 1000; i++) {
            try (TcpPair pair = TcpPair.open()) {
                send(pair.a(), i, payload(0, 1), 1);
                pair.a().flush();
            }
        }
        assertThat(TcpEndpointTest.descriptors()).isLessThanOrEqualTo(before);
    }
}

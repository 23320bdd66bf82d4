package io.telpher.internal.transport.shm;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.linux.Poll;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;

/// One side of a lane as an engine would use it: sends frames of random sizes, checks what comes
/// in, confirms it, and parks on the doorbell whenever there is nothing to do. Both sides start
/// from the same seed for each direction, so each knows what must come.
final class RingPeer implements Receiver {
    private static final int LONGEST_SLEEP_MILLIS = 10_000;

    private final Lane lane;
    private final Random outSizes;
    private final Random inSizes;
    private final Random whims;
    private final long toSend;
    private final long toReceive;
    private final MemorySegment header = Arena.ofAuto().allocate(Lane.HEADER, 64);
    private final MemorySegment payload = Arena.ofAuto().allocate(1 << 20, 64);
    private final MemorySegment target = Arena.ofAuto().allocate(1 << 20, 64);
    private long pauseNanos;
    private long sent;
    private long received;
    private long parks;

    /// @param outSeed seed of the sizes that this side sends
    /// @param inSeed seed of the sizes that come
    RingPeer(Lane lane, long outSeed, long inSeed, long toSend, long toReceive) {
        this.lane = lane;
        outSizes = new Random(outSeed);
        inSizes = new Random(inSeed);
        whims = new Random(outSeed * 31 + 7);
        this.toSend = toSend;
        this.toReceive = toReceive;
        for (int i = 0; i < payload.byteSize(); i++) {
            payload.set(JAVA_BYTE, i, pattern(i));
        }
    }

    /// Makes this side slow: a pause after each look at the ring.
    RingPeer pausing(long nanos) {
        pauseNanos = nanos;
        return this;
    }

    private static byte pattern(long i) {
        return (byte) (i * 167 + (i >> 8));
    }

    /// Small, middle and full frames.
    private static int size(Random random, int most) {
        return switch (random.nextInt(8)) {
            case 0, 1, 2 -> random.nextInt(80);
            case 3, 4 -> random.nextInt(most / 8);
            case 5 -> 0;
            default -> most - random.nextInt(70);
        };
    }

    /// Runs until all was sent, received and confirmed.
    ///
    /// @return how often it slept
    long run() {
        int next = size(outSizes, lane.maxPayload());
        while (sent < toSend || received < toReceive || lane.confirmed() < toSend) {
            boolean worked = false;
            boolean full = false;
            int burst = 1 + whims.nextInt(20);
            for (int i = 0; i < burst && sent < toSend && !full; i++) {
                header.set(JAVA_LONG, 0, 7 | (long) next << 32);
                header.set(JAVA_LONG, 8, sent);
                header.set(JAVA_LONG, 56, ~sent);
                int result = lane.send(header, 0, payload, sent % 1000, next, null);
                if (result == Lane.DEAD) {
                    throw new IllegalStateException(lane.failure());
                }
                full = result == Lane.FULL;
                if (!full) {
                    sent++;
                    worked = true;
                    next = size(outSizes, lane.maxPayload());
                }
            }
            lane.flush();
            int limit = 1 + whims.nextInt(10);
            int frames = lane.poll(this, limit);
            if (pauseNanos > 0) {
                LockSupport.parkNanos(pauseNanos);
            }
            if (frames == Lane.DEAD) {
                throw new IllegalStateException(lane.failure());
            }
            if (frames > 0) {
                lane.confirm(received);
                worked = true;
            }
            if (!worked && (sent == toSend || full)) {
                sleep();
            }
        }
        // What the last confirmation still owes to the peer.
        if (lane.park()) {
            lane.unpark();
        }
        return parks;
    }

    private void sleep() {
        if (!lane.park()) {
            return;
        }
        parks++;
        int events = Poll.poll(lane.descriptor(), Poll.POLLIN, LONGEST_SLEEP_MILLIS);
        lane.unpark();
        if (events == 0) {
            throw new IllegalStateException(
                    "lost wake-up: sent %d of %d, received %d of %d, confirmed %d"
                            .formatted(sent, toSend, received, toReceive, lane.confirmed()));
        }
    }

    @Override
    public boolean begin(MemorySegment frame, long at, Placement placement) {
        switch (whims.nextInt(3)) {
            case 0 -> placement.buffer();
            case 1 -> placement.into(target, 64, this);
            default -> placement.discard();
        }
        return true;
    }

    @Override
    public void end(
            MemorySegment frame, long at, MemorySegment bytes, long bytesAt, Placement placement) {
        int length = frame.get(JAVA_INT, at + 4);
        int expected = size(inSizes, lane.maxPayload());
        if (frame.get(JAVA_INT, at) != 7
                || length != expected
                || frame.get(JAVA_LONG, at + 8) != received
                || frame.get(JAVA_LONG, at + 56) != ~received) {
            throw new IllegalStateException("frame " + received + " is wrong");
        }
        MemorySegment where = placement.mode() == Placement.Mode.INTO ? placement.segment() : bytes;
        long from = placement.mode() == Placement.Mode.INTO ? placement.offset() : bytesAt;
        if (placement.mode() != Placement.Mode.DISCARD) {
            long start = received % 1000;
            long different =
                    MemorySegment.mismatch(
                            where, from, from + length, payload, start, start + length);
            if (different >= 0) {
                throw new IllegalStateException(
                        "frame " + received + " differs at byte " + different);
            }
        }
        received++;
    }
}

package io.telpher.sim;

import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/// How one lane breaks its contract: not at all, unless a test has [Planted] something.
final class Faulty {
    private static final int ONE_OF = 8;
    private static final int LATE_NANOS = 50_000_000;

    private final Simulation simulation;

    Faulty(Simulation simulation) {
        this.simulation = simulation;
    }

    private boolean happens(Planted what) {
        return simulation.planted == what && simulation.scheduler.random.nextInt(ONE_OF) == 0;
    }

    boolean loses() {
        return happens(Planted.LOSE);
    }

    boolean doubles() {
        return happens(Planted.DOUBLE);
    }

    /// Copies a header, or makes it say nothing.
    void copyHeader(MemorySegment header, long at, MemorySegment to) {
        MemorySegment.copy(header, at, to, 0, Lane.HEADER);
        if (Frame.type(header, at) == Frame.CREDIT && happens(Planted.FORGET_CREDIT)) {
            to.set(ValueLayout.JAVA_BYTE, 0, (byte) Frame.NOP);
        }
    }

    boolean confirmsEarly() {
        return happens(Planted.CONFIRM_EARLY);
    }

    /// @return the payload, or a copy at the same offset in which one byte differs
    MemorySegment flipped(MemorySegment payload, long at, int length) {
        if (!happens(Planted.FLIP)) {
            return payload;
        }
        MemorySegment copy = MemorySegment.ofArray(new byte[Math.toIntExact(at + length)]);
        MemorySegment.copy(payload, at, copy, at, length);
        flip(copy, at + simulation.scheduler.random.nextInt(length));
        return copy;
    }

    /// Writes into a destination after its frame has ended.
    void scribble(Placement placement) {
        if (placement.mode() != Placement.Mode.INTO || !happens(Planted.WRITE_LATE)) {
            return;
        }
        MemorySegment target = placement.segment();
        long at = placement.offset();
        simulation.scheduler.in(
                simulation.scheduler.random.nextInt(LATE_NANOS), () -> flip(target, at));
    }

    private static void flip(MemorySegment memory, long at) {
        if (memory.scope().isAlive()) {
            byte old = memory.get(ValueLayout.JAVA_BYTE, at);
            memory.set(ValueLayout.JAVA_BYTE, at, (byte) (old ^ 0x55));
        }
    }
}

package io.telpher.sim;

import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/// A lane over two rings, modelled after the one in shared memory: whole frames, a word for
/// confirmations, a flag for sleepers and a doorbell. The order of its steps is that of the real
/// one; between them it can lose its turn.
final class RingLane implements Lane, SimProcess.Pollable {
    private static final int BELL_NANOS = 5_000;

    private final StreamEnd end;
    private final SimProcess process;
    private final Ring in;
    private final Ring out;
    private final int maxPayload;
    private final int descriptor;
    private final Faulty faulty;
    private final Placement placement = new Placement();

    /// The doorbell has rung.
    private boolean bell;

    private boolean unflushed;
    private boolean unannounced;

    /// Bytes that the last refused frame needs, 0 when none was refused.
    private int wanted;

    private long seenConfirmed;
    private long accepted;
    private @Nullable String failure;

    RingLane(StreamEnd end) {
        this.end = end;
        this.process = end.process();
        this.out = end.stream().ring(end.side());
        this.in = end.stream().ring(1 - end.side());
        this.maxPayload = end.stream().link().options().maxPayload();
        this.descriptor = process.open(this);
        this.faulty = new Faulty(process.simulation());
        end.lane(this);
    }

    private void preempt() {
        process.scheduler().preempt();
    }

    @Override
    public boolean isReadable() {
        return bell;
    }

    @Override
    public boolean isWritable() {
        return true;
    }

    /// The doorbell rings, or the stream has ended, which the real one is told in the same way.
    void ring() {
        bell = true;
        process.changed(descriptor);
    }

    @Override
    public String path() {
        return "sim";
    }

    @Override
    public String text() {
        return end.stream().name();
    }

    @Override
    public int maxPayload() {
        return maxPayload;
    }

    private @Nullable String lost() {
        String why = end.failure();
        return why != null ? why : end.in().isAtEnd() ? "the peer closed it" : null;
    }

    @Override
    public int send(
            MemorySegment header,
            long at,
            MemorySegment payload,
            long offset,
            int length,
            @Nullable Object owner) {
        preempt();
        if (failure != null || lost() != null) {
            return DEAD;
        }
        int needed = HEADER + length;
        if (!out.hasRoom(needed)) {
            out.waiting = true;
            preempt();
            if (!out.hasRoom(needed)) {
                wanted = needed;
                return FULL;
            }
        }
        wanted = 0;
        byte[] record = new byte[needed];
        if (length > 0) {
            MemorySegment.copy(payload, ValueLayout.JAVA_BYTE, offset, record, HEADER, length);
        }
        faulty.copyHeader(header, at, MemorySegment.ofArray(record));
        SimTransport.log(process, "sends", header, at, end.stream());
        accepted += Frame.type(header, at) < Frame.FIRST_UNSEQUENCED ? 1 : 0;
        if (!faulty.loses()) {
            if (length > 0) {
                MemorySegment whole = MemorySegment.ofArray(record);
                MemorySegment flipped = faulty.flipped(whole, HEADER, length);
                MemorySegment.copy(flipped, 0, whole, 0, needed);
            }
            out.add(record);
            if (faulty.doubles()) {
                out.add(record);
            }
        }
        unflushed = true;
        return OK;
    }

    @Override
    public int flush() {
        preempt();
        if (unflushed) {
            unflushed = false;
            ringIfParked();
        }
        return failure != null ? DEAD : OK;
    }

    /// Wakes the other side if it sleeps: it is the reader of `out`.
    private void ringIfParked() {
        if (out.parked) {
            out.parked = false;
            Scheduler scheduler = process.scheduler();
            StreamEnd other = end.stream().end(1 - end.side());
            scheduler.in(scheduler.random.nextInt(BELL_NANOS), other::ringLane);
        }
    }

    @Override
    public void releaseOutbound(Object owner) {
        // send() copies the payload at once.
    }

    @Override
    public int poll(Receiver receiver, int limit) {
        preempt();
        if (failure != null) {
            return DEAD;
        }
        String lost = lost();
        int frames = 0;
        byte[] record;
        while (frames < limit && (record = lost == null ? in.peek() : in.any()) != null) {
            if (!take(record, receiver)) {
                failure = "the peer sent a frame header that makes no sense";
                return frames > 0 ? frames : DEAD;
            }
            frames++;
        }
        preempt();
        if (in.waiting && (frames < limit || frames > 0)) {
            announceSpace();
        }
        if (frames == 0) {
            if (unannounced) {
                unannounced = false;
                ringIfParked();
            }
            if (lost != null) {
                failure = lost;
                return DEAD;
            }
        }
        return frames;
    }

    private boolean take(byte[] record, Receiver receiver) {
        MemorySegment whole = MemorySegment.ofArray(record);
        int length = Frame.length(whole, 0);
        placement.discard();
        if (!receiver.begin(whole, 0, placement)) {
            return false;
        }
        preempt();
        if (length > 0 && placement.mode() == Placement.Mode.INTO) {
            try {
                MemorySegment.copy(whole, HEADER, placement.segment(), placement.offset(), length);
            } catch (IllegalStateException e) {
                Object owner = placement.owner();
                if (owner != null) {
                    boolean unused = placement.revoke(owner);
                }
            }
        }
        in.remove();
        SimTransport.log(process, "takes", whole, 0, end.stream());
        receiver.end(whole, 0, whole, HEADER, placement);
        faulty.scribble(placement);
        return true;
    }

    private void announceSpace() {
        in.waiting = false;
        unannounced = false;
        ringIfParked();
    }

    @Override
    public void discardInbound(Object owner) {
        // A frame begins and ends within one call of poll().
    }

    @Override
    public boolean confirmsNatively() {
        return true;
    }

    @Override
    public void confirm(long sequence) {
        in.applied = sequence;
        unannounced = true;
        preempt();
    }

    @Override
    public long confirmed() {
        preempt();
        seenConfirmed = faulty.confirmsEarly() ? Math.max(accepted, out.applied) : out.applied;
        return seenConfirmed;
    }

    @Override
    public int descriptor() {
        return descriptor;
    }

    @Override
    public boolean wantsWrite() {
        return false;
    }

    @Override
    public boolean park() {
        preempt();
        if (failure != null) {
            return false;
        }
        in.parked = true;
        if (wanted != 0) {
            out.waiting = true;
        }
        if (unannounced || in.waiting) {
            announceSpace();
        }
        if (in.isEmpty()
                && out.applied == seenConfirmed
                && lost() == null
                && !(wanted != 0 && out.hasRoom(wanted))) {
            return true;
        }
        in.parked = false;
        return false;
    }

    @Override
    public void unpark() {
        in.parked = false;
        bell = false;
    }

    @Override
    public long silence() {
        return 0;
    }

    @Override
    public @Nullable String failure() {
        return failure != null ? failure : lost();
    }

    @Override
    public void close() {
        if (failure == null) {
            failure = "closed";
        }
        process.close(descriptor);
        end.close();
    }
}

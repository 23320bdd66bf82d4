package io.telpher.internal.transport.verbs;

import static java.lang.foreign.ValueLayout.JAVA_LONG;

import io.telpher.internal.ffi.linux.Errno;
import io.telpher.internal.ffi.verbs.ReceiveRequest;
import io.telpher.internal.ffi.verbs.WorkCompletion;
import io.telpher.internal.memory.Raw;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/// The receiving half of a lane, under the poll token: takes completions, of this side's own
/// requests too, and the records that the peer has written. Nothing in the ring is trusted: its
/// owner counts where records begin, and copies what it looks at.
final class RingInput {
    /// Completions that are taken in one call.
    private static final int BATCH = 32;

    /// Receive requests are posted again when so many are missing.
    private static final int LATE = 32;

    private final QueuePair queuePair;
    private final Arena arena;
    private final RingOutput output;
    private final MemorySegment ring;
    private final long completions;
    private final long receives;

    /// A private copy of the header that is being looked at.
    private final long header;

    private final Placement placement = new Placement();

    /// Where payloads are collected that the engine looks at; allocated with the first of them.
    private MemorySegment buffer = MemorySegment.NULL;

    // Completions that were taken and not handled.
    private int next;
    private int taken;

    /// Where the next record starts.
    private long head;

    /// Up to where receive requests were posted again.
    private long granted;

    /// Receive requests that are missing.
    private int missing;

    /// @param output the other half
    /// @param ring memory of [Ring#BYTES]
    RingInput(QueuePair queuePair, Arena arena, RingOutput output, MemorySegment ring) {
        this.queuePair = queuePair;
        this.arena = arena;
        this.output = output;
        this.ring = ring;
        this.completions = arena.allocate((long) WorkCompletion.BYTES * BATCH, 64).address();
        this.receives = receives(arena, LATE);
        this.header = arena.allocate(Lane.HEADER, 64).address();
    }

    /// A list of receive requests without memory: what comes is written where its sender says.
    private static long receives(Arena arena, int count) {
        long list = arena.allocate((long) ReceiveRequest.BYTES * count, 64).address();
        for (int i = 0; i < count; i++) {
            long rr = list + (long) ReceiveRequest.BYTES * i;
            ReceiveRequest.set(rr, 0, i + 1 < count ? rr + ReceiveRequest.BYTES : 0, 0, 0);
        }
        return list;
    }

    /// Posts receive requests to a queue pair that no lane has yet: all of them before the peer can
    /// send anything.
    ///
    /// @return 0 or an errno
    static int post(QueuePair queuePair, int count) {
        try (Arena arena = Arena.ofConfined()) {
            return queuePair.postReceive(receives(arena, count));
        }
    }

    /// Takes in what has arrived.
    ///
    /// @return how many frames ended, or [Lane#DEAD]
    int poll(Receiver receiver, int limit) {
        int frames = 0;
        boolean handled = false;
        while (frames < limit && queuePair.failure() == null) {
            if (next == taken && !fill()) {
                break;
            }
            handled = true;
            frames += handle(completions + (long) WorkCompletion.BYTES * next++, receiver);
            if (missing == LATE) {
                makeReady();
            }
        }
        if (handled && queuePair.failure() == null) {
            makeReady();
        }
        return frames == 0 && queuePair.failure() != null ? Lane.DEAD : frames;
    }

    /// Takes completions, to be handled later.
    ///
    /// @return whether there are some
    boolean fill() {
        if (next < taken) {
            return true;
        }
        next = 0;
        taken = 0;
        int n = queuePair.poll(BATCH, completions);
        if (n < 0) {
            queuePair.fail("ibv_poll_cq failed: " + Errno.describe(n));
            return false;
        }
        taken = n;
        return n > 0;
    }

    /// @return how many frames ended: 0 or 1
    private int handle(long wc, Receiver receiver) {
        int status = WorkCompletion.status(wc);
        if (status != WorkCompletion.IBV_WC_SUCCESS) {
            queuePair.fail(
                    "%s (status %d, vendor's error %d)"
                            .formatted(
                                    WorkCompletion.text(status),
                                    status,
                                    WorkCompletion.vendorError(wc)));
            return 0;
        }
        int opcode = WorkCompletion.opcode(wc);
        if ((opcode & WorkCompletion.IBV_WC_RECV) == 0) {
            output.completed(WorkCompletion.id(wc));
            return 0;
        }
        if (opcode != WorkCompletion.IBV_WC_RECV_RDMA_WITH_IMM) {
            queuePair.fail(
                    "protocol: the peer sent a message (opcode %d) and no record"
                            .formatted(opcode));
            return 0;
        }
        missing++;
        int immediate = WorkCompletion.immediate(wc);
        output.credited(immediate);
        return Ring.isRecord(immediate)
                        && take(
                                Ring.isAtStart(immediate) ? Ring.nextLap(head) : head,
                                WorkCompletion.length(wc),
                                receiver)
                ? 1
                : 0;
    }

    /// Takes in one record.
    ///
    /// @return false when it makes no sense: the lane is dead
    private boolean take(long position, int bytes, Receiver receiver) {
        int length = bytes - Lane.HEADER;
        int at = Ring.at(position);
        if (length < 0 || length > Ring.MAX_PAYLOAD || at + Ring.room(bytes) > Ring.BYTES) {
            queuePair.fail("protocol: the peer wrote a record of %d bytes".formatted(bytes));
            return false;
        }
        for (int i = 0; i < Lane.HEADER; i += 8) {
            Raw.ALL.set(JAVA_LONG, header + i, ring.get(JAVA_LONG, at + (long) i));
        }
        placement.discard();
        if (Frame.length(Raw.ALL, header) != length
                || !receiver.begin(Raw.ALL, header, placement)) {
            queuePair.fail("protocol: the peer sent a frame header that makes no sense");
            return false;
        }
        if (length > 0) {
            switch (placement.mode()) {
                case INTO -> copyInto(at + Lane.HEADER, length);
                case BUFFER -> {
                    if (buffer.byteSize() == 0) {
                        buffer = arena.allocate(Ring.MAX_PAYLOAD, 64);
                    }
                    MemorySegment.copy(ring, at + Lane.HEADER, buffer, 0, length);
                }
                case DISCARD -> {}
            }
        }
        head = position + Ring.room(bytes);
        receiver.end(Raw.ALL, header, buffer, 0, placement);
        return true;
    }

    /// Copies to the destination; one that the program has closed costs its own transfer, not the
    /// lane.
    private void copyInto(long at, int length) {
        try {
            MemorySegment.copy(ring, at, placement.segment(), placement.offset(), length);
        } catch (IllegalStateException | WrongThreadException e) {
            Object owner = placement.owner();
            if (owner != null) {
                boolean unused = placement.revoke(owner);
            }
        }
    }

    /// Posts receive requests again, and gives credit for what they are for: in this order.
    private void makeReady() {
        if (missing == LATE || head - granted >= Ring.TELL) {
            if (!postMissing()) {
                return;
            }
            granted = head;
            output.grant(head);
        }
        output.tell();
    }

    private boolean postMissing() {
        if (missing == 0) {
            return true;
        }
        long last = receives + (long) ReceiveRequest.BYTES * (missing - 1);
        ReceiveRequest.set(last, 0, 0, 0, 0);
        int error = queuePair.postReceive(receives);
        if (missing < LATE) {
            ReceiveRequest.set(last, 0, last + ReceiveRequest.BYTES, 0, 0);
        }
        missing = 0;
        if (error != 0) {
            queuePair.fail("ibv_post_recv failed: " + Errno.describe(error));
        }
        return error == 0;
    }
}

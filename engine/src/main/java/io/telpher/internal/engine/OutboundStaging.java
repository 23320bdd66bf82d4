package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.memory.Raw;
import io.telpher.spi.Lane;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// Frames of one lane whose payload a GPU copies into page-locked memory while others travel. See
/// docs/gpu.md.
///
/// Guarded by the lane's send token; what looks at operations needs the connection's lock besides.
/// Copies are started and end without the lock.
final class OutboundStaging {
    private final ConnectionCore connection;
    private final LaneState lane;
    private final Arena arena;
    private final StagingSetup setup;

    /// Cut, in the order in which they go out.
    private final ArrayDeque<StagedFrame> cut = new ArrayDeque<>(0);

    /// Those of them whose copy has not been started.
    private final ArrayDeque<StagedFrame> fresh = new ArrayDeque<>(0);

    /// Sent from memory that the far side reads: until they are confirmed.
    private final ArrayDeque<StagedFrame> unconfirmed = new ArrayDeque<>(0);

    private final ArrayDeque<StagedFrame> pool = new ArrayDeque<>(0);

    /// The frame that is encoded, and the one that the lane may still be reading.
    private @Nullable StagedFrame encoded;

    private @Nullable StagedFrame carried;

    /// How many of them are of operations of high priority.
    private int high;

    /// A hint, for those without the token: frames wait to be sent.
    private volatile boolean waiting;

    OutboundStaging(ConnectionCore connection, LaneState lane, Arena arena) {
        this.connection = connection;
        this.lane = lane;
        this.arena = arena;
        this.setup = new StagingSetup(connection, lane, lane.sendToken, this::make);
    }

    private StagingMemory make(Gpu gpu) {
        Gpu.Staging wanted = gpu.staging();
        MemorySegment shared =
                lane.lane.share(
                        (long) wanted.bytes() * wanted.buffers(),
                        connection.platform.in(StagingSetup.LIMIT));
        return shared != null
                ? StagingMemory.of(gpu, shared, wanted.bytes())
                : StagingMemory.allocate(
                        gpu, Math.min(wanted.bytes(), lane.lane.maxPayload()), wanted.buffers());
    }

    // --- cutting; under the lock ----------------------------------------------------------------

    /// Whether the next frame of an operation is to be staged.
    boolean takes(Operation op) {
        Device by = op.kind == Operation.Kind.READ ? null : op.deviceAt(op.sent);
        return by != null && setup.memory(by) != null;
    }

    boolean hasRoom() {
        StagingMemory memory = setup.known();
        if (memory == null) {
            return false;
        }
        for (StagedFrame first = unconfirmed.peek();
                first != null && first.sequence <= lane.acked;
                first = unconfirmed.peek()) {
            unconfirmed.remove();
            recycle(first);
        }
        return memory.free() > 0;
    }

    /// Takes a buffer for the next frame of an operation; there is room.
    StagedFrame claim(Operation op) {
        StagingMemory memory = setup.known();
        Device by = op.deviceAt(op.sent);
        if (memory == null || by == null) {
            throw new IllegalStateException("nothing to stage");
        }
        StagedFrame frame = pool.poll();
        if (frame == null) {
            frame = new StagedFrame(arena.allocate(Lane.HEADER, Lane.HEADER).address());
        }
        frame.number = memory.take();
        frame.buffer = memory.buffer(frame.number);
        frame.op = op;
        frame.by = by;
        frame.bytes = 0;
        frame.full = false;
        return frame;
    }

    /// The frame was not cut after all.
    void abandon(StagedFrame frame) {
        recycle(frame);
    }

    /// Puts the frame that was just encoded for the lane aside, until its payload is there.
    void keep(StagedFrame frame, Operation op, long offset, long length) {
        MemorySegment.copy(Raw.ALL, lane.header, Raw.ALL, frame.header, Lane.HEADER);
        frame.offset = offset;
        frame.length = (int) length;
        frame.payload = lane.payloadLength;
        frame.full = frame.bytes == 0;
        lane.bytesInFlight += length; // what waits here is not left to faster lanes
        op.unconfirmed++;
        cut.add(frame);
        high += op.high ? 1 : 0;
        waiting = true;
        if (!frame.full) {
            op.copies++;
            fresh.add(frame);
        }
    }

    /// Whether frames of high priority wait.
    boolean isHigh() {
        return high > 0;
    }

    /// Encodes the next frame whose payload is there.
    ///
    /// @return whether there was one
    boolean next() {
        StagedFrame frame;
        while ((frame = cut.peek()) != null && frame.full) {
            Operation op = frame.op();
            cut.remove();
            high -= op.high ? 1 : 0;
            waiting = !cut.isEmpty();
            lane.bytesInFlight -= frame.length;
            if (!op.isPending()) {
                connection.outbound.resending.dropped(
                        op, LaneState.Sent.DATA, frame.offset, frame.length);
                op.unconfirmed--;
                connection.reports.confirmed(op, LaneState.Sent.DATA, 0);
                recycle(frame);
                continue;
            }
            MemorySegment.copy(Raw.ALL, frame.header, Raw.ALL, lane.header, Lane.HEADER);
            lane.payload = frame.buffer;
            lane.payloadOffset = 0;
            lane.payloadLength = frame.payload;
            lane.payloadOwner = null;
            lane.remember(LaneState.Sent.DATA, op, frame.offset, frame.length);
            frame.sequence = lane.sent;
            encoded = frame;
            return true;
        }
        return false;
    }

    /// The lane ends: what was not sent goes out over others. All copies that were started have
    /// ended.
    void takeBack() {
        StagedFrame frame;
        while ((frame = fresh.poll()) != null) {
            frame.op().copies--;
        }
        while ((frame = cut.poll()) != null) {
            lane.bytesInFlight -= frame.length;
            connection.outbound.resending.add(frame.op(), frame.offset, frame.length);
        }
        high = 0;
        waiting = false;
    }

    // --- sending; without the lock --------------------------------------------------------------

    /// A hint: frames wait that have been cut.
    boolean isWaiting() {
        return waiting;
    }

    /// Starts the copies of what was cut.
    void start() {
        StagedFrame frame = fresh.poll();
        if (frame == null) {
            return;
        }
        do {
            frame.start();
            frame = fresh.poll();
        } while (frame != null);
        connection.devices.attend();
    }

    /// The lane has taken the encoded frame, and read the one before.
    void taken() {
        StagedFrame frame = encoded;
        StagingMemory memory = setup.known();
        if (frame == null || memory == null) {
            letGo();
            return;
        }
        encoded = null;
        if (memory.isShared()) {
            unconfirmed.add(frame);
        } else {
            letGo();
            carried = frame;
        }
    }

    /// The lane has read everything that it took.
    void letGo() {
        StagedFrame read = carried;
        if (read != null) {
            carried = null;
            recycle(read);
        }
    }

    private void recycle(StagedFrame frame) {
        StagingMemory memory = setup.known();
        if (memory != null) {
            memory.give(frame.number);
        }
        pool.add(frame);
    }

    /// The lane is closed, and no copy is under way. Under both tokens.
    void close() {
        setup.close();
    }

    /// A frame of this lane, and the copy that fills its payload.
    final class StagedFrame extends DeviceQueues.Job {
        private final long header;
        private int number;
        private MemorySegment buffer = MemorySegment.NULL;
        private @Nullable Operation op;
        private @Nullable Device by;

        /// What it was cut from: a range of the operation's stream.
        private long offset;

        private int length;

        /// What is copied: from where in the stream, to where in the buffer, how much.
        private long from;

        private int at;
        private long bytes;

        /// Bytes of the frame's payload.
        private int payload;

        /// Number of the lane's frame, once it is sent.
        private long sequence;

        /// The payload is there, or never will be.
        private volatile boolean full;

        private StagedFrame(long header) {
            super(connection.devices);
            this.header = header;
        }

        /// @return where the payload goes; the engine may write what does not come from the GPU
        MemorySegment buffer() {
            return buffer;
        }

        int room() {
            return (int) buffer.byteSize();
        }

        private Operation op() {
            return Objects.requireNonNull(op, "no operation");
        }

        private Device by() {
            return Objects.requireNonNull(by, "no device");
        }

        /// @return how many bytes from a position of the stream on the GPU may copy
        long most(long position, long limit) {
            return op().onDevice(by(), position, Math.min(limit, room()));
        }

        /// A range of the operation's stream is to be copied into the buffer.
        void fill(long position, int where, long count) {
            from = position;
            at = where;
            bytes = count;
        }

        private void start() {
            lane.copies.incrementAndGet();
            connection.devices.begun();
            try {
                CopyQueue queue = connection.devices.of(by());
                StagingCopies.add(
                        queue,
                        by(),
                        op(),
                        from,
                        bytes,
                        buffer.address() + at,
                        StagingCopies.Direction.OUT,
                        this);
            } catch (RuntimeException e) {
                ended(String.valueOf(e.getMessage()));
            }
        }

        @Override
        void leave() {}

        @Override
        void takeUp() {
            String why = failure;
            Operation of = op();
            connection.lock.lock();
            try {
                of.copies--;
                if (why != null) {
                    connection.endings.revokeLater(
                            of, Connection.FAILED, "path %s: %s".formatted(lane.lane.path(), why));
                }
                connection.endings.tryFinish(of, connection.isOver());
                full = true;
                connection.outbound.touch();
            } finally {
                connection.lock.unlock();
            }
            connection.keeper.copied(lane);
        }
    }
}

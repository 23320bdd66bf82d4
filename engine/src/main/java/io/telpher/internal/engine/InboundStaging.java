package io.telpher.internal.engine;

import io.telpher.Connection;
import io.telpher.Device;
import io.telpher.internal.device.CopyQueue;
import io.telpher.internal.device.Gpu;
import io.telpher.internal.memory.Raw;
import io.telpher.internal.observe.Log;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.Objects;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/// Frames of one lane whose payload a GPU copies to its place while others come in. See
/// docs/gpu.md.
///
/// Guarded by the lane's poll token.
final class InboundStaging {
    /// Most frames whose copies are under way, from memory that the far side shares.
    private static final int MOST = 64;

    private final ConnectionCore connection;
    private final LaneState lane;
    private final Arena arena;
    private final StagingSetup own;

    /// Memory that the lane shares with its far side, page-locked here too.
    private final StagingSetup lent;

    private @Nullable MemorySegment lentMemory;

    /// In the order of the lane.
    private final ArrayDeque<Landing> landings = new ArrayDeque<>(0);

    private final ArrayDeque<Landing> pool = new ArrayDeque<>(0);

    /// For the frame that is coming in: the GPU that copies, and the buffer or -1.
    private @Nullable Device by;

    private int buffer = -1;

    InboundStaging(ConnectionCore connection, LaneState lane, Arena arena) {
        this.connection = connection;
        this.lane = lane;
        this.arena = arena;
        this.own = new StagingSetup(connection, lane, lane.pollToken, this::makeOwn);
        this.lent = new StagingSetup(connection, lane, lane.pollToken, this::makeLent);
    }

    private StagingMemory makeOwn(Gpu gpu) {
        Gpu.Staging wanted = gpu.staging();
        int bytes = lane.lane.maxPayload();
        long count = Math.max(2, (long) wanted.bytes() * wanted.buffers() / bytes);
        return StagingMemory.allocate(gpu, bytes, (int) Math.min(count, MOST));
    }

    private StagingMemory makeLent(Gpu gpu) {
        MemorySegment memory = lentMemory;
        if (memory == null) {
            throw new IllegalStateException("nothing was lent");
        }
        return StagingMemory.of(gpu, memory, (int) memory.byteSize());
    }

    /// @return how many frames may come in now, so that each finds a buffer
    int room(int limit) {
        int most = Math.min(limit, MOST - landings.size());
        StagingMemory memory = own.known();
        return memory == null ? most : Math.min(most, memory.free() + (buffer < 0 ? 0 : 1));
    }

    /// Says where a payload goes that is for a GPU's memory.
    ///
    /// @param target whose memory it is
    /// @param owner as [Placement#into] wants it
    /// @return false when it has to be collected, and copied by waiting
    boolean place(Placement placement, Device target, Object owner, int length) {
        MemorySegment shared = placement.lent();
        if (shared != null) {
            lentMemory = shared;
            StagingMemory memory = lent.memory(target);
            if (memory == null || !memory.isOf(shared)) {
                return false;
            }
            placement.keep(owner);
            by = target;
            return true;
        }
        StagingMemory memory = own.memory(target);
        int taken = memory == null || length > memory.bytes() ? -1 : memory.take();
        if (memory == null || taken < 0) {
            return false;
        }
        placement.into(memory.buffer(taken), 0, owner);
        by = target;
        buffer = taken;
        return true;
    }

    /// @return whether the payload of the frame that is coming in waits for a GPU
    boolean isPlaced() {
        return by != null;
    }

    /// The frame that was placed does not come, or is refused.
    void abandon() {
        give(buffer);
        buffer = -1;
        by = null;
    }

    private void give(int number) {
        StagingMemory memory = own.known();
        if (number >= 0 && memory != null) {
            memory.give(number);
        }
    }

    /// Starts the copy of a payload into a region.
    ///
    /// @return 0, or why the frame is refused
    int land(
            MemorySegment h,
            long at,
            MemorySegment p,
            long pAt,
            int length,
            RegionImpl region,
            long offset) {
        if (!region.enter()) {
            abandon();
            return Connection.STALE;
        }
        Landing landing = take(h, at, p, pAt, length);
        landing.region = region;
        landing.start(offset);
        return 0;
    }

    /// @return the buffer in which the payload of the frame that has come lies
    MemorySegment payload() {
        StagingMemory memory = own.known();
        if (buffer < 0 || memory == null) {
            throw new IllegalStateException("nothing was placed");
        }
        return memory.buffer(buffer);
    }

    /// Starts the copies of pieces into a region, if all of them may be.
    ///
    /// @param pieces in [#payload], at the first
    /// @return 0, or why the frame is refused
    int land(MemorySegment h, long at, int length, RegionImpl region, Scatter pieces) {
        int count = 0;
        while (pieces.next()) {
            count++;
        }
        if (pieces.reason != 0) {
            return pieces.reason;
        }
        if (!region.enter()) {
            return Connection.STALE;
        }
        MemorySegment payload = payload();
        Landing landing = take(h, at, payload, 0, length);
        landing.region = region;
        pieces.start(
                payload,
                0,
                length,
                Frame.count(h, at),
                (Frame.flags(h, at) & Frame.STRIDED) != 0,
                region.size());
        landing.start(pieces, count);
        return 0;
    }

    /// Starts the copy of a payload into an operation's memory. Under the lock, so that the
    /// operation knows; the copy itself is started by [#start].
    void land(MemorySegment h, long at, MemorySegment p, long pAt, int length, Operation op) {
        Landing landing = take(h, at, p, pAt, length);
        landing.op = op;
        op.copies++;
    }

    /// Starts the copy of the last landing. Without the lock.
    void start(long position) {
        landings.getLast().start(position);
    }

    private Landing take(MemorySegment h, long at, MemorySegment p, long pAt, int length) {
        StagingMemory memory = own.known();
        Device device = by;
        if (device == null) {
            throw new IllegalStateException("nothing was placed");
        }
        Landing landing = pool.poll();
        if (landing == null) {
            landing = new Landing(arena.allocate(Lane.HEADER, Lane.HEADER).address());
        }
        MemorySegment.copy(h, at, Raw.ALL, landing.header, Lane.HEADER);
        landing.device = device;
        landing.number = buffer;
        landing.from =
                buffer < 0 || memory == null ? p.address() + pAt : memory.buffer(buffer).address();
        landing.bytes = length;
        landing.sequence = lane.sequence;
        landing.over = false;
        landing.region = null;
        landing.op = null;
        by = null;
        buffer = -1;
        landings.add(landing);
        return landing;
    }

    /// @return how many sequenced frames of the lane count as received, when so many have come
    long applied(long arrived) {
        Landing first = landings.peek();
        return first == null ? arrived : first.sequence - 1;
    }

    /// Takes the first landing out, if its copy has ended.
    @Nullable Landing poll() {
        Landing first = landings.peek();
        return first != null && first.over ? landings.poll() : null;
    }

    /// A landing from [#poll] has been dealt with.
    void recycle(Landing landing) {
        give(landing.number);
        pool.add(landing);
    }

    /// The lane is closed, and no copy is under way.
    void close() {
        abandon();
        own.close();
        lent.close();
    }

    /// A frame whose payload is being copied.
    final class Landing extends DeviceQueues.Job {
        /// Its header, in the engine's memory.
        final long header;

        private @Nullable RegionImpl region;
        private @Nullable Operation op;
        private @Nullable Device device;
        private int number = -1;
        private long from;
        private int bytes;
        private long sequence;

        /// The copy has ended.
        private boolean over;

        private Landing(long header) {
            super(connection.devices);
            this.header = header;
        }

        long sequence() {
            return sequence;
        }

        int length() {
            return bytes;
        }

        /// @return the operation that its bytes are for, or null
        @Nullable Operation op() {
            return op;
        }

        private void start(long at) {
            start(
                    (queue, target) -> {
                        Operation of = op;
                        RegionImpl into = region;
                        if (of != null) {
                            StagingCopies.add(
                                    queue,
                                    target,
                                    of,
                                    at,
                                    bytes,
                                    from,
                                    StagingCopies.Direction.IN,
                                    this);
                        } else if (into != null) {
                            long to = into.address(target) + at;
                            StagingCopies.add(
                                    queue, 1, bytes, () -> queue.copy(to, from, bytes), this);
                        }
                    });
        }

        private void start(Scatter pieces, int count) {
            start(
                    (queue, target) -> {
                        RegionImpl into = Objects.requireNonNull(region);
                        long there = into.address(target);
                        StagingCopies.add(
                                queue,
                                count,
                                pieces.total(),
                                () -> {
                                    while (pieces.next()) {
                                        queue.copy(
                                                there + pieces.to,
                                                from + pieces.from,
                                                pieces.bytes);
                                    }
                                },
                                this);
                    });
        }

        private void start(BiConsumer<CopyQueue, Device> adding) {
            lane.copies.incrementAndGet();
            connection.devices.begun();
            try {
                Device target = Objects.requireNonNull(device);
                adding.accept(connection.devices.of(target), target);
            } catch (RuntimeException e) {
                ended(String.valueOf(e.getMessage()));
            }
            connection.devices.attend();
        }

        /// Whoever closes the region waits for its users, and needs not to wait for a turn of this
        /// connection.
        @Override
        void leave() {
            RegionImpl into = region;
            if (into != null) {
                into.exit();
            }
        }

        @Override
        void takeUp() {
            String why = failure;
            // Before anything that can fail: the connection is buried when nothing is copied.
            Operation of = op;
            if (of != null) {
                connection.lock.lock();
                try {
                    of.copies--;
                } finally {
                    connection.lock.unlock();
                }
            }
            if (why != null) {
                Log.warning(
                        "%s: %d bytes of the peer could not be copied to %s: %s"
                                .formatted(lane.name(), bytes, device, why),
                        null);
            }
            if (of != null) {
                connection.lock.lock();
                try {
                    if (why != null) {
                        connection.endings.revokeLater(
                                of,
                                Connection.FAILED,
                                "path %s: %s".formatted(lane.lane.path(), why));
                    }
                    connection.endings.tryFinish(of, connection.isOver());
                } finally {
                    connection.lock.unlock();
                }
            }
            lane.pollToken.take();
            try {
                over = true;
                connection.keeper.landed(lane);
            } finally {
                lane.pollToken.giveBack();
            }
            connection.keeper.copied(lane);
        }
    }
}

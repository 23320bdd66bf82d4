package io.telpher.internal.engine;

import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;

import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import io.telpher.spi.Placement;
import io.telpher.spi.Receiver;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;

/// A lane whose frames carry a CRC32C of header and payload; around any other lane, when both ends
/// agreed on it in the handshake.
///
/// The checksum takes the upper half of the header's `confirm` field. The lower half is enough for
/// that number: it never runs ahead by more than the window of unconfirmed frames.
///
/// Nothing of a frame is believed, and nothing of it reaches its destination, before its checksum
/// was found right: payloads are collected in the lane's own memory first. On the way out they are
/// copied first too, since a checksum of memory that its owner still changes would be wrong. So
/// this lane never holds on to anybody's memory between two calls. A frame that is not what was
/// sent ends the lane, as every frame does that makes no sense.
final class CheckedLane implements Lane {
    private static final ValueLayout.OfInt INT =
            JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final long CHECKSUM = Frame.CONFIRM + 4;
    private static final int LEAST_ROOM = 4096;

    private final Lane lane;
    private final Arena arena = Arena.ofAuto();

    // Guarded by the send token.
    private final MemorySegment outHeader = arena.allocate(HEADER, HEADER);
    private final Sum outSum = new Sum(outHeader);

    /// Payloads on their way out, in turn: while the lane reads one it takes no other, but the
    /// next may be offered to it.
    private Room staging = Room.NONE;

    private Room otherStaging = Room.NONE;

    // Guarded by the poll token.
    private final MemorySegment inHeader = arena.allocate(HEADER, HEADER);
    private final Sum inSum = new Sum(inHeader);
    private @Nullable Checker checker;

    /// Where the lane below collects payloads.
    private Room collected = Room.NONE;

    private final Placement placement = new Placement();
    private long lastConfirm;

    /// Who reads it without the token may see an older number.
    private long mismatches;

    private volatile @Nullable String failure;

    CheckedLane(Lane lane) {
        this.lane = lane;
    }

    /// Payloads, in the two forms that copies and checksums want: views are made once.
    private record Room(MemorySegment memory, ByteBuffer bytes) {
        static final Room NONE = new Room(MemorySegment.NULL);

        Room(MemorySegment memory) {
            this(memory, memory.asByteBuffer());
        }
    }

    /// The CRC32C of a header, always the same memory, and a payload.
    private static final class Sum {
        private final CRC32C crc = new CRC32C();
        private final ByteBuffer header;

        Sum(MemorySegment header) {
            this.header = header.asByteBuffer();
        }

        int of(Room payload, int at, int length) {
            crc.reset();
            crc.update(header.clear());
            crc.update(payload.bytes.clear().position(at).limit(at + length));
            return (int) crc.getValue();
        }
    }

    /// @return how many frames were not what had been sent
    long mismatches() {
        return mismatches;
    }

    @Override
    public String path() {
        return lane.path();
    }

    @Override
    public String text() {
        return lane.text() + ", checked by CRC32C";
    }

    @Override
    public int maxPayload() {
        return lane.maxPayload();
    }

    @Override
    public int send(
            MemorySegment header,
            long at,
            MemorySegment payload,
            long offset,
            int length,
            @Nullable Object owner) {
        if (failure != null) {
            return DEAD;
        }
        MemorySegment.copy(header, at, outHeader, 0, HEADER);
        outHeader.set(INT, CHECKSUM, 0);
        if (length > 0) {
            if (staging.memory.byteSize() < length) {
                staging = new Room(arena.allocate(room(length), 64));
            }
            MemorySegment.copy(payload, offset, staging.memory, 0, length);
        }
        outHeader.set(INT, CHECKSUM, outSum.of(staging, 0, length));
        int result = lane.send(outHeader, 0, staging.memory, 0, length, null);
        if (result == OK && length > 0) {
            Room taken = staging;
            staging = otherStaging;
            otherStaging = taken;
        }
        return result;
    }

    /// Doubles, so that a lane with small frames stays small.
    private int room(int length) {
        int most = lane.maxPayload();
        int room = Math.max(LEAST_ROOM, Integer.highestOneBit(Math.max(1, length - 1)) << 1);
        return Math.max(length, Math.min(room, most));
    }

    @Override
    public int flush() {
        return failure != null ? DEAD : lane.flush();
    }

    @Override
    public boolean isDrained() {
        return lane.isDrained();
    }

    @Override
    public void releaseOutbound(Object owner) {
        // What is sent was copied.
    }

    @Override
    public int poll(Receiver receiver, int limit) {
        if (failure != null) {
            return DEAD;
        }
        Checker checker = this.checker;
        if (checker == null || checker.receiver != receiver) {
            checker = new Checker(receiver);
            this.checker = checker;
        }
        checker.good = 0;
        int frames = lane.poll(checker, limit);
        if (failure == null) {
            return frames;
        }
        return checker.good > 0 ? checker.good : DEAD;
    }

    /// Takes the frames of the lane below, and hands on those that are right.
    private final class Checker implements Receiver {
        private final Receiver receiver;
        private int good;

        Checker(Receiver receiver) {
            this.receiver = receiver;
        }

        @Override
        public boolean begin(MemorySegment header, long at, Placement below) {
            below.buffer();
            return failure == null;
        }

        @Override
        public void end(
                MemorySegment header,
                long at,
                MemorySegment payload,
                long payloadAt,
                Placement below) {
            int length = Frame.length(header, at);
            MemorySegment.copy(header, at, inHeader, 0, HEADER);
            int sum = inHeader.get(INT, CHECKSUM);
            inHeader.set(INT, CHECKSUM, 0);
            if (length > 0 && !payload.equals(collected.memory)) {
                collected = new Room(payload);
            }
            int found = inSum.of(collected, length > 0 ? (int) payloadAt : 0, length);
            if (found != sum) {
                mismatches++;
                failure =
                        "%s: a frame of %d bytes of payload came with the CRC32C %08x, but has %08x"
                                .formatted(lane.text(), length, sum, found);
                return;
            }
            int confirm = inHeader.get(INT, Frame.CONFIRM);
            lastConfirm += confirm - (int) lastConfirm;
            Frame.set(inHeader, 0, Frame.CONFIRM, lastConfirm);
            placement.discard();
            if (!receiver.begin(inHeader, 0, placement)) {
                failure = lane.text() + ": the peer sent a frame header that makes no sense";
                return;
            }
            if (length > 0 && placement.mode() == Placement.Mode.INTO) {
                place(payload, payloadAt, length);
            }
            receiver.end(inHeader, 0, payload, payloadAt, placement);
            good++;
        }

        /// A destination that its owner has closed costs its own transfer, not the lane.
        private void place(MemorySegment payload, long at, int length) {
            try {
                MemorySegment.copy(payload, at, placement.segment(), placement.offset(), length);
            } catch (IllegalStateException | WrongThreadException e) {
                Object owner = placement.owner();
                if (owner != null) {
                    boolean unused = placement.revoke(owner);
                }
            }
        }
    }

    @Override
    public void discardInbound(Object owner) {
        // A frame reaches its destination within one call of poll().
    }

    @Override
    public boolean confirmsNatively() {
        return lane.confirmsNatively();
    }

    @Override
    public void confirm(long sequence) {
        lane.confirm(sequence);
    }

    @Override
    public long confirmed() {
        return lane.confirmed();
    }

    @Override
    public int descriptor() {
        return lane.descriptor();
    }

    @Override
    public boolean wantsWrite() {
        return lane.wantsWrite();
    }

    @Override
    public boolean park() {
        return failure == null && lane.park();
    }

    @Override
    public void unpark() {
        lane.unpark();
    }

    @Override
    public long silence() {
        return lane.silence();
    }

    @Override
    public long patience() {
        return lane.patience();
    }

    @Override
    public long roundTripNanos() {
        return lane.roundTripNanos();
    }

    @Override
    public @Nullable String failure() {
        return failure != null ? failure : lane.failure();
    }

    @Override
    public void close() {
        lane.close();
    }
}

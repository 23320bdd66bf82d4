package io.telpher.internal.transport.verbs;

import io.telpher.spi.Lane;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.jspecify.annotations.Nullable;

/// What the two sides of a link say to each other over its control stream: frames whose payload, if
/// any, is the reason of a refusal. See `docs/rdma.md`.
sealed interface ControlMessage {
    /// Pieces of a region whose keys one message can name.
    int MOST_PIECES = 4;

    /// Bytes of a reason.
    int MOST_REASON = 512;

    /// What a region's owner answers, and a queue pair's target.
    enum Status {
        GOOD,
        STALE,
        DENIED,
        /// The reason names what failed.
        FAILED;

        private static Status of(int code) {
            Status[] all = values();
            return code >= 0 && code < all.length ? all[code] : FAILED;
        }
    }

    /// Asks where a region is and by which keys it is reached.
    record Resolve(long id, int region, int generation, long key) implements ControlMessage {}

    /// Answers [Resolve].
    ///
    /// @param access bit 0: may be read, bit 1: may be written
    /// @param pieceBytes bytes that one key covers
    /// @param keys one for each piece
    @SuppressWarnings("ArrayRecordComponent") // comes from a message, goes into one
    record Resolved(
            long id,
            Status status,
            int access,
            long address,
            long size,
            long pieceBytes,
            int[] keys,
            String reason)
            implements ControlMessage {
        /// An answer that nothing comes of.
        static Resolved refusal(long id, Status status, String reason) {
            return new Resolved(id, status, 0, 0, 0, 0, new int[0], reason);
        }
    }

    /// A region was closed: what it was reached by is void.
    record Revoked(int region, int generation) implements ControlMessage {}

    /// Offers a queue pair in the place of the one with that index, or of none.
    ///
    /// @param index which
    /// @param number of the queue pair
    /// @param packet number of its first packet
    /// @param reads how many it may have under way
    record Offered(int index, int number, int packet, int reads) implements ControlMessage {}

    /// Answers [Offered]: the one before is gone, and nothing of it arrives any more.
    ///
    /// @param offered the number that was offered
    /// @param flushAddress where the passive side's [FlushWord] is, which writes are to be followed
    ///     by a read of; 0 where that is not needed
    /// @param flushKey the word's key
    record Accepted(
            int index,
            int offered,
            Status status,
            int number,
            int packet,
            int reads,
            long flushAddress,
            int flushKey,
            String reason)
            implements ControlMessage {
        /// An answer that nothing comes of.
        static Accepted refusal(Offered offered, String reason) {
            return new Accepted(
                    offered.index, offered.number, Status.FAILED, 0, 0, 0, 0, 0, reason);
        }
    }

    private static ByteBuffer of(int type, String reason) {
        byte[] why = reason.getBytes(StandardCharsets.UTF_8);
        int bytes = Math.min(why.length, MOST_REASON);
        return ByteBuffer.allocate(Lane.HEADER + bytes)
                .order(ByteOrder.LITTLE_ENDIAN)
                .put(Lane.HEADER, why, 0, bytes)
                .putInt(type)
                .putInt(bytes);
    }

    /// @return the frame, header and payload
    default byte[] encode() {
        ByteBuffer frame =
                switch (this) {
                    case Resolve m ->
                            of(1, "")
                                    .putLong(m.id)
                                    .putInt(m.region)
                                    .putInt(m.generation)
                                    .putLong(m.key);
                    case Resolved m -> {
                        ByteBuffer out =
                                of(2, m.reason)
                                        .putLong(m.id)
                                        .put((byte) m.status.ordinal())
                                        .put((byte) m.access)
                                        .putShort((short) m.keys.length)
                                        .putInt(0)
                                        .putLong(m.address)
                                        .putLong(m.size)
                                        .putLong(m.pieceBytes);
                        for (int key : m.keys) {
                            out.putInt(key);
                        }
                        yield out;
                    }
                    case Revoked m -> of(3, "").putInt(m.region).putInt(m.generation);
                    case Offered m ->
                            of(4, "")
                                    .putInt(m.index)
                                    .putInt(m.number)
                                    .putInt(m.packet)
                                    .putInt(m.reads);
                    case Accepted m ->
                            of(5, m.reason)
                                    .putInt(m.index)
                                    .putInt(m.status.ordinal())
                                    .putInt(m.offered)
                                    .putInt(m.number)
                                    .putInt(m.packet)
                                    .putInt(m.reads)
                                    .putLong(m.flushAddress)
                                    .putInt(m.flushKey);
                };
        return frame.array();
    }

    /// @param frame header and payload
    /// @return the message in a frame, or null when it makes no sense
    static @Nullable ControlMessage decode(byte[] frame) {
        ByteBuffer in = ByteBuffer.wrap(frame).order(ByteOrder.LITTLE_ENDIAN);
        int type = in.getInt();
        in.getInt(); // the payload's length
        String reason =
                new String(frame, Lane.HEADER, frame.length - Lane.HEADER, StandardCharsets.UTF_8)
                        .replaceAll("\\p{Cntrl}", "?");
        return switch (type) {
            case 1 -> new Resolve(in.getLong(), in.getInt(), in.getInt(), in.getLong());
            case 2 -> resolved(in, reason);
            case 3 -> new Revoked(in.getInt(), in.getInt());
            case 4 -> offered(in);
            case 5 -> accepted(in, reason);
            default -> null;
        };
    }

    private static @Nullable ControlMessage resolved(ByteBuffer in, String reason) {
        long id = in.getLong();
        Status status = Status.of(in.get());
        int access = in.get();
        int count = in.getShort();
        in.getInt();
        long address = in.getLong();
        long size = in.getLong();
        long pieceBytes = in.getLong();
        if (status != Status.GOOD) {
            return Resolved.refusal(id, status, reason);
        }
        // Every byte has a key.
        if (count < 1
                || count > MOST_PIECES
                || size < 0
                || pieceBytes < 1
                || (size - 1) / pieceBytes >= count) {
            return null;
        }
        int[] keys = new int[count];
        for (int i = 0; i < count; i++) {
            keys[i] = in.getInt();
        }
        return new Resolved(id, status, access, address, size, pieceBytes, keys, reason);
    }

    private static @Nullable ControlMessage offered(ByteBuffer in) {
        Offered message = new Offered(in.getInt(), in.getInt(), in.getInt(), in.getInt());
        return isPair(message.index, message.number, message.packet) ? message : null;
    }

    private static @Nullable ControlMessage accepted(ByteBuffer in, String reason) {
        int index = in.getInt();
        Status status = Status.of(in.getInt());
        Accepted message =
                new Accepted(
                        index,
                        in.getInt(),
                        status,
                        in.getInt(),
                        in.getInt(),
                        in.getInt(),
                        in.getLong(),
                        in.getInt(),
                        reason);
        return status != Status.GOOD || isPair(index, message.number, message.packet)
                ? message
                : null;
    }

    private static boolean isPair(int index, int number, int packet) {
        return index >= 0
                && index < ActivePairs.COUNT
                && number > 0
                && number < Offer.NUMBERS
                && packet >= 0
                && packet < Offer.NUMBERS;
    }
}

package io.telpher.internal.wire;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_SHORT_UNALIGNED;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/// The fixed header of a frame and the kinds of frames. All numbers are little-endian.
///
/// | bytes | field | meaning |
/// |---|---|---|
/// | 0 | type | see the constants; never 0 |
/// | 1 | flags | [#COUNTED] to [#CREDITS] |
/// | 2-3 | count | pieces, inline bytes, or a reason |
/// | 4-7 | length | payload bytes that follow the header |
/// | 8-15 | confirm | sequence applied on this lane in the other direction |
/// | 16-23 | transfer | token of the operation at the side that owns it |
/// | 24-63 | a to e | by type |
///
/// With checksums bytes 12 to 15 hold the frame's, and `confirm` has its lower half only.
public final class Frame {
    /// Nothing: keeps the place of a withdrawn frame. Sequenced.
    public static final int NOP = 1;

    /// One-sided write of one range: a region and generation, b key, c offset, inline d. Sequenced.
    public static final int WRITE = 2;

    /// One-sided write of pieces: a, b as in `WRITE`, count pieces; payload: table, then bytes.
    /// Sequenced.
    public static final int WRITE_PIECES = 3;

    /// End of a write, behind its bytes: notification, counter, or both. With a counter
    /// ([#COUNTER_ADD], [#COUNTER_SET]): a region and generation, b key, c offset, d value; without
    /// one the notification may be inline at a (up to 32 bytes). e: size of a notification that
    /// was sent in parts, else -1. Sequenced.
    public static final int TAIL = 4;

    /// Part of a large notification: a offset in it, b its size. Sequenced.
    public static final int NOTE_PART = 5;

    /// Read request: a, b, c as in `WRITE`, d length, e offset in the operation's stream.
    /// Sequenced.
    public static final int READ = 6;

    /// Read request for pieces: a, b, count pieces, d length of all, e offset in the stream;
    /// payload: table. Sequenced.
    public static final int READ_PIECES = 7;

    /// Bytes for an operation of the peer (answer to a read, or data of a send): transfer is the
    /// peer's token, a offset in its stream, b total bytes of the stream. Sequenced.
    public static final int DATA = 8;

    /// A short message: a tag, b position, c credits ([#CREDITS]), inline d. Sequenced.
    public static final int SEND = 9;

    /// A long message wants a receive: a tag, b position, c length; transfer is the send's token.
    /// Sequenced.
    public static final int SEND_REQUEST = 10;

    /// A receive is ready: a tag, b position, c capacity; transfer is the receive's token; payload:
    /// a memory descriptor, or nothing. Sequenced.
    public static final int ADVERT = 11;

    /// All bytes of a send were stored by the sender itself: transfer is the receive's token, c
    /// length. Sequenced.
    public static final int SEND_STORED = 12;

    /// A send was longer than its receive: transfer is the token of the receive, or of the send; c
    /// sent, d capacity. Sequenced.
    public static final int TRUNCATED = 13;

    /// An operation of the peer cannot go on: transfer is its token, or 0 for a send whose receive
    /// is not known, which a tag and b position name; count the reason; e 1 when a read request
    /// ends with it. Sequenced.
    public static final int ABORT = 14;

    /// A receive should be withdrawn: a tag, b position; transfer is the receive's token.
    /// Sequenced.
    public static final int WITHDRAW = 15;

    /// Answer: the position is spent, nothing will come: transfer as in `WITHDRAW`. Sequenced.
    public static final int WITHDRAWN = 16;

    /// Credits back: a messages, b notification bytes, c large notifications. Sequenced.
    public static final int CREDIT = 17;

    /// A frame was not applied: transfer is the initiator's token, count the reason, a lane, b its
    /// sequence; c sent, d capacity of a message that was too long; e 1 for a read request.
    /// Sequenced.
    public static final int REFUSED = 18;

    /// Look up a published name: payload is the name. Sequenced.
    public static final int LOOKUP = 19;

    /// Answer: transfer as in `LOOKUP`; payload is a descriptor. Sequenced.
    public static final int FOUND = 20;

    /// The peer ends the connection. Sequenced.
    public static final int GOODBYE = 21;

    /// Answer to `REFUSED`: the refusal of frame b of lane a is known. Sequenced.
    public static final int KNOWN = 22;

    /// Asks the peer to forget count tags: a number of the question; payload: for each its tag 8,
    /// position of the asker's next send 8, and of its next receive 8. Sequenced.
    public static final int FORGET = 23;

    /// Answer: a number of the question, b a bit for each tag that is forgotten. Sequenced.
    public static final int FORGOTTEN = 24;

    /// Everything up to sequence b of lane a was applied. Not sequenced.
    public static final int APPLIED = 32;

    /// Stop reading lane a, close it, and say how far you came. Not sequenced, may be repeated.
    public static final int FENCE = 33;

    /// Answer: lane a was read up to sequence b; c refusals among that are not `KNOWN` yet. Not
    /// sequenced; comes at once, and again as they become known, until c is 0.
    public static final int FENCED = 34;

    /// Are you there? Not sequenced.
    public static final int PING = 35;

    /// Answer. Not sequenced.
    public static final int PONG = 36;

    /// Frames from here on are not sequenced.
    public static final int FIRST_UNSEQUENCED = 32;

    /// On `WRITE`: a `TAIL` follows on this lane. On `DATA`: an answer to a read request ends here.
    public static final int COUNTED = 1;

    /// On `READ` and `READ_PIECES`: the answer goes before those of other requests. A peer that
    /// does not know this takes no notice.
    public static final int HIGH = 1;

    /// Confirm at once: somebody waits.
    public static final int URGENT = 2;

    /// The payload is inside the header, `count` bytes of it.
    public static final int INLINE = 4;

    /// The table is one strided entry.
    public static final int STRIDED = 8;

    /// The tail adds to a counter.
    public static final int COUNTER_ADD = 16;

    /// The tail stores a counter.
    public static final int COUNTER_SET = 32;

    /// The tail carries a notification: in its payload, inline, or in parts before it.
    public static final int NOTIFIES = 64;

    /// The message brings credits for messages with it, at c.
    public static final int CREDITS = 128;

    /// Where the fields are.
    public static final int CONFIRM = 8;

    /// Operation token.
    public static final int TRANSFER = 16;

    /// First field by type.
    public static final int A = 24;

    /// Second field by type.
    public static final int B = 32;

    /// Third field by type.
    public static final int C = 40;

    /// Fourth field by type; inline payload of `WRITE` and `SEND`.
    public static final int D = 48;

    /// Fifth field by type.
    public static final int E = 56;

    /// Most inline bytes of `WRITE` and `SEND`.
    public static final int INLINE_MAX = 16;

    /// Most inline bytes of a `TAIL` without a counter.
    public static final int INLINE_NOTE_MAX = 32;

    /// Bytes of one entry of a table of pieces: offset 8, length 8.
    public static final int PIECE = 16;

    /// Bytes of the one entry of a strided table: offset 8, stride 8, length 4, count 4.
    public static final int STRIDED_TABLE = 24;

    /// Little-endian long at any address.
    public static final ValueLayout.OfLong LONG =
            JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    /// Little-endian int at any address.
    public static final ValueLayout.OfInt INT =
            JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private static final ValueLayout.OfShort SHORT =
            JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private Frame() {}

    /// Writes the first 24 bytes of a header, but for the confirmation. The other fields keep what
    /// they had.
    public static void start(
            MemorySegment h, long at, int type, int flags, int count, int length, long transfer) {
        h.set(
                LONG,
                at,
                (type & 0xffL)
                        | (flags & 0xffL) << 8
                        | (count & 0xffffL) << 16
                        | (long) length << 32);
        h.set(LONG, at + TRANSFER, transfer);
    }

    /// @return the type
    public static int type(MemorySegment h, long at) {
        return h.get(JAVA_BYTE, at) & 0xff;
    }

    /// How many bytes of payload the header itself holds.
    public static int inlined(MemorySegment h, long at) {
        return (flags(h, at) & INLINE) == 0 ? 0 : count(h, at);
    }

    /// @return the flags
    public static int flags(MemorySegment h, long at) {
        return h.get(JAVA_BYTE, at + 1) & 0xff;
    }

    /// @return the count
    public static int count(MemorySegment h, long at) {
        return h.get(SHORT, at + 2) & 0xffff;
    }

    /// @return payload bytes behind the header
    public static int length(MemorySegment h, long at) {
        return h.get(INT, at + 4);
    }

    /// @return a long field
    public static long field(MemorySegment h, long at, int field) {
        return h.get(LONG, at + field);
    }

    /// Sets a long field.
    public static void set(MemorySegment h, long at, int field, long value) {
        h.set(LONG, at + field, value);
    }

    /// Adds to the flags.
    public static void addFlags(MemorySegment h, long at, int flags) {
        h.set(JAVA_BYTE, at + 1, (byte) (flags(h, at) | flags));
    }

    /// Packs a region's index and generation into one field.
    public static long region(int index, int generation) {
        return (index & 0xffff_ffffL) | ((long) generation << 32);
    }
}

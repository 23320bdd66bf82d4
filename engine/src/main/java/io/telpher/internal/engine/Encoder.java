package io.telpher.internal.engine;

import io.telpher.CounterUpdate;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import io.telpher.internal.memory.Raw;
import io.telpher.internal.wire.Frame;
import io.telpher.spi.Lane;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/// Makes frames out of operations: fills a lane's header and payload fields. Under the lane's send
/// token and the connection's lock.
final class Encoder {
    /// Remote pieces of at least this size get frames of their own.
    private static final int LARGE_PIECE = 16 * 1024;

    /// Local pieces of at least this size are sent from where they are.
    private static final int LARGE_GAP = 64 * 1024;

    /// Most bytes of one read request.
    private static final int READ_CHUNK = 1 << 20;

    /// Most pieces of one read request.
    private static final int READ_PIECES = 1000;

    private static final int MAX_PIECES = 65_535;

    private final Arena arena;

    Encoder(Arena arena) {
        this.arena = arena;
    }

    /// Cuts the next frame from the data of a write.
    ///
    /// @param at position in the operation's stream
    /// @param limit most bytes
    /// @return bytes taken
    long write(Operation op, LaneState s, long at, long limit) {
        RemoteSlices pieces = op.remotePieces;
        RemoteMemory memory;
        long offset;
        long n = limit;
        if (pieces == null) {
            memory = remote(op);
            offset = memory.offset() + op.remoteOffset + at;
        } else if (pieces.count() == 0) {
            throw new IllegalStateException("a write of no pieces");
        } else {
            int piece = pieces.pieceAt(at);
            long inside = at - pieces.start(piece);
            long rest = pieces.length(piece) - inside;
            if (rest < limit && rest < LARGE_PIECE) {
                return writePieces(op, pieces, s, at, limit, piece, inside);
            }
            memory = pieces.region(piece);
            offset = pieces.offset(piece) + inside;
            n = Math.min(n, rest);
        }
        n = Math.min(n, s.room());
        int inline = 0;
        if (n <= Frame.INLINE_MAX) {
            inline = (int) n;
            op.gather(at, Raw.ALL, s.header + Frame.D, n);
            noPayload(s);
        } else {
            n = payload(op, s, at, n);
        }
        s.start(
                Frame.WRITE,
                inline > 0 || n == 0 ? Frame.INLINE : 0,
                inline,
                s.payloadLength,
                op.token());
        s.set(Frame.A, Frame.region(memory.region(), memory.generation()));
        s.set(Frame.B, memory.key());
        s.set(Frame.C, offset);
        return n;
    }

    private long writePieces(
            Operation op,
            RemoteSlices pieces,
            LaneState s,
            long at,
            long limit,
            int first,
            long inside) {
        RemoteMemory memory = pieces.region(first);
        MemorySegment staging = s.staging(arena);
        int room = s.stagingBytes();
        int table;
        int count;
        long n;
        int flags = 0;
        if (pieces.isStrided() && inside == 0) {
            long pieceLength = pieces.length(first);
            table = Frame.STRIDED_TABLE;
            count =
                    (int)
                            Math.min(
                                    Math.min((room - table) / pieceLength, limit / pieceLength),
                                    Math.min(pieces.count() - first, MAX_PIECES));
            n = count * pieceLength;
            flags = Frame.STRIDED;
            staging.set(Frame.LONG, 0, pieces.offset(first));
            staging.set(Frame.LONG, 8, pieces.stride());
            staging.set(Frame.INT, 16, (int) pieceLength);
            staging.set(Frame.INT, 20, count);
        } else {
            n = 0;
            count = 0;
            long skip = inside;
            for (int i = first; i < pieces.count() && count < MAX_PIECES && n < limit; i++) {
                long length = Math.min(pieces.length(i) - skip, limit - n);
                if (pieces.region(i) != memory || n + length + (count + 1L) * Frame.PIECE > room) {
                    break;
                }
                n += length;
                count++;
                skip = 0;
            }
            table = count * Frame.PIECE;
            long left = n;
            skip = inside;
            for (int i = 0; i < count; i++) {
                long length = Math.min(pieces.length(first + i) - skip, left);
                staging.set(Frame.LONG, (long) i * Frame.PIECE, pieces.offset(first + i) + skip);
                staging.set(Frame.LONG, (long) i * Frame.PIECE + 8, length);
                left -= length;
                skip = 0;
            }
        }
        gather(op, s, at, staging, table, n);
        staged(s, staging, (int) (table + n));
        s.start(Frame.WRITE_PIECES, flags, count, s.payloadLength, op.token());
        s.set(Frame.A, Frame.region(memory.region(), memory.generation()));
        s.set(Frame.B, memory.key());
        return n;
    }

    /// Cuts the next request from a read.
    ///
    /// @return bytes asked for
    long read(Operation op, LaneState s, long at, long limit) {
        RemoteSlices pieces = op.remotePieces;
        RemoteMemory memory;
        long offset;
        long n = Math.min(limit, READ_CHUNK);
        noPayload(s);
        if (pieces == null) {
            memory = remote(op);
            offset = memory.offset() + op.remoteOffset + at;
        } else {
            int piece = pieces.pieceAt(at);
            long inside = at - pieces.start(piece);
            long rest = pieces.length(piece) - inside;
            if (rest < n && rest < LARGE_PIECE) {
                return readPieces(op, pieces, s, at, n, piece, inside);
            }
            memory = pieces.region(piece);
            offset = pieces.offset(piece) + inside;
            n = Math.min(n, rest);
        }
        s.start(Frame.READ, priority(op), 0, 0, op.token());
        s.set(Frame.A, Frame.region(memory.region(), memory.generation()));
        s.set(Frame.B, memory.key());
        s.set(Frame.C, offset);
        s.set(Frame.D, n);
        s.set(Frame.E, at);
        return n;
    }

    private long readPieces(
            Operation op,
            RemoteSlices pieces,
            LaneState s,
            long at,
            long limit,
            int first,
            long inside) {
        RemoteMemory memory = pieces.region(first);
        MemorySegment staging = s.staging(arena);
        int most = Math.min(READ_PIECES, s.stagingBytes() / Frame.PIECE);
        long n = 0;
        int count = 0;
        long skip = inside;
        for (int i = first; i < pieces.count() && count < most && n < limit; i++) {
            if (pieces.region(i) != memory) {
                break;
            }
            long length = Math.min(pieces.length(i) - skip, limit - n);
            staging.set(Frame.LONG, (long) count * Frame.PIECE, pieces.offset(i) + skip);
            staging.set(Frame.LONG, (long) count * Frame.PIECE + 8, length);
            n += length;
            count++;
            skip = 0;
        }
        staged(s, staging, count * Frame.PIECE);
        s.start(Frame.READ_PIECES, priority(op), count, s.payloadLength, op.token());
        s.set(Frame.A, Frame.region(memory.region(), memory.generation()));
        s.set(Frame.B, memory.key());
        s.set(Frame.D, n);
        s.set(Frame.E, at);
        return n;
    }

    private static int priority(Operation read) {
        return read.high ? Frame.HIGH : 0;
    }

    /// Cuts the next frame for an operation of the peer: data of a send, or an answer to a read.
    long data(Operation op, LaneState s, long at, long limit) {
        long n = payload(op, s, at, Math.min(limit, s.room()));
        s.start(Frame.DATA, 0, 0, s.payloadLength, op.peerToken);
        s.set(Frame.A, op.streamBase + at);
        s.set(Frame.B, op.length);
        return n;
    }

    /// The whole of a short message.
    void message(Operation op, LaneState s) {
        int inline = 0;
        int flags = 0;
        if (op.length <= Frame.INLINE_MAX) {
            inline = (int) op.length;
            flags = Frame.INLINE;
            op.gather(0, Raw.ALL, s.header + Frame.D, op.length);
            noPayload(s);
        } else {
            payload(op, s, 0, op.length);
        }
        s.start(Frame.SEND, flags, inline, s.payloadLength, op.token());
        s.set(Frame.A, op.tag);
        s.set(Frame.B, op.position);
    }

    /// The request of a long message.
    void request(Operation op, LaneState s) {
        noPayload(s);
        s.start(Frame.SEND_REQUEST, 0, 0, 0, op.token());
        s.set(Frame.A, op.tag);
        s.set(Frame.B, op.position);
        s.set(Frame.C, op.length);
    }

    /// The word that the message has been stored.
    void stored(Operation op, LaneState s) {
        noPayload(s);
        s.start(Frame.SEND_STORED, Frame.URGENT, 0, 0, op.peerToken);
        s.set(Frame.C, op.length);
    }

    /// The next part of a large notification.
    int notePart(Operation op, LaneState s, int at) {
        MemorySegment staging = s.staging(arena);
        int n = Math.min(op.noteLength - at, s.stagingBytes());
        MemorySegment.copy(op.note, at, staging, ValueLayout.JAVA_BYTE, 0, n);
        staged(s, staging, n);
        s.start(Frame.NOTE_PART, 0, 0, n, op.token());
        s.set(Frame.A, at);
        s.set(Frame.B, op.noteLength);
        return n;
    }

    /// The end of a write.
    ///
    /// @param parts whether the notification went ahead in parts
    void tail(Operation op, LaneState s, boolean parts) {
        // Who only notifies does not wait for the confirmation.
        int flags = op.kind == Operation.Kind.NOTIFY ? 0 : Frame.URGENT;
        int inline = 0;
        noPayload(s);
        CounterUpdate counter = op.counter;
        if (counter != null) {
            RemoteMemory memory = counter.memory();
            flags |=
                    counter.kind() == CounterUpdate.Kind.ADD
                            ? Frame.COUNTER_ADD
                            : Frame.COUNTER_SET;
            s.set(Frame.A, Frame.region(memory.region(), memory.generation()));
            s.set(Frame.B, memory.key());
            s.set(Frame.C, memory.offset());
            s.set(Frame.D, counter.value());
        }
        int n = op.noteLength;
        if (n >= 0) {
            flags |= Frame.NOTIFIES;
            if (!parts) {
                if (n <= Frame.INLINE_NOTE_MAX && counter == null) {
                    flags |= Frame.INLINE;
                    inline = n;
                    MemorySegment.copy(
                            op.note, 0, Raw.ALL, ValueLayout.JAVA_BYTE, s.header + Frame.A, n);
                } else {
                    MemorySegment staging = s.staging(arena);
                    MemorySegment.copy(op.note, 0, staging, ValueLayout.JAVA_BYTE, 0, n);
                    staged(s, staging, n);
                }
            }
        }
        s.start(Frame.TAIL, flags, inline, s.payloadLength, op.token());
        s.set(Frame.E, parts ? n : -1);
    }

    private long payload(Operation op, LaneState s, long at, long most) {
        long contiguous = most == 0 ? 0 : op.contiguous(at);
        if ((contiguous >= most || contiguous >= LARGE_GAP)
                && (most == 0 || op.regionAt(at).isHost())) {
            long n = Math.min(contiguous, most);
            s.payload = n == 0 ? MemorySegment.NULL : op.regionAt(at).segment();
            s.payloadOffset = n == 0 ? 0 : op.offsetAt(at);
            s.payloadLength = (int) n;
            s.payloadOwner = op;
            return n;
        }
        MemorySegment staging = s.staging(arena);
        int n = (int) Math.min(most, s.stagingBytes());
        gather(op, s, at, staging, 0, n);
        staged(s, staging, n);
        return n;
    }

    /// Copies bytes of the operation, or leaves that to a GPU.
    private static void gather(
            Operation op, LaneState s, long at, MemorySegment into, int offset, long n) {
        OutboundStaging.StagedFrame cutting = s.cutting;
        if (cutting != null) {
            cutting.fill(at, offset, n);
        } else {
            op.gather(at, into, offset, n);
        }
    }

    private static void staged(LaneState s, MemorySegment staging, int length) {
        s.payload = staging;
        s.payloadOffset = 0;
        s.payloadLength = length;
        s.payloadOwner = null;
        s.staged |= s.cutting == null; // a buffer that a GPU fills is the frame's own
    }

    /// A frame of the engine's own.
    static void control(ControlFrame frame, LaneState s) {
        MemorySegment.copy(frame.header, 0, Raw.ALL, s.header, Lane.HEADER);
        noPayload(s);
        MemorySegment payload = frame.payload;
        if (frame.length > 0 && payload != null) {
            s.payload = payload;
            s.payloadLength = frame.length;
        }
    }

    static void noPayload(LaneState s) {
        s.payload = MemorySegment.NULL;
        s.payloadOffset = 0;
        s.payloadLength = 0;
        s.payloadOwner = null;
    }

    private static RemoteMemory remote(Operation op) {
        RemoteMemory memory = op.remote;
        if (memory == null) {
            throw new IllegalStateException("an operation without remote memory");
        }
        return memory;
    }
}

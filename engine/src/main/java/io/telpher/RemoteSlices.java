package io.telpher;

import java.util.List;
import java.util.Objects;

/// Several ranges of one peer's memory, taken one after the other as if they were one: the remote
/// side of a vectored transfer. Immutable; making it costs, using it again does not.
public final class RemoteSlices {
    private final RemoteMemory[] pieces;
    private final long pieceLength;
    private final int count;
    private final long stride;
    private final long total;

    /// First byte of each piece in the stream of all bytes; empty when the pieces are strided.
    private final long[] starts;

    private RemoteSlices(
            RemoteMemory[] pieces, long pieceLength, int count, long stride, long total) {
        this.pieces = pieces;
        this.pieceLength = pieceLength;
        this.count = count;
        this.stride = stride;
        this.total = total;
        if (stride >= 0) {
            starts = new long[0];
        } else {
            long[] lengths = new long[count];
            for (int i = 0; i < count; i++) {
                lengths[i] = pieces[i].length();
            }
            starts = Pieces.starts(lengths);
        }
    }

    /// Any ranges, in this order; all of one peer.
    public static RemoteSlices of(List<RemoteMemory> slices) {
        RemoteMemory[] pieces = slices.toArray(RemoteMemory[]::new);
        long total = 0;
        for (RemoteMemory piece : pieces) {
            total = Math.addExact(total, piece.length());
        }
        return new RemoteSlices(pieces, -1, pieces.length, -1, total);
    }

    /// Any ranges, in this order; all of one peer.
    public static RemoteSlices of(RemoteMemory... slices) {
        return of(List.of(slices));
    }

    /// Equal pieces at equal distances.
    ///
    /// @param memory the memory; the first piece starts at its first byte
    /// @param pieceLength bytes of each piece
    /// @param stride bytes from the start of one piece to the start of the next; at least
    ///     `pieceLength`
    /// @param count how many pieces
    public static RemoteSlices strided(
            RemoteMemory memory, long pieceLength, long stride, int count) {
        Objects.requireNonNull(memory, "memory");
        long total = MemorySlices.checkStrided(0, pieceLength, stride, count, memory.length());
        return new RemoteSlices(new RemoteMemory[] {memory}, pieceLength, count, stride, total);
    }

    /// @return how many pieces
    public int count() {
        return count;
    }

    /// @return bytes of all pieces together
    public long totalBytes() {
        return total;
    }

    /// @return whether the pieces are equal and equally far apart
    public boolean isStrided() {
        return stride >= 0;
    }

    /// @return distance of the pieces in bytes, or -1 when they are not strided
    public long stride() {
        return stride;
    }

    /// @return the memory that a piece lies in; for strided pieces the whole extent
    public RemoteMemory memory(int piece) {
        return pieces[stride >= 0 ? 0 : piece];
    }

    /// @return first byte of a piece in its region
    public long offset(int piece) {
        return stride >= 0 ? pieces[0].offset() + piece * stride : pieces[piece].offset();
    }

    /// @return bytes of a piece
    public long length(int piece) {
        return stride >= 0 ? pieceLength : pieces[piece].length();
    }

    /// @return the piece that holds a byte of the stream of all bytes
    public int pieceAt(long position) {
        return Pieces.pieceAt(starts, pieceLength, stride, position);
    }

    /// @return where a piece starts in the stream of all bytes
    public long start(int piece) {
        return stride >= 0 ? pieceLength * piece : starts[piece];
    }
}

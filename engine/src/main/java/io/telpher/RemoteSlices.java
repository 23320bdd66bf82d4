package io.telpher;

import java.util.List;
import java.util.Objects;

/// Several ranges of one peer's memory, taken one after the other as if they were one: the remote
/// side of a vectored transfer. Immutable; making it costs, using it again does not.
public final class RemoteSlices {
    private final Pieces<RemoteMemory> pieces;

    private RemoteSlices(Pieces<RemoteMemory> pieces) {
        this.pieces = pieces;
    }

    /// Any ranges, in this order; all of one peer.
    public static RemoteSlices of(List<RemoteMemory> slices) {
        RemoteMemory[] memory = slices.toArray(RemoteMemory[]::new);
        long[] offsets = new long[memory.length];
        long[] lengths = new long[memory.length];
        for (int i = 0; i < memory.length; i++) {
            offsets[i] = memory[i].offset();
            lengths[i] = memory[i].length();
        }
        return new RemoteSlices(Pieces.of(memory, RemoteMemory::life, offsets, lengths));
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
        MemorySlice.checkRange(0, Pieces.extent(pieceLength, stride, count), memory.length());
        return new RemoteSlices(
                Pieces.strided(memory, memory.offset(), pieceLength, stride, count));
    }

    /// Any ranges of one piece of memory, in this order.
    ///
    /// @param memory the memory
    /// @param offsets first byte of each piece, from the start of `memory`
    /// @param lengths bytes of each piece; as many as offsets
    /// @throws IndexOutOfBoundsException when a piece does not lie inside of it
    public static RemoteSlices of(RemoteMemory memory, long[] offsets, long[] lengths) {
        int n = offsets.length;
        if (lengths.length != n) {
            throw new IllegalArgumentException(n + " offsets, but " + lengths.length + " lengths");
        }
        long[] inRegion = new long[n];
        for (int i = 0; i < n; i++) {
            MemorySlice.checkRange(offsets[i], lengths[i], memory.length());
            inRegion[i] = memory.offset() + offsets[i];
        }
        return new RemoteSlices(Pieces.of(memory, inRegion, lengths));
    }

    /// @return how many pieces
    public int count() {
        return pieces.count();
    }

    /// @return bytes of all pieces together
    public long totalBytes() {
        return pieces.total();
    }

    /// @return whether the pieces are equal and equally far apart
    public boolean isStrided() {
        return pieces.isStrided();
    }

    /// @return distance of the pieces in bytes, or -1 when they are not strided
    public long stride() {
        return pieces.stride();
    }

    /// @return the different regions that pieces lie in, each by the descriptor that came first
    public List<RemoteMemory> regions() {
        return pieces.regions();
    }

    /// @return the one of [#regions()] that a piece lies in; [#offset] and [#length] say where
    public RemoteMemory region(int piece) {
        return pieces.region(piece);
    }

    /// @return first byte of a piece in its region
    public long offset(int piece) {
        return pieces.offset(piece);
    }

    /// @return bytes of a piece
    public long length(int piece) {
        return pieces.length(piece);
    }

    /// @return whether some pieces have no bytes
    public boolean hasEmpty() {
        return pieces.hasEmpty();
    }

    /// @return the piece that holds a byte of the stream of all bytes
    public int pieceAt(long position) {
        return pieces.pieceAt(position);
    }

    /// @return where a piece starts in the stream of all bytes
    public long start(int piece) {
        return pieces.start(piece);
    }
}

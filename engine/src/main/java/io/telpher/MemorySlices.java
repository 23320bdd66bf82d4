package io.telpher;

import java.util.List;
import java.util.Objects;

/// Several ranges of local memory, read or written one after the other as if they were one: the
/// local side of a vectored transfer. Immutable; making it costs, using it again does not.
public final class MemorySlices {
    private final Pieces<MemoryRegion> pieces;

    private MemorySlices(Pieces<MemoryRegion> pieces) {
        this.pieces = pieces;
    }

    /// Any ranges, in this order.
    public static MemorySlices of(List<MemorySlice> slices) {
        int n = slices.size();
        MemoryRegion[] regions = new MemoryRegion[n];
        long[] offsets = new long[n];
        long[] lengths = new long[n];
        for (int i = 0; i < n; i++) {
            MemorySlice slice = slices.get(i);
            regions[i] = slice.region();
            offsets[i] = slice.offset();
            lengths[i] = slice.length();
        }
        return new MemorySlices(Pieces.of(regions, region -> region, offsets, lengths));
    }

    /// Any ranges, in this order.
    public static MemorySlices of(MemorySlice... slices) {
        return of(List.of(slices));
    }

    /// Equal pieces at equal distances of one region.
    ///
    /// @param region the memory
    /// @param offset first byte of the first piece
    /// @param pieceLength bytes of each piece
    /// @param stride bytes from the start of one piece to the start of the next; at least
    ///     `pieceLength`
    /// @param count how many pieces
    public static MemorySlices strided(
            MemoryRegion region, long offset, long pieceLength, long stride, int count) {
        Objects.requireNonNull(region, "region");
        MemorySlice.checkRange(offset, Pieces.extent(pieceLength, stride, count), region.size());
        return new MemorySlices(Pieces.strided(region, offset, pieceLength, stride, count));
    }

    /// Equal pieces of one region in a grid, such as the elements of a tensor that do not lie
    /// together: in C order, the last dimension first. A few numbers, however many there are.
    ///
    /// @param region the memory
    /// @param offset first byte of the piece whose index is 0 in all dimensions
    /// @param pieceLength bytes of each piece
    /// @param shape how many pieces there are in each dimension; their product is below 2^31.
    ///     Without a dimension there is one piece
    /// @param strides bytes from one piece to the next in each dimension: negative, 0 and less than
    ///     `pieceLength` too
    /// @throws IndexOutOfBoundsException when a piece does not lie inside of the region
    public static MemorySlices strided(
            MemoryRegion region, long offset, long pieceLength, long[] shape, long[] strides) {
        return new MemorySlices(
                Pieces.grid(region, offset, pieceLength, shape, strides, region.size()));
    }

    /// Any ranges of one region, in this order.
    ///
    /// @param region the memory
    /// @param offsets first byte of each piece
    /// @param lengths bytes of each piece; as many as offsets
    public static MemorySlices of(MemoryRegion region, long[] offsets, long[] lengths) {
        int n = offsets.length;
        if (lengths.length != n) {
            throw new IllegalArgumentException(n + " offsets, but " + lengths.length + " lengths");
        }
        for (int i = 0; i < n; i++) {
            MemorySlice.checkRange(offsets[i], lengths[i], region.size());
        }
        return new MemorySlices(Pieces.of(region, offsets.clone(), lengths));
    }

    /// @return how many pieces
    public int count() {
        return pieces.count();
    }

    /// @return bytes of all pieces together
    public long totalBytes() {
        return pieces.total();
    }

    /// @return whether the pieces are equal and equally far apart, in the order of their addresses
    public boolean isStrided() {
        return pieces.isStrided();
    }

    /// @return distance of the pieces in bytes, or -1 when they are not strided
    public long stride() {
        return pieces.stride();
    }

    /// @return the different regions that pieces lie in, in the order in which they come first
    public List<MemoryRegion> regions() {
        return pieces.regions();
    }

    /// @return the region of a piece
    public MemoryRegion region(int piece) {
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

    /// @return the piece that holds a byte of the stream of all bytes
    public int pieceAt(long position) {
        return pieces.pieceAt(position);
    }

    /// @return where a piece starts in the stream of all bytes
    public long start(int piece) {
        return pieces.start(piece);
    }
}

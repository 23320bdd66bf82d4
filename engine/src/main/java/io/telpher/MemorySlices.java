package io.telpher;

import java.util.List;
import java.util.Objects;

/// Several ranges of local memory, read or written one after the other as if they were one: the
/// local side of a vectored transfer. Immutable; making it costs, using it again does not.
public final class MemorySlices {
    private final MemoryRegion[] regions;
    private final long[] offsets;
    private final long[] lengths;
    private final int count;
    private final long stride;
    private final long total;

    /// First byte of each piece in the stream of all bytes; empty when the pieces are strided.
    private final long[] starts;

    private MemorySlices(
            MemoryRegion[] regions,
            long[] offsets,
            long[] lengths,
            int count,
            long stride,
            long total) {
        this.regions = regions;
        this.offsets = offsets;
        this.lengths = lengths;
        this.count = count;
        this.stride = stride;
        this.total = total;
        this.starts = stride >= 0 ? new long[0] : Pieces.starts(lengths);
    }

    /// Any ranges, in this order.
    public static MemorySlices of(List<MemorySlice> slices) {
        int n = slices.size();
        MemoryRegion[] regions = new MemoryRegion[n];
        long[] offsets = new long[n];
        long[] lengths = new long[n];
        long total = 0;
        for (int i = 0; i < n; i++) {
            MemorySlice slice = slices.get(i);
            regions[i] = slice.region();
            offsets[i] = slice.offset();
            lengths[i] = slice.length();
            total = Math.addExact(total, slice.length());
        }
        return new MemorySlices(regions, offsets, lengths, n, -1, total);
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
        long total = checkStrided(offset, pieceLength, stride, count, region.size());
        return new MemorySlices(
                new MemoryRegion[] {region},
                new long[] {offset},
                new long[] {pieceLength},
                count,
                stride,
                total);
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
        MemoryRegion[] regions = new MemoryRegion[n];
        long total = 0;
        for (int i = 0; i < n; i++) {
            MemorySlice.checkRange(offsets[i], lengths[i], region.size());
            regions[i] = region;
            total = Math.addExact(total, lengths[i]);
        }
        return new MemorySlices(regions, offsets.clone(), lengths.clone(), n, -1, total);
    }

    static long checkStrided(long offset, long pieceLength, long stride, int count, long size) {
        if (count < 0 || pieceLength < 0 || stride < pieceLength) {
            throw new IllegalArgumentException(
                    "not a strided form: %d pieces of %d bytes every %d bytes"
                            .formatted(count, pieceLength, stride));
        }
        long extent =
                count == 0
                        ? 0
                        : Math.addExact(Math.multiplyExact(stride, (long) count - 1), pieceLength);
        MemorySlice.checkRange(offset, extent, size);
        return Math.multiplyExact(pieceLength, (long) count);
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

    /// @return the region of a piece
    public MemoryRegion region(int piece) {
        return regions[stride >= 0 ? 0 : piece];
    }

    /// @return first byte of a piece in its region
    public long offset(int piece) {
        return stride >= 0 ? offsets[0] + piece * stride : offsets[piece];
    }

    /// @return bytes of a piece
    public long length(int piece) {
        return lengths[stride >= 0 ? 0 : piece];
    }

    /// @return the piece that holds a byte of the stream of all bytes
    public int pieceAt(long position) {
        return Pieces.pieceAt(starts, lengths[0], stride, position);
    }

    /// @return where a piece starts in the stream of all bytes
    public long start(int piece) {
        return stride >= 0 ? lengths[0] * piece : starts[piece];
    }
}

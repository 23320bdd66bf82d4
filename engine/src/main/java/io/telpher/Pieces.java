package io.telpher;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/// Where pieces lie: what local and remote ones share. Each piece is a few numbers beside those of
/// its neighbours, and no object of its own, which every transfer would have to fetch from memory
/// for each of 100,000 pieces. Immutable.
///
/// @param <R> what names a region
final class Pieces<R> {
    private static final long[] NONE = {};
    private static final int[] NO_GRID = {};

    /// The different regions, in the order in which they come first.
    private final List<R> regions;

    /// Which of them each piece is in; empty when there is one.
    private final int[] indices;

    private final int count;
    private final long total;
    private final boolean empty;

    /// First byte of each piece in its region.
    private final long[] offsets;

    /// First byte of each piece in the stream of all bytes, and behind them the stream's end.
    private final long[] starts;

    // Of the pieces of a grid, which are equal and have no arrays. The last dimension is walked
    // first.
    private final boolean regular;
    private final long first;
    private final long pieceLength;
    private final int[] shape;
    private final long[] strides;

    private Pieces(List<R> regions, int[] indices, long[] offsets, long[] starts) {
        this.regions = regions;
        this.indices = indices;
        this.offsets = offsets;
        this.starts = starts;
        count = offsets.length;
        total = starts[count];
        empty = hasEmpty(starts);
        regular = false;
        first = 0;
        pieceLength = 0;
        shape = NO_GRID;
        strides = NONE;
    }

    private Pieces(R region, long first, long pieceLength, int[] shape, long[] strides, int count) {
        regions = List.of(region);
        indices = new int[0];
        offsets = NONE;
        starts = NONE;
        regular = true;
        this.count = count;
        empty = count > 0 && pieceLength == 0;
        total = total(pieceLength, count);
        this.first = first;
        this.pieceLength = pieceLength;
        this.shape = shape;
        this.strides = strides;
    }

    /// Any pieces.
    ///
    /// @param region the region of each
    /// @param identity what is equal for names of one region, the first of which stands for all
    /// @param offsets first byte of each in its region; not copied
    /// @param lengths bytes of each
    static <R> Pieces<R> of(
            R[] region, Function<R, Object> identity, long[] offsets, long[] lengths) {
        List<R> regions = new ArrayList<>();
        Map<Object, Integer> places = new HashMap<>();
        int[] indices = new int[region.length];
        Object before = null;
        int index = -1;
        for (int i = 0; i < region.length; i++) {
            Object same = identity.apply(region[i]);
            if (!same.equals(before)) {
                before = same;
                index = places.computeIfAbsent(same, s -> regions.size());
                if (index == regions.size()) {
                    regions.add(region[i]);
                }
            }
            indices[i] = index;
        }
        return new Pieces<>(
                List.copyOf(regions),
                regions.size() > 1 ? indices : new int[0],
                offsets,
                starts(lengths));
    }

    /// Any pieces of one region.
    static <R> Pieces<R> of(R region, long[] offsets, long[] lengths) {
        return new Pieces<>(List.of(region), new int[0], offsets, starts(lengths));
    }

    /// Equal pieces at equal distances, whose form [#extent] has checked.
    ///
    /// @param first first byte of the first piece in its region
    static <R> Pieces<R> strided(R region, long first, long pieceLength, long stride, int count) {
        return new Pieces<>(
                region, first, pieceLength, new int[] {count}, new long[] {stride}, count);
    }

    /// Equal pieces in a grid, the last dimension first.
    ///
    /// @param first first byte of the piece with the index 0 in all dimensions
    /// @param shape how many pieces there are in each dimension
    /// @param strides bytes from one to the next in each, of any sign
    /// @param size bytes of the region
    /// @throws IndexOutOfBoundsException when one of them does not lie inside of the region
    static <R> Pieces<R> grid(
            R region, long first, long pieceLength, long[] shape, long[] strides, long size) {
        if (shape.length != strides.length || pieceLength < 0) {
            throw new IllegalArgumentException(
                    "not a grid: %d dimensions, %d strides, pieces of %d bytes"
                            .formatted(shape.length, strides.length, pieceLength));
        }
        int count = count(shape);
        int[] sizes = new int[shape.length];
        long lowest = first;
        long highest = first;
        long extent = 0;
        try {
            for (int d = 0; d < shape.length && count > 0; d++) {
                sizes[d] = (int) shape[d];
                long reach = Math.multiplyExact(strides[d], shape[d] - 1);
                lowest = Math.addExact(lowest, Math.min(reach, 0));
                highest = Math.addExact(highest, Math.max(reach, 0));
            }
            if (count > 0) {
                extent = Math.addExact(Math.subtractExact(highest, lowest), pieceLength);
            }
        } catch (ArithmeticException e) { // further away than any byte of any region
            throw new IndexOutOfBoundsException(
                    "offset %d, shape %s and strides %s do not fit into %d bytes"
                            .formatted(
                                    first, Arrays.toString(shape), Arrays.toString(strides), size));
        }
        MemorySlice.checkRange(lowest, extent, size);
        return new Pieces<>(region, first, pieceLength, sizes, strides.clone(), count);
    }

    private static int count(long[] shape) {
        long count = 1;
        for (long size : shape) {
            if (size < 0) {
                throw new IllegalArgumentException(
                        "a dimension of a grid has %d pieces".formatted(size));
            }
            count = size == 0 ? 0 : count;
        }
        for (long size : shape) {
            if (count > 0 && size > Integer.MAX_VALUE / count) {
                throw new IllegalArgumentException(
                        "%s pieces in one transfer: at most %d; use larger pieces"
                                .formatted(
                                        String.join(
                                                " x ",
                                                Arrays.stream(shape)
                                                        .mapToObj(Long::toString)
                                                        .toList()),
                                        Integer.MAX_VALUE));
            }
            count *= size;
        }
        return (int) count;
    }

    /// Pieces that lie upon each other may have more bytes than any region.
    private static long total(long pieceLength, int count) {
        try {
            return Math.multiplyExact(pieceLength, (long) count);
        } catch (ArithmeticException e) {
            throw tooMany("%d pieces of %d bytes".formatted(count, pieceLength));
        }
    }

    private static IllegalArgumentException tooMany(String pieces) {
        return new IllegalArgumentException(
                pieces + " are more than 2^63 - 1 bytes in one transfer; use several");
    }

    /// @return bytes from the first byte of strided pieces to their last
    static long extent(long pieceLength, long stride, int count) {
        if (count < 0 || pieceLength < 0 || stride < pieceLength) {
            throw new IllegalArgumentException(
                    "not a strided form: %d pieces of %d bytes every %d bytes"
                            .formatted(count, pieceLength, stride));
        }
        try {
            return count == 0
                    ? 0
                    : Math.addExact(Math.multiplyExact(stride, (long) count - 1), pieceLength);
        } catch (ArithmeticException e) { // further away than any byte of any region
            throw new IndexOutOfBoundsException(
                    "%d pieces of %d bytes every %d bytes do not fit into any region"
                            .formatted(count, pieceLength, stride));
        }
    }

    private static long[] starts(long[] lengths) {
        long[] starts = new long[lengths.length + 1];
        for (int i = 0; i < lengths.length; i++) {
            starts[i + 1] = starts[i] + lengths[i];
            if (starts[i + 1] < 0) {
                throw tooMany("the first %d pieces".formatted(i + 1));
            }
        }
        return starts;
    }

    private static boolean hasEmpty(long[] starts) {
        for (int i = 1; i < starts.length; i++) {
            if (starts[i] == starts[i - 1]) {
                return true;
            }
        }
        return false;
    }

    List<R> regions() {
        return regions;
    }

    int count() {
        return count;
    }

    long total() {
        return total;
    }

    boolean hasEmpty() {
        return empty;
    }

    /// Whether they are equally far apart, none before the end of the one before it.
    boolean isStrided() {
        return shape.length == 1 && strides[0] >= pieceLength;
    }

    long stride() {
        return isStrided() ? strides[0] : -1;
    }

    R region(int piece) {
        return regions.get(indices.length == 0 ? 0 : indices[piece]);
    }

    long offset(int piece) {
        if (!regular) {
            return offsets[piece];
        }
        long at = first;
        int rest = piece;
        for (int d = shape.length - 1; d > 0; d--) {
            at += rest % shape[d] * strides[d];
            rest /= shape[d];
        }
        return shape.length == 0 ? at : at + rest * strides[0];
    }

    long length(int piece) {
        return regular ? pieceLength : starts[piece + 1] - starts[piece];
    }

    long start(int piece) {
        return regular ? pieceLength * piece : starts[piece];
    }

    /// Of several pieces that start at one position (empty ones do), the last.
    int pieceAt(long position) {
        if (regular) {
            return pieceLength == 0 ? 0 : (int) (position / pieceLength);
        }
        int at = Arrays.binarySearch(starts, 0, count, position);
        if (at < 0) {
            return -at - 2;
        }
        while (at + 1 < count && starts[at + 1] == position) {
            at++;
        }
        return at;
    }
}

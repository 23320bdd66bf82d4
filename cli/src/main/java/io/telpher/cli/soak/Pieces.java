package io.telpher.cli.soak;

import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.random.RandomGenerator;

/// What one side of an operation consists of: ranges that do not overlap, in the order of the
/// stream of all bytes. Offsets count from the start of a slot.
///
/// @param offsets first byte of each range
/// @param lengths bytes of each range
/// @param stride distance of equal ranges, or -1 when they are any ranges
record Pieces(long[] offsets, long[] lengths, long stride) {
    private static final int MOST = 300;

    /// @return a single range
    static Pieces one(long offset, long length) {
        return new Pieces(new long[] {offset}, new long[] {length}, -1);
    }

    /// @return a single range somewhere in a slot
    static Pieces one(RandomGenerator random, long length, long room) {
        return one(random.nextLong(room - length + 1), length);
    }

    /// Cuts a stream into ranges somewhere in a slot, in any order.
    static Pieces scattered(RandomGenerator random, long total, long room) {
        int most = (int) Math.min(total, random.nextInt(8) == 0 ? MOST : 8);
        int count = most <= 1 ? 1 : random.nextInt(1, most + 1);
        long[] cuts = random.longs(count - 1L, 0, total + 1).sorted().toArray();
        long[] gaps = random.longs(count, 0, room - total + 1).sorted().toArray();
        long[] offsets = new long[count];
        long[] lengths = new long[count];
        for (int i = 0; i < count; i++) {
            long from = i == 0 ? 0 : cuts[i - 1];
            lengths[i] = (i == count - 1 ? total : cuts[i]) - from;
            offsets[i] = gaps[i] + from;
        }
        for (int i = count - 1; i > 0; i--) {
            int j = random.nextInt(i + 1);
            swap(offsets, i, j);
            swap(lengths, i, j);
        }
        return new Pieces(offsets, lengths, -1);
    }

    private static void swap(long[] values, int i, int j) {
        long value = values[i];
        values[i] = values[j];
        values[j] = value;
    }

    /// Equal ranges at equal distances, somewhere in a slot.
    static Pieces strided(RandomGenerator random, int count, long length, long room) {
        long widest = count == 1 ? length : (room - length) / (count - 1);
        long stride = random.nextLong(length, Math.max(widest, length) + 1);
        long extent = stride * (count - 1) + length;
        long base = random.nextLong(room - extent + 1);
        long[] offsets = new long[count];
        long[] lengths = new long[count];
        for (int i = 0; i < count; i++) {
            offsets[i] = base + i * stride;
            lengths[i] = length;
        }
        return new Pieces(offsets, lengths, stride);
    }

    boolean single() {
        return offsets.length == 1 && stride < 0;
    }

    long total() {
        long sum = 0;
        for (long length : lengths) {
            sum += length;
        }
        return sum;
    }

    /// @return the first byte of all
    long low() {
        long low = Long.MAX_VALUE;
        for (long offset : offsets) {
            low = Math.min(low, offset);
        }
        return low;
    }

    /// @return behind the last byte of all
    long high() {
        long high = 0;
        for (int i = 0; i < offsets.length; i++) {
            high = Math.max(high, offsets[i] + lengths[i]);
        }
        return high;
    }

    /// Puts a stream where the pieces lie.
    void scatter(MemorySegment stream, MemorySegment slot) {
        long at = 0;
        for (int i = 0; i < offsets.length; i++) {
            MemorySegment.copy(stream, at, slot, offsets[i], lengths[i]);
            at += lengths[i];
        }
    }

    /// Takes a stream from where the pieces lie.
    void gather(MemorySegment slot, MemorySegment stream) {
        long at = 0;
        for (int i = 0; i < offsets.length; i++) {
            MemorySegment.copy(slot, offsets[i], stream, at, lengths[i]);
            at += lengths[i];
        }
    }

    /// @return the same for the engine, of a slot of a local region
    MemorySlices of(MemoryRegion region, long base) {
        if (stride >= 0) {
            return MemorySlices.strided(
                    region, base + offsets[0], lengths[0], stride, offsets.length);
        }
        List<MemorySlice> slices = new ArrayList<>();
        for (int i = 0; i < offsets.length; i++) {
            slices.add(region.slice(base + offsets[i], lengths[i]));
        }
        return MemorySlices.of(slices);
    }

    /// @return the same for the engine, of a slot of the peer's memory
    RemoteSlices of(RemoteMemory memory, long base) {
        if (stride >= 0) {
            long extent = stride * (offsets.length - 1) + lengths[0];
            return RemoteSlices.strided(
                    memory.slice(base + offsets[0], extent), lengths[0], stride, offsets.length);
        }
        List<RemoteMemory> slices = new ArrayList<>();
        for (int i = 0; i < offsets.length; i++) {
            slices.add(memory.slice(base + offsets[i], lengths[i]));
        }
        return RemoteSlices.of(slices);
    }

    @Override
    public String toString() {
        return offsets.length == 1
                ? offsets[0] + "+" + lengths[0]
                : offsets.length + (stride < 0 ? " pieces " : " strided ") + low() + ".." + high();
    }

    @Override
    public boolean equals(Object other) {
        return this == other;
    }

    @Override
    public int hashCode() {
        return System.identityHashCode(this);
    }
}

package io.telpher.python;

import static io.telpher.python.Bridge.HANDLES;
import static io.telpher.python.Request.at;

import io.telpher.MemoryRegion;
import io.telpher.MemorySlice;
import io.telpher.MemorySlices;
import io.telpher.RemoteMemory;
import io.telpher.RemoteSlices;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/// Functions that make the pieces of vectored transfers. Arrays are copied before they are checked.
final class PieceCalls {
    /// Most pieces that are listed: 28 bytes of the heap each, twice that while they are made.
    private static final int MOST = 1 << 22;

    private PieceCalls() {}

    /// @return the number of pieces, when they may be listed
    private static int listed(long count) {
        if (count < 0 || count > MOST) {
            throw new IllegalArgumentException(
                    "%d pieces in one transfer: at most %d can be listed; make the memory contiguous, or use several transfers or larger blocks"
                            .formatted(count, MOST));
        }
        return (int) count;
    }

    /// @return the number of pieces of equal lengths at equal distances, which are not listed
    private static int strided(long count) {
        if (count < 0 || count > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(
                    "%d pieces in one transfer: at most %d; use larger blocks"
                            .formatted(count, Integer.MAX_VALUE));
        }
        return (int) count;
    }

    /// Equal blocks of a region. Request: region 8, base 8, block's bytes 8, count 8, address
    /// of the blocks' numbers 8.
    static long localBlocks(long request) {
        MemoryRegion region = HANDLES.get(at(request, 0), MemoryRegion.class);
        long[] offsets = offsets(request);
        long[] lengths = new long[offsets.length];
        Arrays.fill(lengths, at(request, 16));
        return HANDLES.put(MemorySlices.of(region, offsets, lengths));
    }

    /// Equal blocks of a peer's memory. Request: as [#localBlocks], descriptor 48 at 40.
    static long remoteBlocks(long request) {
        RemoteMemory memory = Request.remote(request + 40);
        long[] offsets = offsets(request);
        long[] lengths = new long[offsets.length];
        Arrays.fill(lengths, at(request, 16));
        return HANDLES.put(RemoteSlices.of(memory, offsets, lengths));
    }

    /// Equal blocks of a peer's memory at equal distances. Request: base 8, block's bytes 8,
    /// stride 8, count 8, descriptor 48.
    static long remoteStrided(long request) {
        RemoteMemory memory = Request.remote(request + 32);
        long base = at(request, 0);
        RemoteMemory from = memory.slice(base, memory.length() - base);
        return HANDLES.put(
                RemoteSlices.strided(
                        from, at(request, 8), at(request, 16), strided(at(request, 24))));
    }

    private static long[] offsets(long request) {
        long base = at(request, 8);
        long block = at(request, 16);
        long[] numbers = Request.longs(at(request, 32), listed(at(request, 24)));
        for (int i = 0; i < numbers.length; i++) {
            if (numbers[i] < 0) {
                throw new IndexOutOfBoundsException(
                        "block number %d at position %d".formatted(numbers[i], i));
            }
            numbers[i] = Math.addExact(base, Math.multiplyExact(numbers[i], block));
        }
        return numbers;
    }

    /// The elements of a tensor in C order. Request: region 8, offset of the first element 8, bytes
    /// that lie together 8, number of dimensions 8, address of their sizes 8, address of their
    /// strides in bytes 8.
    static long localStrided(long request) {
        MemoryRegion region = HANDLES.get(at(request, 0), MemoryRegion.class);
        long first = at(request, 8);
        long run = at(request, 16);
        long[] shape = Request.longs(at(request, 32), at(request, 24));
        long[] strides = Request.longs(at(request, 40), at(request, 24));
        return HANDLES.put(MemorySlices.strided(region, first, run, shape, strides));
    }

    /// Parts one after the other. Request: count 8, address of the parts 8: each a handle of a
    /// region or of pieces 8, offset 8, length 8 (of pieces, both are 0).
    static long localJoin(long request) {
        long[] table = Request.longs(at(request, 8), listed(at(request, 0)) * 3L);
        long count = 0;
        for (int i = 0; i < table.length; i += 3) {
            count += HANDLES.find(table[i]) instanceof MemorySlices pieces ? pieces.count() : 1;
        }
        List<MemorySlice> parts = new ArrayList<>(listed(count));
        for (int i = 0; i < table.length; i += 3) {
            switch (HANDLES.get(table[i], Object.class)) {
                case MemorySlices pieces -> {
                    for (int p = 0; p < pieces.count(); p++) {
                        parts.add(pieces.region(p).slice(pieces.offset(p), pieces.length(p)));
                    }
                }
                case MemoryRegion region -> parts.add(region.slice(table[i + 1], table[i + 2]));
                case Object other ->
                        throw new IllegalArgumentException(
                                other.getClass().getSimpleName() + " is no part of a transfer");
            }
        }
        return HANDLES.put(MemorySlices.of(parts));
    }

    /// Descriptors one after the other. Request: count 8, address of the descriptors 8, 48 bytes
    /// each.
    static long remoteJoin(long request) {
        RemoteMemory[] parts = new RemoteMemory[listed(at(request, 0))];
        for (int i = 0; i < parts.length; i++) {
            parts[i] = Request.remote(at(request, 8) + (long) RemoteMemory.SIZE * i);
        }
        return HANDLES.put(RemoteSlices.of(parts));
    }
}

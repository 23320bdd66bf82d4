package io.telpher.contract;

import java.lang.foreign.MemorySegment;

/// Bytes that a zeroed, stale or shifted buffer does not hold: each word depends on its position
/// and on a seed.
final class Content {
    private static final int WORDS = 8192;
    private static final ThreadLocal<long[]> CHUNK = ThreadLocal.withInitial(() -> new long[WORDS]);

    private Content() {}

    private static long word(long seed, long index) {
        long x = (seed + index) * 0x9E3779B97F4A7C15L;
        return x ^ (x >>> 29);
    }

    /// Fills a range with the content of a seed, from the content's start.
    static void fill(MemorySegment memory, long offset, long length, long seed) {
        fill(memory, offset, length, seed, 0);
    }

    /// Fills a range with the content of a seed.
    ///
    /// @param position which byte of the content comes first
    static void fill(MemorySegment memory, long offset, long length, long seed, long position) {
        for (long done = 0; done < length; ) {
            MemorySegment chunk = chunk(seed, position + done, length - done);
            MemorySegment.copy(chunk, 0, memory, offset + done, chunk.byteSize());
            done += chunk.byteSize();
        }
    }

    /// @return the first byte of the range that does not hold the content, from the range's
    ///     start, or -1
    static long mismatch(MemorySegment memory, long offset, long length, long seed, long position) {
        for (long done = 0; done < length; ) {
            MemorySegment chunk = chunk(seed, position + done, length - done);
            long size = chunk.byteSize();
            long at =
                    MemorySegment.mismatch(
                            chunk, 0, size, memory, offset + done, offset + done + size);
            if (at >= 0) {
                return done + at;
            }
            done += size;
        }
        return -1;
    }

    /// Checks that a range holds the content of a seed, from the content's start.
    static void check(MemorySegment memory, long offset, long length, long seed) {
        check(memory, offset, length, seed, 0);
    }

    /// Checks that a range holds the content of a seed.
    static void check(MemorySegment memory, long offset, long length, long seed, long position) {
        long at = mismatch(memory, offset, length, seed, position);
        if (at >= 0) {
            byte expected = chunk(seed, position + at, 1).get(Bytes.BYTE, 0);
            byte found = memory.get(Bytes.BYTE, offset + at);
            throw new AssertionError(
                    "byte %d of the %d bytes at offset %d is %02x, not %02x of content %d"
                            .formatted(at, length, offset, found, expected, seed));
        }
    }

    /// @return how many bytes do not have a value
    static long others(MemorySegment memory, byte value) {
        long others = 0;
        for (long at = 0; at < memory.byteSize(); at++) {
            others += memory.get(Bytes.BYTE, at) == value ? 0 : 1;
        }
        return others;
    }

    /// Checks that every byte of a range has one of two values.
    static void checkEither(MemorySegment memory, long offset, long length, byte one, byte other) {
        for (long done = 0; done < length; done++) {
            byte value = memory.get(Bytes.BYTE, offset + done);
            if (value != one && value != other) {
                throw new AssertionError(
                        "byte %d is %02x, neither %02x nor %02x"
                                .formatted(done, value, one, other));
            }
        }
    }

    /// Checks that every byte of a range has one value.
    static void checkAll(MemorySegment memory, long offset, long length, byte value) {
        long[] chunk = new long[WORDS];
        MemorySegment expected = MemorySegment.ofArray(chunk).fill(value);
        for (long done = 0; done < length; done += expected.byteSize()) {
            long size = Math.min(expected.byteSize(), length - done);
            long at =
                    MemorySegment.mismatch(
                            expected, 0, size, memory, offset + done, offset + done + size);
            if (at >= 0) {
                byte found = memory.get(Bytes.BYTE, offset + done + at);
                throw new AssertionError(
                        "byte %d of the %d bytes at offset %d is %02x, not %02x"
                                .formatted(done + at, length, offset, found, value));
            }
        }
    }

    private static MemorySegment chunk(long seed, long position, long length) {
        long[] words = CHUNK.get();
        long first = position >>> 3;
        long skip = position & 7;
        long bytes = Math.min(length, 8L * WORDS - skip);
        int count = (int) ((skip + bytes + 7) >>> 3);
        for (int i = 0; i < count; i++) {
            words[i] = word(seed, first + i);
        }
        return MemorySegment.ofArray(words).asSlice(skip, bytes);
    }
}

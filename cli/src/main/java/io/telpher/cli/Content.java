package io.telpher.cli;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/// What the bytes of a message are: every 64-bit word depends on its place, the sender, the size
/// and the round, so that neither a zeroed buffer nor one of an earlier round, of another size or
/// of another place passes.
public final class Content {
    private static final ValueLayout.OfLong WORD =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final long STEP = 0x9E3779B97F4A7C15L;

    private Content() {}

    /// @return what tells the bytes of one round, sender and size from all others; never 0
    public static long seed(long round, int rank, long bytes) {
        long x =
                round * 0xBF58476D1CE4E5B9L
                        + rank * 0x94D049BB133111EBL
                        + bytes * 0xD6E8FEB86659FD93L;
        x = (x ^ (x >>> 30)) * 0xBF58476D1CE4E5B9L;
        x = (x ^ (x >>> 27)) * 0x94D049BB133111EBL;
        return (x ^ (x >>> 31)) | 1;
    }

    /// The word at one place. Its low bits differ from 0 in nearly all bytes, its high bits
    /// everywhere.
    private static long word(long seed, long index) {
        long x = (index + 1) * STEP ^ seed;
        return x ^ (x >>> 29);
    }

    private static byte at(long seed, long position) {
        return (byte) (word(seed, position >>> 3) >>> ((position & 7) << 3));
    }

    /// Writes content.
    ///
    /// @param memory where to
    /// @param offset first byte in it
    /// @param length bytes
    /// @param seed from [#seed]
    /// @param position which byte of the content comes first
    public static void fill(
            MemorySegment memory, long offset, long length, long seed, long position) {
        long i = 0;
        if ((position & 7) == 0) {
            long index = position >>> 3;
            for (long words = length >>> 3; words > 0; words--, i += 8) {
                memory.set(WORD, offset + i, word(seed, index++));
            }
        }
        for (; i < length; i++) {
            memory.set(ValueLayout.JAVA_BYTE, offset + i, at(seed, position + i));
        }
    }

    /// Compares memory with what [#fill] writes.
    ///
    /// @return the first wrong byte from `offset` on, or -1 when all are right
    public static long firstWrong(
            MemorySegment memory, long offset, long length, long seed, long position) {
        long i = 0;
        if ((position & 7) == 0) {
            long index = position >>> 3;
            for (long words = length >>> 3; words > 0; words--, i += 8) {
                if (memory.get(WORD, offset + i) != word(seed, index++)) {
                    break;
                }
            }
        }
        for (; i < length; i++) {
            if (memory.get(ValueLayout.JAVA_BYTE, offset + i) != at(seed, position + i)) {
                return i;
            }
        }
        return -1;
    }

    /// @return how many bytes differ from what [#fill] writes
    public static long countWrong(
            MemorySegment memory, long offset, long length, long seed, long position) {
        long wrong = 0;
        for (long i = 0; i < length; i++) {
            if (memory.get(ValueLayout.JAVA_BYTE, offset + i) != at(seed, position + i)) {
                wrong++;
            }
        }
        return wrong;
    }
}

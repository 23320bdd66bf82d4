package io.telpher.internal.transport.tcp;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_INT_UNALIGNED;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import io.telpher.spi.Lane;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.SplittableRandom;

/// Frames whose content follows from their number, so that either side can check it.
///
/// The header carries 1 (4 bytes), the length, the number (8) and a number-dependent filling.
final class Frames {
    private Frames() {}

    static MemorySegment header(Arena arena, long number, int length) {
        MemorySegment header = arena.allocate(Lane.HEADER, 8);
        fill(header, number, length);
        return header;
    }

    static void fill(MemorySegment header, long number, int length) {
        header.set(JAVA_INT_UNALIGNED, 0, 1);
        header.set(JAVA_INT_UNALIGNED, 4, length);
        header.set(JAVA_LONG_UNALIGNED, 8, number);
        for (int i = 16; i < Lane.HEADER; i++) {
            header.set(JAVA_BYTE, i, (byte) (number * 31 + i));
        }
    }

    static long number(MemorySegment header, long at) {
        return header.get(JAVA_LONG_UNALIGNED, at + 8);
    }

    static int length(MemorySegment header, long at) {
        return header.get(JAVA_INT_UNALIGNED, at + 4);
    }

    /// @return whether the filling belongs to the number
    static boolean intact(MemorySegment header, long at) {
        long number = number(header, at);
        for (int i = 16; i < Lane.HEADER; i++) {
            if (header.get(JAVA_BYTE, at + i) != (byte) (number * 31 + i)) {
                return false;
            }
        }
        return true;
    }

    static byte[] payload(long number, int length) {
        byte[] bytes = new byte[length];
        SplittableRandom random = new SplittableRandom(number);
        random.nextBytes(bytes);
        return bytes;
    }
}

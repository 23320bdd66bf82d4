package io.telpher.python;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_LONG_UNALIGNED;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import java.io.ByteArrayOutputStream;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/// Memory that Python passes by address: packed requests, texts, arrays. Python is little-endian
/// here, as Java is. The addresses are the caller's word; they hold for the length of the call.
final class Request {
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private Request() {}

    static long at(long address, int offset) {
        return ALL.get(JAVA_LONG_UNALIGNED, address + offset);
    }

    static void put(long address, int offset, long value) {
        ALL.set(JAVA_LONG_UNALIGNED, address + offset, value);
    }

    static MemorySegment memory(long address, long size) {
        return MemorySegment.ofAddress(address).reinterpret(size);
    }

    static byte[] bytes(long address, long size) {
        byte[] bytes = new byte[Math.toIntExact(size)];
        MemorySegment.copy(ALL, JAVA_BYTE, address, bytes, 0, bytes.length);
        return bytes;
    }

    static String text(long address, long size) {
        return new String(bytes(address, size), StandardCharsets.UTF_8);
    }

    /// Variables as a text of `NAME=value` with a NUL between them.
    static Map<String, String> variables(long address, long size) {
        Map<String, String> variables = new HashMap<>();
        for (String line : text(address, size).split("\0")) {
            int equals = line.indexOf('=');
            if (equals > 0) {
                variables.put(line.substring(0, equals), line.substring(equals + 1));
            }
        }
        return variables;
    }

    /// A copy: Python may change its arrays at any time.
    static long[] longs(long address, long count) {
        long[] values = new long[Math.toIntExact(count)];
        MemorySegment.copy(ALL, JAVA_LONG_UNALIGNED, address, values, 0, values.length);
        return values;
    }

    /// The encoded form of [RemoteMemory], read without the array in between.
    static RemoteMemory remote(long address) {
        long regionAndGeneration = at(address, 8);
        return new RemoteMemory(
                at(address, 0),
                (int) regionAndGeneration,
                (int) (regionAndGeneration >>> 32),
                at(address, 16),
                at(address, 24),
                at(address, 32),
                access(ALL.get(JAVA_BYTE, address + 40)));
    }

    static Access access(long code) {
        if (code < 0 || code >= ACCESS.length) {
            throw new IllegalArgumentException("not an access: code " + code);
        }
        return ACCESS[(int) code];
    }

    /// Writes as much as fits.
    ///
    /// @return the length of all of it: more than `size` when it did not fit
    static long answer(byte[] bytes, long address, long size) {
        if (bytes.length <= size) {
            MemorySegment.copy(bytes, 0, ALL, JAVA_BYTE, address, bytes.length);
        }
        return bytes.length;
    }

    /// Adds to an answer of several parts: the part's length (4 bytes) and its bytes.
    static void add(ByteArrayOutputStream out, byte[] part) {
        out.writeBytes(
                ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(part.length).array());
        out.writeBytes(part);
    }

    private static final Access[] ACCESS = Access.values();
}

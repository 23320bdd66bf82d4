package io.telpher.internal.engine;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.ArrayDeque;

/// Notifications that have arrived and that nobody has taken, in order. Small ones lie in one byte
/// ring, so that taking them in costs no allocation; large ones are arrays of their own, marked in
/// the ring. Guarded by the connection's lock; `size` may be read without it.
final class NotificationQueue {
    private static final int LARGE = -1;
    private static final VarHandle INT =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.nativeOrder());

    private byte[] ring = new byte[1024];
    private int head;
    private int bytes;
    private final ArrayDeque<byte[]> large = new ArrayDeque<>(2);
    private int entries;
    private volatile int count;

    int size() {
        return count;
    }

    /// Bytes that the entries take.
    int bytes() {
        return bytes;
    }

    private void putInt(int value) {
        INT.set(ring, head + bytes & ring.length - 1, value);
        bytes += 4;
    }

    private int peekInt() {
        return (int) INT.get(ring, head);
    }

    /// Entries start at multiples of 4, so that their lengths never run over the end.
    private static int padded(int length) {
        return length + 3 & -4;
    }

    private void reserve(int more) {
        if (bytes + more <= ring.length) {
            return;
        }
        int capacity = ring.length;
        while (capacity < bytes + more) {
            capacity *= 2;
        }
        byte[] bigger = new byte[capacity];
        int first = Math.min(bytes, ring.length - head);
        System.arraycopy(ring, head, bigger, 0, first);
        System.arraycopy(ring, 0, bigger, first, bytes - first);
        ring = bigger;
        head = 0;
    }

    void add(MemorySegment from, long at, int length) {
        reserve(padded(length) + 4);
        putInt(length);
        int start = head + bytes & ring.length - 1;
        int first = Math.min(length, ring.length - start);
        MemorySegment.copy(from, ValueLayout.JAVA_BYTE, at, ring, start, first);
        if (first < length) {
            MemorySegment.copy(from, ValueLayout.JAVA_BYTE, at + first, ring, 0, length - first);
        }
        bytes += padded(length);
        count = ++entries;
    }

    void addLarge(byte[] payload) {
        reserve(4);
        putInt(LARGE);
        large.addLast(payload);
        count = ++entries;
    }

    /// @return length of the first, which must be there
    int peekLength() {
        int length = peekInt();
        if (length != LARGE) {
            return length;
        }
        byte[] first = large.peekFirst();
        return first == null ? 0 : first.length;
    }

    /// Takes the first. It stays when `into` is not accessible.
    ///
    /// @return whether it was a large one
    boolean take(MemorySegment into) {
        int length = peekInt();
        byte[] payload = length == LARGE ? large.peekFirst() : null;
        if (payload != null) {
            MemorySegment.copy(payload, 0, into, ValueLayout.JAVA_BYTE, 0, payload.length);
            large.removeFirst();
            skip(4);
        } else {
            int start = head + 4 & ring.length - 1;
            int first = Math.min(length, ring.length - start);
            MemorySegment.copy(ring, start, into, ValueLayout.JAVA_BYTE, 0, first);
            if (first < length) {
                MemorySegment.copy(ring, 0, into, ValueLayout.JAVA_BYTE, first, length - first);
            }
            skip(4 + padded(length));
        }
        count = --entries;
        return payload != null;
    }

    private void skip(int n) {
        head = head + n & ring.length - 1;
        bytes -= n;
    }
}

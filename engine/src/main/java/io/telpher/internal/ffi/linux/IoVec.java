package io.telpher.internal.ffi.linux;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/// An array of `struct iovec { void *iov_base; size_t iov_len; }`, allocated once and refilled.
///
/// Entries `0 .. count()-1` are in use; the array always starts at [#segment], also after
/// [#advance]. Not thread-safe.
public final class IoVec {
    public static final int BYTES = 16;
    public static final int BASE = 0;
    public static final int LENGTH = 8;

    /// The most entries that one system call takes (`IOV_MAX`).
    public static final int MAX_ENTRIES = 1024;

    private final MemorySegment segment;
    private final int capacity;
    private int count;

    public IoVec(Arena arena, int capacity) {
        if (capacity < 1 || capacity > MAX_ENTRIES) {
            throw new IllegalArgumentException(
                    "an iovec array has 1 to " + MAX_ENTRIES + " entries, not " + capacity);
        }
        this.segment = arena.allocate((long) capacity * BYTES, 8);
        this.capacity = capacity;
    }

    public MemorySegment segment() {
        return segment;
    }

    public int capacity() {
        return capacity;
    }

    public int count() {
        return count;
    }

    public boolean isFull() {
        return count == capacity;
    }

    public void clear() {
        count = 0;
    }

    /// Appends an entry.
    public void add(long address, long length) {
        set(count, address, length);
    }

    /// Appends an entry that covers a whole segment. The caller passes the segment, or the one it
    /// was cut from, as `keep`.
    public void add(MemorySegment memory) {
        set(count, memory.address(), memory.byteSize());
    }

    /// Sets entry `index`, which is in use or the next free one.
    public void set(int index, long address, long length) {
        if (index < 0 || index > count || index >= capacity) {
            throw new IndexOutOfBoundsException(
                    "entry " + index + " of " + count + ", capacity " + capacity);
        }
        long offset = (long) index * BYTES;
        segment.set(ValueLayout.JAVA_LONG, offset + BASE, address);
        segment.set(ValueLayout.JAVA_LONG, offset + LENGTH, length);
        if (index == count) {
            count++;
        }
    }

    public long address(int index) {
        return segment.get(ValueLayout.JAVA_LONG, (long) index * BYTES + BASE);
    }

    public long length(int index) {
        return segment.get(ValueLayout.JAVA_LONG, (long) index * BYTES + LENGTH);
    }

    /// The bytes that the entries in use cover.
    public long remaining() {
        long sum = 0;
        for (int i = 0; i < count; i++) {
            sum += length(i);
        }
        return sum;
    }

    /// Drops the first `bytes` bytes after a partial read or write, and the entries that are
    /// thereby done (empty ones too); the rest moves to the front. Returns how many entries are
    /// left.
    public int advance(long bytes) {
        long left = bytes;
        int done = 0;
        while (done < count && left >= length(done)) {
            left -= length(done);
            done++;
        }
        if (left > 0 && done == count) {
            throw new IllegalArgumentException("advanced " + left + " bytes beyond the end");
        }
        if (done > 0) {
            count -= done;
            MemorySegment.copy(segment, (long) done * BYTES, segment, 0, (long) count * BYTES);
        }
        if (left > 0) {
            set(0, address(0) + left, length(0) - left);
        }
        return count;
    }
}

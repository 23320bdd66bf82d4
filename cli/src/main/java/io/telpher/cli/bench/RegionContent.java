package io.telpher.cli.bench;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.MemoryRegion;
import io.telpher.cli.Content;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/// Fills and compares regions: those of the host in place, those of GPUs through host memory, part
/// by part. Used by one thread, outside of what is timed.
final class RegionContent implements AutoCloseable {
    /// The parts; a multiple of 8, so that each begins with a whole word of the content.
    private static final long PART = 16 << 20;

    private final Arena arena = Arena.ofShared();
    private MemorySegment staging = MemorySegment.NULL;

    private MemorySegment staging(long bytes) {
        if (staging.byteSize() < bytes) {
            staging = arena.allocate(bytes, 4096);
        }
        return staging.asSlice(0, bytes);
    }

    void zero(MemoryRegion region) {
        if (region.deviceMemory() == null) {
            region.segment().fill((byte) 0);
            return;
        }
        for (long at = 0; at < region.size(); at += PART) {
            MemorySegment part = staging(Math.min(PART, region.size() - at));
            region.copyIn(at, part.fill((byte) 0));
        }
    }

    /// As [Content#fill].
    void fill(MemoryRegion region, long offset, long length, long seed, long position) {
        if (region.deviceMemory() == null) {
            Content.fill(region.segment(), offset, length, seed, position);
            return;
        }
        for (long at = 0; at < length; at += PART) {
            MemorySegment part = staging(Math.min(PART, length - at));
            Content.fill(part, 0, part.byteSize(), seed, position + at);
            region.copyIn(offset + at, part);
        }
    }

    /// Changes one byte.
    void spoil(MemoryRegion region, long at) {
        MemorySegment one = staging(1);
        region.copyOut(at, one);
        one.set(JAVA_BYTE, 0, (byte) ~one.get(JAVA_BYTE, 0));
        region.copyIn(at, one);
    }

    /// Where bytes can be read on the host.
    ///
    /// @param memory host memory
    /// @param offset of the first byte in it
    record Readable(MemorySegment memory, long offset) {}

    /// @param length bytes that are wanted from `offset` on, all of them at once
    /// @return where to read them; until the next call of this object
    Readable read(MemoryRegion region, long offset, long length) {
        if (region.deviceMemory() == null) {
            return new Readable(region.segment(), offset);
        }
        MemorySegment copy = staging(length);
        region.copyOut(offset, copy);
        return new Readable(copy, 0);
    }

    /// @return the longest part that [#read] is to be asked for when the order allows parts
    static long part(MemoryRegion region) {
        return region.deviceMemory() == null ? Long.MAX_VALUE & -8L : PART;
    }

    @Override
    public void close() {
        arena.close();
    }
}

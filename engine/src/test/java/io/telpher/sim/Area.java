package io.telpher.sim;

import io.telpher.Endpoint;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.jspecify.annotations.Nullable;

/// A registered piece of memory that a random run writes into. Every operation gets a range of its
/// own, so that every byte is zero or has one right value.
final class Area {
    final MemorySegment memory;
    final MemoryRegion region;
    private long used;

    /// What it held when its close had returned.
    private byte @Nullable [] closed;

    Area(Endpoint endpoint, long bytes) {
        memory = Arena.ofAuto().allocate(bytes, 64);
        region = endpoint.register(memory);
    }

    /// @return where a range of its own starts, or -1 when there is no room
    long take(long bytes) {
        long at = used + 7 & ~7L;
        if (at + bytes > memory.byteSize()) {
            return -1;
        }
        used = at + bytes;
        return at;
    }

    /// Closes it.
    void close() {
        try {
            region.close();
            closed = memory.toArray(ValueLayout.JAVA_BYTE);
        } catch (TelpherException.RegionBusy e) {
            // Somebody is inside by a window: the memory may still change.
        }
    }

    boolean isClosed() {
        return closed != null;
    }

    /// @return what is wrong with what it holds now, or null
    @Nullable String changedSinceClose() {
        byte[] then = closed;
        if (then == null) {
            return null;
        }
        long at = MemorySegment.ofArray(then).mismatch(memory);
        return at < 0 ? null : "byte " + at + " of " + region + " changed after its close";
    }
}

package io.telpher.internal.transport.shm;

import io.telpher.internal.ffi.linux.Memory;
import io.telpher.spi.LocalRegion;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;

/// The owner's table of regions, one word for each index: `generation << 1 | open`. Importers map
/// it read-only and look at it after they have announced an access: whoever finds the word changed
/// leaves the memory alone.
///
/// One file of 512 KiB for each endpoint, of which only the pages exist that are in use.
final class RegionEntries implements AutoCloseable {
    /// How many indexes there are; regions beyond are reached by frames only.
    static final int CAPACITY = 1 << 16;

    static final long BYTES = (long) CAPACITY * Long.BYTES;

    private final Mapping mapping = Mapping.create("telpher-regions", BYTES, Mapping.Others.READ);

    /// Maps a peer's table. The descriptor stays the caller's.
    static Mapping open(int fd) {
        return Mapping.open(fd, BYTES, Memory.PROT_READ, "table of regions");
    }

    /// @return what the word of an open region holds
    static long openWord(int generation) {
        return closedWord(generation) | 1;
    }

    /// @return what it holds once that life has ended
    static long closedWord(int generation) {
        return Integer.toUnsignedLong(generation) << 1;
    }

    static boolean holds(int index) {
        return index >= 0 && index < CAPACITY;
    }

    static long at(int index) {
        return (long) index * Long.BYTES;
    }

    /// Opens a region to importers.
    void open(LocalRegion region) {
        if (holds(region.index())) {
            Words.WORD.setRelease(
                    mapping.segment(), at(region.index()), openWord(region.generation()));
        }
    }

    /// Closes a region. When this returns, every importer that did not announce itself before will
    /// see it.
    void close(LocalRegion region) {
        if (holds(region.index())) {
            Words.WORD.setVolatile(
                    mapping.segment(), at(region.index()), closedWord(region.generation()));
        }
        VarHandle.fullFence();
    }

    /// @return whether that life of the index is open
    boolean isOpen(int index, int generation) {
        return holds(index)
                && (long) Words.WORD.getAcquire(mapping.segment(), at(index))
                        == openWord(generation);
    }

    /// @return a descriptor of the table's file, the caller's
    int duplicate() {
        return mapping.duplicate();
    }

    MemorySegment segment() {
        return mapping.segment();
    }

    @Override
    public void close() {
        mapping.close();
    }
}

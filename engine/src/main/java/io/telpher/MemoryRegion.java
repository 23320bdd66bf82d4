package io.telpher;

import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// Registered local memory: what transfers read from and write to, and what peers may name.
///
/// Thread-safe. The region keeps the memory alive that Telpher allocated; memory that the caller
/// registered belongs to the caller and must stay valid until [#close()] has returned.
/// `toString` says which pages memory from Telpher has, and why not huge ones where they were asked
/// for.
public interface MemoryRegion extends AutoCloseable {
    /// @return the registered bytes; they may be read and written at any time, races are the
    ///     caller's
    /// @throws TelpherException.Unsupported for memory of a device
    MemorySegment segment();

    /// @return whose memory it is and where, or null for host memory
    @Nullable DeviceMemory deviceMemory();

    /// Copies host memory into the region, whatever memory it is, and waits for the end.
    ///
    /// @param at first byte in the region
    /// @param from all of it is copied
    /// @throws IndexOutOfBoundsException when the range does not lie inside
    /// @throws TelpherException.StaleRegion when the region is closed
    void copyIn(long at, MemorySegment from);

    /// Copies bytes of the region into host memory; as [#copyIn].
    void copyOut(long at, MemorySegment into);

    /// @return size in bytes
    long size();

    /// @return what peers may do
    Access access();

    /// @return whether the region has not been closed
    boolean isOpen();

    /// @return the descriptor that peers need, for the whole region
    RemoteMemory remote();

    /// A range of this region.
    ///
    /// @throws IndexOutOfBoundsException when it does not lie inside
    default MemorySlice slice(long offset, long length) {
        return new MemorySlice(this, offset, length);
    }

    /// @return the whole region as a slice
    default MemorySlice all() {
        return new MemorySlice(this, 0, size());
    }

    /// Ends the region: waits for the local transfers that use it or fails them, revokes every
    /// descriptor, and returns when no engine of this process writes to or reads from it any more,
    /// within the drain limit. Memory that Telpher allocated is unmapped, and its segment becomes
    /// invalid. Closing again does nothing.
    ///
    /// @throws TelpherException.RegionBusy when a peer on this host is in the middle of a copy that
    ///     cannot be taken from it (path `cma`), or a thread of this process that may write to the
    ///     region is stopped: the region is closed for everything new, but the memory must stay;
    ///     close again later
    @Override
    void close();
}

package io.telpher.spi;

import io.telpher.CounterUpdate;
import java.lang.foreign.MemorySegment;

/// One region of a peer that this side reads and writes by itself. Thread-safe.
///
/// Every access is announced, so that the owner can wait for it: [#enter], then any number of
/// copies, then [#exit]. The copies look again, at least every 4 MiB, whether the owner has closed
/// the region.
public interface Window extends AutoCloseable {
    /// The region was closed, or the owner is gone.
    int STALE = -1;

    /// The guard asked for an end.
    int STOPPED = -2;

    /// The owner's process cannot be reached any more.
    int LOST = -3;

    /// The owner does not allow it, or the range lies outside.
    int DENIED = -4;

    /// @return the name of the path
    String path();

    /// Announces an access by this thread.
    ///
    /// @return a ticket, not negative, or [#STALE]
    int enter();

    /// Ends an access.
    void exit(int ticket);

    /// Copies local bytes into the peer's region.
    ///
    /// @param ticket from [#enter]
    /// @param local local memory
    /// @param at first byte in it
    /// @param offset first byte in the peer's region
    /// @param length bytes
    /// @param guard asked between slices
    /// @return bytes copied: `length`, unless the guard stopped it or the owner closed the region;
    ///     or a negative reason when nothing was copied at all
    long write(int ticket, MemorySegment local, long at, long offset, long length, Guard guard);

    /// Copies bytes of the peer's region into local memory; as [#write].
    long read(int ticket, MemorySegment local, long at, long offset, long length, Guard guard);

    /// @return whether [#update] works
    boolean updatesCounters();

    /// Adds to or stores a 64-bit word, with release semantics: whoever reads the new value with
    /// acquire semantics sees everything that this thread wrote before.
    ///
    /// @param ticket from [#enter]
    /// @param offset of the word in the region, a multiple of 8
    /// @param kind added or stored
    /// @param value the value
    /// @return 0 or a reason
    int update(int ticket, long offset, CounterUpdate.Kind kind, long value);

    /// Ends this window: unmaps it.
    @Override
    void close();

    /// Tells a copy whether to go on.
    interface Guard {
        /// @return whether the transfer is still wanted
        boolean goOn();
    }
}

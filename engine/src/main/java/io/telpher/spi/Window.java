package io.telpher.spi;

import io.telpher.CounterUpdate;
import io.telpher.Device;
import io.telpher.TelpherException;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

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

    /// Result of [#join]: too many accesses are announced; later, or another way.
    int BUSY = -5;

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
    ///     or a negative reason when nothing was copied at all; [#DENIED] where only devices copy
    default long write(
            int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
        return DENIED;
    }

    /// Copies bytes of the peer's region into local memory; as [#write].
    default long read(
            int ticket, MemorySegment local, long at, long offset, long length, Guard guard) {
        return DENIED;
    }

    /// @return whether [#update] works
    default boolean updatesCounters() {
        return false;
    }

    /// Adds to or stores a 64-bit word, with release semantics: whoever reads the new value with
    /// acquire semantics sees everything that this thread wrote before.
    ///
    /// @param ticket from [#enter]
    /// @param offset of the word in the region, a multiple of 8
    /// @param kind added or stored
    /// @param value the value
    /// @return 0 or a reason
    default int update(int ticket, long offset, CounterUpdate.Kind kind, long value) {
        return DENIED;
    }

    /// @return the device whose memory this is: only devices copy from and to it, so [#write],
    ///     [#read] and [#update] deny; or null for host memory
    default @Nullable Device device() {
        return null;
    }

    /// @return whether its owner's options let no device copy by this path on its own behalf, but
    ///     only one that carries bytes between two others
    default boolean onlyThroughAnother() {
        return false;
    }

    /// Makes a device of this process able to copy from and to the region. Blocks, on the control
    /// executor.
    ///
    /// @throws io.telpher.TelpherException.Unsupported when it cannot, with the reason
    default void prepare(Device by) {
        throw new TelpherException.Unsupported("path " + path() + ": devices do not copy this way");
    }

    /// @return where the region begins for that device, or 0 before [#prepare]
    default long address(Device by) {
        return 0;
    }

    /// Checks a range that a device is to copy.
    ///
    /// @return 0, [#DENIED] or [#STALE]
    default int check(long offset, long length, boolean write) {
        return DENIED;
    }

    /// Announces copies that a device makes in the background: as [#enter], without a ticket, for
    /// any number at a time, and ended by [#leave] on any thread.
    ///
    /// @return 0, [#STALE] or [#BUSY]
    default int join() {
        return STALE;
    }

    /// Ends what [#join] announced.
    ///
    /// @return false when the owner has closed the region meanwhile: what was copied may be in
    ///     memory that nobody has any more
    default boolean leave() {
        return true;
    }

    /// Ends this window: unmaps it.
    @Override
    void close();

    /// Tells a copy whether to go on.
    interface Guard {
        /// @return whether the transfer is still wanted
        boolean goOn();
    }
}

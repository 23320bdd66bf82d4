package io.telpher.spi;

import io.telpher.RemoteMemory;
import org.jspecify.annotations.Nullable;

/// One-sided access to a peer's memory over one link. Thread-safe.
public interface Windows extends AutoCloseable {
    /// Opens a peer's region. Blocks, at most until the deadline; runs on the control executor.
    ///
    /// @throws io.telpher.TelpherException.StaleRegion when the region is closed
    /// @throws io.telpher.TelpherException.AccessDenied when the key is wrong
    /// @throws io.telpher.TelpherException.Unsupported when this region cannot be reached this way:
    ///     frames are used then
    Window open(RemoteMemory memory, Deadline deadline);

    /// @return what copies through these windows in the background: then threads do not, and
    ///     [Window#write], [Window#read] and [Window#update] deny; null where threads do
    default @Nullable WorkQueue queue() {
        return null;
    }

    /// @return which paths the probe allows, and why not the others; for people
    String explain();

    /// Closes all windows and frees what belongs to them: the peer is gone or the connection ends.
    @Override
    void close();
}

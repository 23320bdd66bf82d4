package io.telpher.spi;

import io.telpher.RemoteMemory;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/// One-sided access to a peer's memory over one link. Thread-safe.
public interface Windows extends AutoCloseable {
    /// Opens a peer's region; runs on the control executor. Where the peer is asked and may take
    /// long to answer, no thread waits for that: the result is completed by whoever takes the
    /// answer in, which must not be held up, or when these are closed.
    ///
    /// @param deadline for what blocks on the caller's thread
    /// @return the window, or one of the following, which may also be thrown
    /// @throws io.telpher.TelpherException.StaleRegion when the region is closed
    /// @throws io.telpher.TelpherException.AccessDenied when the key is wrong
    /// @throws io.telpher.TelpherException.Unsupported when this region cannot be reached this way:
    ///     frames are used then
    /// @throws io.telpher.TelpherException.TimedOut when nobody can tell yet: asked for again later
    CompletableFuture<Window> open(RemoteMemory memory, Deadline deadline);

    /// @return what copies through these windows in the background: then threads do not, and
    ///     [Window#write], [Window#read] and [Window#update] deny; null where threads do
    default @Nullable WorkQueue queue() {
        return null;
    }

    /// @return what keeps each side from storing into receives that the other has ended; null where
    ///     nothing does
    default @Nullable Adverts adverts() {
        return null;
    }

    /// @return which paths the probe allows, and why not the others; for people
    String explain();

    /// Closes all windows and frees what belongs to them: the peer is gone or the connection ends.
    @Override
    void close();
}

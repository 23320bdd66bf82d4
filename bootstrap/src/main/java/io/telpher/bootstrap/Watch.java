package io.telpher.bootstrap;

import io.telpher.TelpherException;
import java.time.Duration;

/// Follows the job without gaps. Each watch has a queue of its own; one that is not read for long
/// gets a [RendezvousEvent.Snapshot] instead of what it missed. Thread-safe.
public interface Watch extends AutoCloseable {
    /// Waits for the next event.
    ///
    /// @throws TelpherException.TimedOut when none came; says so when the server cannot be reached
    /// @throws TelpherException.Closed when this watch or its rendezvous was closed
    /// @throws TelpherException.AccessDenied when a record was not written with the job's secret
    /// @throws RendezvousException.Superseded when another process has taken this one's rank
    RendezvousEvent next(Duration atMost);

    /// Ends the watch. Closing again does nothing.
    @Override
    void close();
}

package io.telpher.bootstrap;

import io.telpher.spi.Deadline;

/// What a rendezvous server offers its clients. Thread-safe; one thread at a time waits in
/// [#changes].
interface Store extends AutoCloseable {
    /// Asks once.
    ///
    /// @throws io.telpher.TelpherException when no answer came, whatever the server made of the
    ///     request; `AccessDenied` when asking again is useless
    Answer call(Request request, Deadline deadline);

    /// Asks what has happened, and may wait for something to happen.
    ///
    /// @throws io.telpher.TelpherException as above
    Answer changes(Request.Changes request, Deadline deadline);

    /// Ends waiting calls too.
    @Override
    void close();
}

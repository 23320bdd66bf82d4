package io.telpher.bootstrap;

/// What a client asks of a store. Every request may be repeated when its answer was lost.
sealed interface Request {
    /// @return which job it is about
    String job();

    /// Makes a record, or renews the lease of the caller's own.
    ///
    /// @param lastEpoch epoch of the caller's last record, 0 when it had none: the next is higher,
    ///     even at a server that has forgotten everything
    /// @param leaseMillis how long the record lives without another announcement
    /// @param sealed the address, readable with the job's secret only
    record Announce(
            String job,
            int rank,
            int world,
            long incarnation,
            long lastEpoch,
            int leaseMillis,
            byte[] sealed)
            implements Request {}

    /// Removes the caller's own record, if there is one.
    record Leave(String job, int rank, long incarnation) implements Request {}

    /// Counts the rank at a barrier.
    ///
    /// @param ticket a random number of this call, the same when it is repeated
    record Arrive(String job, String barrier, int rank, long incarnation, long ticket)
            implements Request {}

    /// Takes an arrival back.
    record Withdraw(String job, String barrier, int rank, long incarnation, long ticket)
            implements Request {}

    /// Reads what has happened after a revision.
    ///
    /// @param instance whose revision that is; 0 asks for a snapshot
    /// @param after last revision that the caller knows
    /// @param waitMillis how long to wait while nothing has happened
    record Changes(String job, long instance, long after, int waitMillis) implements Request {}
}

package io.telpher.bootstrap;

import java.util.List;

/// What a store says to a [Request].
sealed interface Answer {
    /// A record as stores hold it.
    ///
    /// @param sealed the address, readable with the job's secret only
    record Entry(int rank, int world, long incarnation, long epoch, byte[] sealed) {}

    /// An event as stores hold it.
    sealed interface Change {
        /// @return its number in the job, without gaps
        long revision();
    }

    /// What can become of a record.
    enum Kind {
        /// It was made.
        JOINED,
        /// Its owner removed it.
        LEFT,
        /// Its lease ran out.
        LOST
    }

    /// A record came or went.
    record RecordChange(long revision, Kind kind, Entry entry) implements Change {}

    /// A barrier was passed.
    ///
    /// @param generation how often, this time included
    record BarrierChange(long revision, String barrier, long generation) implements Change {}

    /// The caller's record stands.
    record Ok(long epoch) implements Answer {}

    /// Another incarnation has the rank.
    ///
    /// @param leaseMillis what is left of its lease
    record Held(long incarnation, long epoch, int leaseMillis) implements Answer {}

    /// The job has records of another world.
    ///
    /// @param leaseMillis what is left of the longest lease among them
    record OtherWorld(int world, int leaseMillis) implements Answer {}

    /// Done: the record is gone.
    record Removed() implements Answer {}

    /// The barrier was passed with this ticket.
    record Passed() implements Answer {}

    /// The arrival counts.
    ///
    /// @param generation how often the barrier was passed before
    record Waiting(long generation) implements Answer {}

    /// The arrival does not count any more.
    ///
    /// @param missing ranks that had not come either
    record Withdrawn(List<Integer> missing) implements Answer {}

    /// The caller has no record: announce, then ask again.
    record Gone() implements Answer {}

    /// What happened, in order; may be empty.
    record Events(List<Change> changes) implements Answer {}

    /// Everything.
    ///
    /// @param revision last change that is in it
    record Snapshot(long instance, long revision, List<Entry> entries) implements Answer {}

    /// The server does not do that.
    record Refused(String reason) implements Answer {}
}

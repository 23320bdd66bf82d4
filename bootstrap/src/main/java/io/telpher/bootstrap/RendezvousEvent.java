package io.telpher.bootstrap;

import java.util.List;

/// What a [Watch] tells. Events come in the order of their revisions, none is left out, and where
/// some could not be kept a [Snapshot] stands for them.
public sealed interface RendezvousEvent {
    /// @return the number of the change in the job; for a snapshot that of the last change in it
    long revision();

    /// A rank has a new record.
    ///
    /// @param revision number of the change
    /// @param member the record
    record Joined(long revision, Member member) implements RendezvousEvent {}

    /// A rank has left in good order.
    ///
    /// @param revision number of the change
    /// @param member its last record
    record Left(long revision, Member member) implements RendezvousEvent {}

    /// A rank's lease has run out: it is dead, stopped or cut off from the rendezvous. Connections
    /// to it may still work; they fail by themselves when they do not.
    ///
    /// @param revision number of the change
    /// @param member its last record
    record Lost(long revision, Member member) implements RendezvousEvent {}

    /// All ranks have arrived at a barrier.
    ///
    /// @param revision number of the change
    /// @param barrier its name
    /// @param generation how often it has been passed, this time included
    record Passed(long revision, String barrier, long generation) implements RendezvousEvent {}

    /// All records at one moment: the first event of a watch, and what comes instead of events that
    /// the server or the watch did not keep, such as after a restart of the server.
    ///
    /// @param revision last change that is in it
    /// @param members all records, by rank
    record Snapshot(long revision, List<Member> members) implements RendezvousEvent {
        /// Copies the list.
        public Snapshot {
            members = List.copyOf(members);
        }
    }
}

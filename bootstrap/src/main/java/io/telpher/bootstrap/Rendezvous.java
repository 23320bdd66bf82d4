package io.telpher.bootstrap;

import io.telpher.EndpointAddress;
import io.telpher.TelpherException;
import java.time.Duration;
import java.util.List;

/// Where the ranks of a job meet: they exchange addresses, wait for each other, and see who comes
/// and goes. Thread-safe. A daemon thread of its own keeps the lease and follows the changes.
///
/// The server may be away: calls try again until their deadline, and connections that stand do not
/// need it. An interrupt ends a wait with [TelpherException.Cancelled]; a barrier that ends so
/// takes its arrival back.
public interface Rendezvous extends AutoCloseable {
    /// Opens a client; does not wait for the server.
    ///
    /// @throws TelpherException.Unsupported when the server is a Redis and Jedis is not there
    static Rendezvous open(RendezvousOptions options) {
        return RendezvousClient.open(options);
    }

    /// Makes this process a rank, and waits until all ranks of the world are there. To be called
    /// once. When it times out this process stays a member, and [#awaitMembers] can wait on.
    ///
    /// @param rank 0 to world - 1
    /// @param world how many ranks the job has, the same in all of them
    /// @param address [io.telpher.Endpoint#address()]
    /// @return all members, by rank
    /// @throws TelpherException.TimedOut when the server could not be reached or ranks are missing
    /// @throws TelpherException.AccessDenied when the secrets differ
    /// @throws RendezvousException.RankTaken when a living process has the rank
    /// @throws RendezvousException.WorldDiffers when the others have another size of the world
    List<Member> join(int rank, int world, EndpointAddress address, Duration atMost);

    /// Waits until all ranks of the world are there.
    ///
    /// @return all members, by rank
    /// @throws TelpherException.TimedOut when ranks are missing, which it names
    List<Member> awaitMembers(Duration atMost);

    /// Waits until a rank is there.
    ///
    /// @return its record
    /// @throws TelpherException.TimedOut when it is missing
    Member awaitMember(int rank, Duration atMost);

    /// @return the members as last heard, by rank; not all, and none before [#join] or [#watch()]
    List<Member> members();

    /// Waits until every rank of the world has called this with the same name. One call for each
    /// name at a time; names may be used again.
    ///
    /// Ends by the deadline; where the server falls silent only then, up to half a second later,
    /// since it is asked who is missing.
    ///
    /// @param name 1 to 128 characters
    /// @throws TelpherException.TimedOut names the ranks that did not come; this rank then has not
    ///     come either
    void barrier(String name, Duration atMost);

    /// Follows the job, from a snapshot of now.
    Watch watch();

    /// Leaves the job and ends all watches, within about a second, also by a thread that has been
    /// interrupted.
    @Override
    void close();
}

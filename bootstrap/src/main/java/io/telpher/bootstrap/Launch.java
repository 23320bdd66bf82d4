package io.telpher.bootstrap;

import java.net.URI;
import java.util.Map;
import java.util.OptionalInt;

/// What a launcher has told this process: who it is, and where the ranks meet.
///
/// @param launcher `telpher`, `torchrun`, `mpi`, `slurm`, `kubernetes` or `script`
/// @param rank 0 to world - 1
/// @param world how many ranks the job has
/// @param localRank rank among those of this host, where the launcher says so
/// @param job keeps jobs apart that meet at one server
/// @param rendezvous where the ranks meet
/// @param host who serves the rendezvous
public record Launch(
        String launcher,
        int rank,
        int world,
        OptionalInt localRank,
        String job,
        URI rendezvous,
        Host host) {
    /// Who serves the rendezvous.
    public enum Host {
        /// Rank 0, in its own process.
        RANK_0,
        /// Somebody else, before the ranks start.
        ELSEWHERE
    }

    /// Checks the rank.
    public Launch {
        if (world < 1 || rank < 0 || rank >= world) {
            throw new IllegalArgumentException(
                    "rank " + rank + " of a world of " + world + ": ranks are 0 to world - 1");
        }
    }

    /// Reads the variables that `docs/bootstrap.md` lists.
    ///
    /// @throws IllegalArgumentException when there are none, or when they contradict each other;
    ///     names them, their values, and the remedy
    public static Launch fromEnvironment() {
        return LaunchVariables.read(System.getenv());
    }

    /// The same from other variables.
    ///
    /// @throws IllegalArgumentException as above
    public static Launch from(Map<String, String> environment) {
        return LaunchVariables.read(environment);
    }
}

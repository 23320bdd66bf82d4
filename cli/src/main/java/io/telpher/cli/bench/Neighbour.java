package io.telpher.cli.bench;

import io.telpher.Connection;
import io.telpher.RemoteMemory;

/// Another rank, as one rank sees it.
///
/// @param rank its number
/// @param connection the connection to it
/// @param source what it lets others read
/// @param target where it lets this rank write
/// @param words the words that this rank may raise there: one cache-line pair for each rank
record Neighbour(
        int rank,
        Connection connection,
        RemoteMemory source,
        RemoteMemory target,
        RemoteMemory words) {}

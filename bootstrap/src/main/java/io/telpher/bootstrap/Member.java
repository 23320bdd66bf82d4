package io.telpher.bootstrap;

import io.telpher.EndpointAddress;

/// One rank's record at the rendezvous.
///
/// @param rank from 0 to the world's size - 1
/// @param incarnation the endpoint's: a number that no other endpoint and no restart shares
/// @param epoch grows with every record of the job: what was derived from a lower epoch of the same
///     rank is stale
/// @param address how to reach the endpoint; holding it is the permission to connect
public record Member(int rank, long incarnation, long epoch, EndpointAddress address) {}

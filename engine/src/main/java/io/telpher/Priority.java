package io.telpher;

/// The order in which waiting transfers of one connection get the lanes: of what travels as frames,
/// in the direction in which its bytes go. A read says to the peer what it is, which answers those
/// that are [#HIGH] first.
///
/// What is copied through windows waits for no lane, and its priority has no effect: on the paths
/// `self`, `mapped` and `cma` the thread that posts it copies, and a NIC (`verbs`) or a GPU carries
/// out what its queue holds in the order in which it got there.
public enum Priority {
    /// The default.
    NORMAL,
    /// Goes before everything that is `NORMAL` and has not been cut into chunks yet.
    HIGH
}

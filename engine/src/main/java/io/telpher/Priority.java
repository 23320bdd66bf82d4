package io.telpher;

/// The order in which waiting transfers of one connection get the lanes.
public enum Priority {
    /// The default.
    NORMAL,
    /// Goes before everything that is `NORMAL` and has not been cut into chunks yet.
    HIGH
}

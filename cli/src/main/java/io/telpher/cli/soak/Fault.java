package io.telpher.cli.soak;

/// What the driver does to ranks. They are drawn like cards from a deck that is shuffled when it is
/// empty, so that each comes as often as the others, and soon.
enum Fault {
    /// `kill -9`, and a new life some time later. Not rank 0, in which everything is watched.
    KILL,
    /// SIGSTOP for less than a second.
    STOP,
    /// SIGSTOP for so long that deadlines pass.
    LONG_STOP,
    /// A TCP connection is cut under a lane.
    CUT,
    /// A connection is closed with everything in flight.
    ABRUPT,
    /// A connection ends with a goodbye.
    PARTING,
    /// A region is closed in use, and another one registered.
    RECYCLE;

    String text() {
        return name().toLowerCase(java.util.Locale.ROOT).replace('_', ' ');
    }
}

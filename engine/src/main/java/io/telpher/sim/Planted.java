package io.telpher.sim;

/// Breaches of the lane contract that a test plants, to see that its checks find them.
enum Planted {
    /// Lanes keep the contract.
    NONE,
    /// A frame is taken and never delivered.
    LOSE,
    /// A frame is delivered twice.
    DOUBLE,
    /// A byte of a payload changes on the way.
    FLIP,
    /// A byte of a payload is written once more, after its frame has ended.
    WRITE_LATE,
    /// A ring confirms frames that the peer has not applied.
    CONFIRM_EARLY,
    /// A frame that gives credits back arrives empty: nothing goes wrong until they run out.
    FORGET_CREDIT
}

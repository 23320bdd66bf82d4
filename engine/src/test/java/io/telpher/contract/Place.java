package io.telpher.contract;

/// Where the peer of a test lives, and how its frames look.
enum Place {
    /// In the process of the test: fast, and one side can look at the other's memory.
    ONE,
    /// As [#ONE], with a checksum in every frame.
    CHECKED,
    /// In a JVM of its own, which can be stopped and killed.
    TWO,
    /// In a JVM of its own and a network namespace of its own, two links away.
    NETNS
}

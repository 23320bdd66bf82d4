package io.telpher.spi;

/// Whether a transport works on this machine.
public sealed interface Availability {
    /// It works.
    ///
    /// @param detail what was found, for people
    record Available(String detail) implements Availability {}

    /// It does not.
    ///
    /// @param reason what is missing
    /// @param remedy what to do about it
    record Missing(String reason, String remedy) implements Availability {}
}

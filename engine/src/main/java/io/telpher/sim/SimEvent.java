package io.telpher.sim;

/// Something that happened in a simulation.
///
/// @param nanos virtual time since the start
/// @param where a host, process, stream or link
/// @param what what happened there
public record SimEvent(long nanos, String where, String what) {
    @Override
    public String toString() {
        return "%12.3f us  %-12s %s".formatted(nanos / 1e3, where, what);
    }
}

package io.telpher.cli.bench;

/// Divides the time that something is measured for into segments. Those of operations with two
/// sides end by number, which both sides must know before: the time of the segment before decides
/// it. Were it the calibration alone, a pause of the machine there would decide how long all takes.
final class Portions {
    private static final int MOST = 8;

    private final double enough;
    private double left;
    private double next;
    private int count;

    /// @param seconds for all segments
    /// @param counted whether a segment ends by number
    Portions(double seconds, boolean counted) {
        enough = seconds / 16;
        left = seconds;
        next = counted ? seconds / 4 : seconds;
    }

    boolean hasNext() {
        return left > enough && count < MOST;
    }

    /// @return how long the next segment is to take, in seconds
    double next() {
        return next;
    }

    /// @param seconds how long it took
    void took(double seconds) {
        count++;
        left -= seconds;
        next = left;
    }
}

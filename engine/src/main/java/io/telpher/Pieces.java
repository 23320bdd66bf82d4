package io.telpher;

import java.util.Arrays;

/// Arithmetic that local and remote pieces share.
final class Pieces {
    private Pieces() {}

    static long[] starts(long[] lengths) {
        long[] starts = new long[lengths.length];
        long sum = 0;
        for (int i = 0; i < lengths.length; i++) {
            starts[i] = sum;
            sum += lengths[i];
        }
        return starts;
    }

    /// Of several pieces that start at one position (empty ones do), the last.
    static int pieceAt(long[] starts, long pieceLength, long stride, long position) {
        if (stride >= 0) {
            return pieceLength == 0 ? 0 : (int) (position / pieceLength);
        }
        int at = Arrays.binarySearch(starts, position);
        if (at < 0) {
            return -at - 2;
        }
        while (at + 1 < starts.length && starts[at + 1] == position) {
            at++;
        }
        return at;
    }
}

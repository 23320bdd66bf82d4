package io.telpher.internal.transport.verbs;

import io.telpher.spi.Lane;

/// The layout of a ring, which is the same on both sides. Positions count bytes since the start and
/// never wrap; credits count units of them, modulo a power of two.
final class Ring {
    static final int BYTES = 512 << 10;

    /// Where records begin: at multiples of this.
    static final int UNIT = 512;

    /// Records that a ring has room for, each of which takes a receive request.
    static final int RECORDS = BYTES / UNIT;

    /// The largest payload: a quarter, so that both sides work at the same time on large ones.
    static final int MAX_PAYLOAD = BYTES / 4 - Lane.HEADER;

    /// After so much was read the producer is told, if nothing else tells it.
    static final int TELL = BYTES / 8;

    /// Bytes by which a fresh queue pair shows that it works: a packet of the largest MTU. They lie
    /// where the first record will.
    static final int PROOF = 4096;

    private static final int CREDIT_BITS = 30;
    private static final int CREDIT_MASK = (1 << CREDIT_BITS) - 1;
    private static final int AT_START = 1 << CREDIT_BITS;
    private static final int NO_RECORD = 1 << 31;

    private Ring() {}

    /// @return where a position lies in the ring
    static int at(long position) {
        return (int) (position & BYTES - 1);
    }

    /// @return what a record of so many bytes takes
    static int room(int bytes) {
        return bytes + UNIT - 1 & -UNIT;
    }

    /// @return where the lap after this position begins
    static long nextLap(long position) {
        return position + BYTES - at(position);
    }

    /// The immediate value of a record.
    ///
    /// @param read how far the sender has read its own ring
    static int record(boolean atStart, long read) {
        return (atStart ? AT_START : 0) | credit(read);
    }

    /// The immediate value of a message that is no record.
    static int creditOnly(long read) {
        return NO_RECORD | credit(read);
    }

    private static int credit(long read) {
        return (int) (read / UNIT) & CREDIT_MASK;
    }

    static boolean isRecord(int immediate) {
        return (immediate & NO_RECORD) == 0;
    }

    static boolean isAtStart(int immediate) {
        return (immediate & AT_START) != 0;
    }

    /// @param known a position that was said before
    /// @return the position that an immediate says, which is less than `known` when it is older
    static long read(int immediate, long known) {
        int ahead = (immediate & CREDIT_MASK) - credit(known) & CREDIT_MASK;
        int units = ahead > CREDIT_MASK / 2 ? ahead - CREDIT_MASK - 1 : ahead;
        return known + (long) units * UNIT;
    }
}

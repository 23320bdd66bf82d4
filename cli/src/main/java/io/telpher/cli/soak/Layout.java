package io.telpher.cli.soak;

/// How an inbox is divided: slots of several sizes with a gap behind each, a word for each slot,
/// and one word that all writes of a conversation may raise. Desks, which operations start from and
/// end in locally, are divided the same way.
final class Layout {
    private static final long GAP = 128;
    private static final long WORD = 64;
    private static final long[] SIZES = {
        8 << 10, 32 << 10, 32 << 10, 32 << 10, 256 << 10, 1 << 20,
    };

    /// How many slots there are.
    static final int SLOTS = SIZES.length;

    /// Bytes of the library.
    static final long LIBRARY = 64 << 10;

    private Layout() {}

    /// @return bytes of a slot
    static long size(int slot) {
        return SIZES[slot];
    }

    /// @return first byte of a slot
    static long base(int slot) {
        long at = 0;
        for (int i = 0; i < slot; i++) {
            at += SIZES[i] + GAP;
        }
        return at;
    }

    /// @return a slot's word; that of number [#SLOTS] is shared
    static long word(int slot) {
        return base(SLOTS) + slot * WORD;
    }

    /// @return bytes in all
    static long total() {
        return (word(SLOTS + 1) + 4095) & -4096;
    }
}

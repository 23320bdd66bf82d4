package io.telpher.cli.soak;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import io.telpher.cli.Content;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/// What one end knows of a slot in the other end's inbox: what it holds, and what it will hold once
/// the operation in flight is done. At most one operation at a time uses a slot. Used by one
/// thread.
final class Slot {
    /// Bytes beside a range that must not change.
    private static final long MARGIN = 64;

    final int number;
    final long base;
    final long size;
    private final MemorySegment known;
    private final MemorySegment next;
    private final MemorySegment scratch;

    /// An operation is in flight.
    boolean busy;

    /// The notification of a write has not been acknowledged: until then the other end may look.
    boolean watched;

    /// Bytes of an operation that ended without an answer may still arrive, until the next round.
    boolean unknown;

    /// What its word holds, as far as that is known.
    long word;

    Slot(int number, Arena arena) {
        this.number = number;
        base = Layout.base(number);
        size = Layout.size(number);
        known = arena.allocate(size, 64);
        next = arena.allocate(size, 64);
        scratch = arena.allocate(size, 64);
    }

    /// A new inbox: full of its seed's content.
    void begin(long seed) {
        Content.fill(known, 0, size, seed, base);
        MemorySegment.copy(known, 0, next, 0, size);
        word = 0;
        watched = false;
        unknown = false;
    }

    boolean isFree() {
        return !busy && !watched && !unknown;
    }

    /// @return what it holds
    MemorySegment known() {
        return known;
    }

    /// @return what it will hold after the write in flight
    MemorySegment next() {
        return next;
    }

    /// The write that was meant has not been posted.
    void undo(long low, long high) {
        settle(known, low, high);
    }

    /// Takes the actual bytes of a range and its margins.
    ///
    /// @return false when they cannot be seen
    private boolean look(Eyes eyes, Note.Offer offer, long from, long to) {
        return eyes.read(offer.address() + base + from, scratch.asSlice(from, to - from));
    }

    /// Checks that the peer's memory holds what it held, or what the write in flight has made of
    /// it.
    ///
    /// @param expect what must be there
    /// @return null when all is right; a text when it is wrong
    /// @throws Blind when the peer's memory cannot be seen
    @Nullable String check(Eyes eyes, Note.Offer offer, long low, long high, Expect expect)
            throws Blind {
        long from = Math.max(0, low - MARGIN);
        long to = Math.min(size, high + MARGIN);
        if (!look(eyes, offer, from, to)) {
            throw new Blind();
        }
        long wrong = mismatch(expect == Expect.OLD ? known : next, from, to);
        if (wrong < 0) {
            settle(expect == Expect.OLD ? known : next, low, high);
            return null;
        }
        if (expect == Expect.EITHER) {
            for (long i = from; i < to; i++) {
                byte is = scratch.get(JAVA_BYTE, i);
                if (is != known.get(JAVA_BYTE, i) && is != next.get(JAVA_BYTE, i)) {
                    return text(i);
                }
            }
            settle(scratch, low, high);
            return null;
        }
        return text(wrong);
    }

    private String text(long at) {
        return "byte %d of slot %d is %02x; it held %02x before the last write, which makes it %02x"
                .formatted(
                        at,
                        number,
                        scratch.get(JAVA_BYTE, at),
                        known.get(JAVA_BYTE, at),
                        next.get(JAVA_BYTE, at));
    }

    private long mismatch(MemorySegment image, long from, long to) {
        long at = MemorySegment.mismatch(scratch, from, to, image, from, to);
        return at < 0 ? -1 : from + at;
    }

    /// From here on this is what the slot holds.
    private void settle(MemorySegment image, long low, long high) {
        long length = Math.max(0, high - low);
        MemorySegment.copy(image, low, known, low, length);
        MemorySegment.copy(image, low, next, low, length);
    }

    /// What a check expects.
    enum Expect {
        /// Nothing has changed.
        OLD,
        /// The write has been done.
        NEW,
        /// Any part of the write may have been done.
        EITHER
    }

    /// The peer's memory cannot be seen: its process is ending, or has closed the region.
    static final class Blind extends Exception {
        private static final long serialVersionUID = 1L;

        Blind() {
            super("nothing is mapped there");
        }
    }
}

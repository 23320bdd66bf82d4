package io.telpher.internal.transport.shm;

import io.telpher.internal.device.Runtimes;
import java.lang.foreign.MemorySegment;

/// An importer's announcements on one link: 64 slots on cache lines of their own, 8 words each. A
/// word that is not zero names a region that a thread of the importer is inside: `(index + 1) << 32
/// | generation`. Threads are spread over the slots by their number, so they rarely share a line,
/// and one thread can be inside several regions.
///
/// The importer writes; the owner maps the page read-only and, after it has closed a region, waits
/// until no word names it.
final class HazardPage {
    static final int SLOTS = 64;
    static final int WORDS_PER_SLOT = 8;

    /// Words of a page; tickets are numbers of words.
    static final int WORDS = SLOTS * WORDS_PER_SLOT;

    static final long BYTES = Math.max((long) WORDS * Long.BYTES, RingMemory.HEADER);

    private HazardPage() {}

    /// @return the word that names a region
    static long announcement(int index, int generation) {
        return ((index + 1L) << 32) | Integer.toUnsignedLong(generation);
    }

    /// Announces an access. What follows, in particular a look at the owner's table, comes after it
    /// for all to see.
    ///
    /// @return the ticket: which word it took
    static int enter(MemorySegment page, long announcement) {
        while (true) {
            int word = tryEnter(page, announcement);
            if (word >= 0) {
                return word;
            }
            // 512 accesses at once: each ends within a slice, or with a device's copy.
            Runtimes.poll();
            Thread.yield();
        }
    }

    /// The same without waiting.
    ///
    /// @return the ticket, or -1 when all words are taken
    static int tryEnter(MemorySegment page, long announcement) {
        int first = ((int) Thread.currentThread().threadId() * WORDS_PER_SLOT) & (WORDS - 1);
        for (int i = 0; i < WORDS; i++) {
            int word = (first + i) & (WORDS - 1);
            if (Words.WORD.compareAndSet(page, (long) word << 3, 0L, announcement)) {
                return word;
            }
        }
        return -1;
    }

    /// Ends an access: everything done in it comes before.
    static void exit(MemorySegment page, int ticket) {
        Words.WORD.setRelease(page, (long) ticket << 3, 0L);
    }

    /// @return whether some thread of the importer is inside
    static boolean names(MemorySegment page, long announcement) {
        for (int word = 0; word < WORDS; word++) {
            if ((long) Words.WORD.getAcquire(page, (long) word << 3) == announcement) {
                return true;
            }
        }
        return false;
    }
}

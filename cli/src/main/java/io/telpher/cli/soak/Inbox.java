package io.telpher.cli.soak;

import io.telpher.Endpoint;
import io.telpher.MemoryRegion;
import io.telpher.TelpherException;
import io.telpher.cli.Content;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.time.Duration;

/// Memory of one end of a conversation that the other end writes to and reads from, for one round.
/// Whatever belongs to the caller is kept for a while after the region was closed, filled with
/// other bytes, and looked at in the end: nothing may have arrived. Used by one thread.
final class Inbox {
    /// Who allocates.
    enum Kind {
        TELPHER,
        FOREIGN
    }

    /// What may still be on its way has arrived by then.
    private static final Duration GRAVE = Duration.ofSeconds(3);

    /// A stopped peer in the middle of a copy may keep a region busy for so long.
    private static final Duration BUSY = Duration.ofSeconds(30);

    private final Kind kind;
    private final Arena arena = Arena.ofShared();
    private final MemorySegment memory;
    private final MemorySegment books;
    private final MemoryRegion region;
    private final MemoryRegion library;
    private final Note.Offer offer;
    private long closingSince;
    private long closedAt;

    Inbox(Endpoint endpoint, Kind kind, long round, long salt, long seed) {
        this.kind = kind;
        if (kind == Kind.TELPHER) {
            region = endpoint.allocate(Layout.total());
            library = endpoint.allocate(Layout.LIBRARY, io.telpher.Access.READ);
            memory = region.segment();
            books = library.segment();
        } else {
            memory = arena.allocate(Layout.total(), 4096);
            books = arena.allocate(Layout.LIBRARY, 4096);
            region = endpoint.register(memory);
            library = endpoint.register(books, io.telpher.Access.READ);
        }
        Content.fill(memory, 0, Layout.word(0), seed, 0);
        memory.asSlice(Layout.word(0)).fill((byte) 0);
        Content.fill(books, 0, Layout.LIBRARY, seed, 0);
        offer =
                new Note.Offer(
                        round,
                        ProcessHandle.current().pid(),
                        memory.address(),
                        salt,
                        seed,
                        region.remote(),
                        library.remote());
    }

    Note.Offer offer() {
        return offer;
    }

    /// @return bytes of a slot, as they are now
    MemorySegment slot(long offset, long length) {
        return memory.asSlice(offset, length);
    }

    /// Closes the regions; to be called until it succeeds.
    ///
    /// @return whether they are closed
    /// @throws SoakFailure when somebody holds them for ever
    boolean close(long now) {
        if (closedAt != 0) {
            return true;
        }
        if (closingSince == 0) {
            closingSince = now;
        }
        try {
            region.close();
            library.close();
        } catch (TelpherException.RegionBusy e) {
            if (now - closingSince > BUSY.toNanos()) {
                throw new SoakFailure("a region stays busy for ever: " + e.getMessage());
            }
            return false;
        }
        closedAt = now;
        if (kind == Kind.FOREIGN) {
            Content.fill(memory, 0, memory.byteSize(), ~offer.seed(), 0);
        }
        return true;
    }

    /// Looks, once it is time, whether anything has arrived after the end, and frees the memory.
    ///
    /// @param atOnce not to wait
    /// @return whether that is done
    boolean bury(long now, boolean atOnce) {
        if (now - closedAt < GRAVE.toNanos() && !atOnce) {
            return false;
        }
        if (kind == Kind.FOREIGN) {
            long wrong = Content.firstWrong(memory, 0, memory.byteSize(), ~offer.seed(), 0);
            if (wrong >= 0) {
                throw new SoakFailure(
                        "byte %d of round %d was changed after its region was closed"
                                .formatted(wrong, offer.round()));
            }
        }
        arena.close();
        return true;
    }
}

package io.telpher.internal.transport.shm;

import io.telpher.spi.Adverts;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;

/// The adverts of one link: two words for each slot of a connection's operations, in the file of
/// each side's [HazardPage], behind it, which the other side maps read-only.
///
/// ```text
///  0 receive of this side's: use << 1 | whether the peer may store into it
///  8 receive of the peer's: use << 1 | 1 while this side may be storing into it, else 0
/// ```
///
/// Either the receiver, which closes its word and then looks at the peer's, finds the sender
/// inside; or the sender, which says that it is inside and then looks, finds the word closed. Each
/// makes a full fence in between.
///
/// The peer keeps its view of what was written last when this side has closed the link. Both views
/// refuse accesses once the link has given them back.
final class ShmAdverts implements Adverts {
    private static final int PER_SLOT = 2 * Long.BYTES;

    /// Bytes of a side's file: only the pages exist that are in use.
    static final long FILE = HazardPage.BYTES + (long) SLOTS * PER_SLOT;

    private final ShmLink link;
    private final MemorySegment own;
    private final MemorySegment peers;

    /// @param own this side's file
    /// @param peers the peer's
    ShmAdverts(ShmLink link, MemorySegment own, MemorySegment peers) {
        this.link = link;
        this.own = own;
        this.peers = peers;
    }

    private static boolean hasSlot(long receive) {
        return (receive & 0xffff_ffffL) < SLOTS;
    }

    /// Where the word of a side's own receive lies.
    private static long at(long receive) {
        return HazardPage.BYTES + (receive & 0xffff_ffffL) * PER_SLOT;
    }

    /// Where the word lies that says whether a side is inside the other one's receive.
    private static long insideAt(long receive) {
        return at(receive) + Long.BYTES;
    }

    private static long open(long receive) {
        return RegionEntries.openWord((int) (receive >>> 32));
    }

    @Override
    public void admit(long receive) {
        try {
            Words.WORD.setRelease(own, at(receive), open(receive));
        } catch (IllegalStateException e) {
            // The link was given back: nobody comes any more.
        }
    }

    @Override
    public void keepOut(long receive) {
        try {
            Words.WORD.setRelease(
                    own, at(receive), RegionEntries.closedWord((int) (receive >>> 32)));
        } catch (IllegalStateException e) {
            // It was closed before that.
        }
        VarHandle.fullFence();
    }

    @Override
    public boolean isInside(long receive) {
        try {
            if ((long) Words.WORD.getAcquire(peers, insideAt(receive)) != open(receive)) {
                return false;
            }
        } catch (IllegalStateException e) {
            return true; // the link was given back: nobody can tell
        }
        return link.mayStore();
    }

    /// Whoever still stores for an earlier use of the slot is given up by its receiver: that one's
    /// word may go. The word of a later use stays, whose sender was quicker.
    @Override
    public boolean enter(long receive) {
        if (!hasSlot(receive)) {
            return false;
        }
        try {
            long before;
            do {
                before = (long) Words.WORD.getAcquire(own, insideAt(receive));
                if (before != 0 && isLater(before, receive)) {
                    return false;
                }
            } while (!Words.WORD.compareAndSet(own, insideAt(receive), before, open(receive)));
        } catch (IllegalStateException e) {
            return false;
        }
        VarHandle.fullFence();
        if (isOpen(receive)) {
            return true;
        }
        exit(receive);
        return false;
    }

    /// @return whether a word is that of a later use; uses are counted in 31 bits, and go round
    private static boolean isLater(long word, long receive) {
        return (((int) (word >>> 1) - (int) (receive >>> 32)) << 1) > 0;
    }

    @Override
    public boolean isOpen(long receive) {
        try {
            return (long) Words.WORD.getAcquire(peers, at(receive)) == open(receive);
        } catch (IllegalStateException e) {
            return false;
        }
    }

    /// The slot may have been entered for its next use meanwhile.
    @Override
    public void exit(long receive) {
        try {
            boolean unused = Words.WORD.compareAndSet(own, insideAt(receive), open(receive), 0L);
        } catch (IllegalStateException e) {
            // The link was given back, which waits for whoever is inside.
        }
    }
}

package io.telpher.internal.transport.shm;

import io.telpher.Access;
import io.telpher.RemoteMemory;
import io.telpher.internal.device.Runtimes;
import io.telpher.spi.Deadline;
import io.telpher.spi.Window;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.VarHandle;
import java.time.Duration;

/// What all windows have in common: the announcement, and the look at the owner's table after it.
/// Either the owner sees the announcement and waits, or this side sees that the region is closed.
abstract sealed class ShmWindow implements Window permits DirectWindow, CmaWindow, GpuWindow {
    /// How long [#close()] waits for the threads inside: many slices.
    private static final Duration CLOSE_LIMIT = Duration.ofSeconds(2);

    private final OpenWindows owner;
    private final String path;

    /// This side's page of announcements on the link. A thread may come here when the link has just
    /// been given back: then the page refuses it.
    private final MemorySegment hazards;

    /// The owner's table, read-only.
    private final MemorySegment table;

    /// The word that names this region among the announcements.
    private final long announcement;

    /// Where the region's entry lies in the table, and what it holds while the region is open.
    private final long entryAt;

    private final long openEntry;
    final long size;
    final boolean readable;
    final boolean writable;
    private volatile boolean closed;

    /// Not this window's monitor, under which drivers may be asked for long.
    private final Object joining = new Object();

    // Guarded by `joining`: copies of devices under way, which share one announcement.
    private int joined;
    private int joinTicket;

    ShmWindow(
            OpenWindows owner,
            ShmLink link,
            String path,
            RemoteMemory memory,
            Access access,
            long size) {
        this.owner = owner;
        this.path = path;
        hazards = link.hazards();
        table = link.peerTable();
        announcement = HazardPage.announcement(memory.region(), memory.generation());
        entryAt = RegionEntries.at(memory.region());
        openEntry = RegionEntries.openWord(memory.generation());
        this.size = size;
        readable = access.canRead();
        writable = access.canWrite();
    }

    @Override
    public final String path() {
        return path;
    }

    /// The compare-and-set in [HazardPage#enter] is a full fence, so the owner that closes the
    /// entry and then looks for announcements finds this one, or this look finds the entry closed.
    /// In the same way [#shut()] finds the announcement, or `closed` is seen here before the table
    /// is touched, which is gone once the windows have closed.
    @Override
    public final int enter() {
        if (closed) {
            return STALE;
        }
        try {
            int ticket = HazardPage.enter(hazards, announcement);
            if (closed || (long) Words.WORD.getVolatile(table, entryAt) != openEntry) {
                HazardPage.exit(hazards, ticket);
                return STALE;
            }
            return ticket;
        } catch (IllegalStateException e) {
            return STALE; // the link was given back in between
        }
    }

    @Override
    public final void exit(int ticket) {
        HazardPage.exit(hazards, ticket);
    }

    @Override
    public final int check(long offset, long length, boolean write) {
        if (!(write ? writable : readable) || !isInside(offset, length)) {
            return DENIED;
        }
        return 0;
    }

    /// One announcement for all that are under way, since a page has 512 and a device may have
    /// thousands of copies in its queue. Whoever joins later sees that the region is closed, so
    /// the count runs out.
    @Override
    public final int join() {
        synchronized (joining) {
            if (joined == 0) {
                int ticket = closed ? STALE : tryEnter();
                if (ticket < 0) {
                    return ticket;
                }
                joinTicket = ticket;
            } else if (!isOpen()) {
                return STALE;
            }
            joined++;
            return 0;
        }
    }

    private int tryEnter() {
        try {
            int ticket = HazardPage.tryEnter(hazards, announcement);
            if (ticket >= 0
                    && (closed || (long) Words.WORD.getVolatile(table, entryAt) != openEntry)) {
                HazardPage.exit(hazards, ticket);
                return STALE;
            }
            return ticket < 0 ? BUSY : ticket;
        } catch (IllegalStateException e) {
            return STALE; // the link was given back in between
        }
    }

    @Override
    public final boolean leave() {
        synchronized (joining) {
            boolean open = isOpen();
            if (--joined == 0) {
                HazardPage.exit(hazards, joinTicket);
            }
            return open;
        }
    }

    final boolean isOf(int index, int generation) {
        return announcement == HazardPage.announcement(index, generation);
    }

    /// @return whether a copy may go on
    final boolean isOpen() {
        return (long) Words.WORD.getAcquire(table, entryAt) == openEntry && !closed;
    }

    /// Written so that no sum can overflow.
    final boolean isInside(long offset, long length) {
        return offset >= 0 && length >= 0 && offset <= size - length;
    }

    /// Refuses new accesses, waits for those inside and gives the memory back. When some thread
    /// stays inside, nothing is given back: a leak is better than a crash.
    @Override
    public final void close() {
        if (!owner.forget(this)) {
            return;
        }
        try {
            shut();
        } finally {
            owner.forgotten();
        }
    }

    /// The work of [#close()], once.
    ///
    /// @return whether everything was given back
    final boolean shut() {
        closed = true;
        VarHandle.fullFence();
        Deadline deadline = Deadline.in(CLOSE_LIMIT);
        for (int spins = 0; HazardPage.names(hazards, announcement); spins++) {
            if (deadline.passed()) {
                owner.leaked(this);
                return false;
            }
            Runtimes.poll(); // a device may be inside
            ShmLink.pause(spins);
        }
        unmap();
        return true;
    }

    /// Gives the memory back; nobody is inside.
    abstract void unmap();
}

package io.telpher.internal.transport.shm;

import io.telpher.TelpherException;
import io.telpher.internal.ffi.linux.EventFd;
import io.telpher.internal.ffi.linux.Memory;
import io.telpher.internal.ffi.linux.Poll;
import io.telpher.internal.ffi.linux.Sockets;
import io.telpher.internal.observe.Log;
import io.telpher.spi.Adverts;
import io.telpher.spi.Deadline;
import io.telpher.spi.Link;
import io.telpher.spi.PeerAddress;
import java.lang.foreign.MemorySegment;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// What the lane and the windows of one link share: the mappings, the doorbells, and the socket,
/// whose hang-up means that the peer has left. Everything is close-on-exec on both sides, so a peer
/// that becomes another program hangs up too. A pidfd tells of the process's end besides.
///
/// The resources are given back when the lane and the windows are both closed, except what is
/// needed to see when the peer has left this side's memory. An importer closes
/// its windows, which waits for its threads inside, before its socket: so a hang-up also says that
/// nobody of the peer is inside a region of this process any more.
final class ShmLink {
    /// Most bytes that a peer may share: 64 buffers of 1 MiB, the most that there are. All of it is
    /// mapped here, and page-locked where it is for a GPU.
    static final long MOST_SHARED = 64L << 20;

    private static final int SPINS_BEFORE_YIELD = 64;
    private static final int SPINS_BEFORE_SLEEP = 256;
    private static final long SLEEP_NANOS = 50_000;

    private final ShmEndpoint endpoint;
    private final PeerAddress peer;
    private final Parts parts;
    private final RegionExchange exchange;
    private final String text;

    /// Announcements of the regions that the peer reaches by `cma`: those cannot be taken away
    /// while it is inside.
    private final Set<Long> borrowed = ConcurrentHashMap.newKeySet();

    /// Announcements of the regions of host memory that the peer was given to map: those can be,
    /// but for loans ([io.telpher.internal.memory.Lendable]).
    private final Set<Long> mapped = ConcurrentHashMap.newKeySet();

    /// Announcements of the regions of GPUs that the peer was given and has not released.
    private final Set<Long> imported = ConcurrentHashMap.newKeySet();

    /// The peer's process has ended: its driver's context is gone too. A hang-up does not say so,
    /// since descriptors are closed one after the other.
    private volatile boolean ended;

    private volatile @Nullable ShmWindows windows;

    /// Where payloads of this side's lie, and those of the peer; guarded by [#resources], except
    /// for reading.
    private volatile @Nullable Mapping shared;

    private volatile @Nullable Mapping peerShared;

    /// Lane and windows that are open.
    private final AtomicInteger holders = new AtomicInteger(1);
    /// How it was noticed that the link is of no use any more. Set once.
    private volatile @Nullable String lost;

    /// The peer has hung up or ended: nobody of it is inside a region any more.
    private volatile boolean gone;

    /// Guards the descriptors and the peer's hazard page against being given back while in use.
    private final Object resources = new Object();

    private State state = State.OPEN;

    /// How much is left of the link.
    private enum State {
        /// Lane or windows are open.
        OPEN,
        /// Both are closed here, but the peer may still be inside regions: its announcements stay
        /// in view until it hangs up.
        LINGERING,
        /// Nothing is left.
        FREED
    }

    /// The parts that [LinkSetup] brought together; this link's from then on.
    ///
    /// @param text both ends, for people
    /// @param socket the Unix socket
    /// @param greeting what the peer said of itself
    /// @param pid the peer as this process sees it, 0 when it cannot
    /// @param inbound the ring that this side reads
    /// @param outbound the ring that the peer reads
    /// @param writer this side's announcements
    /// @param peerWriter the peer's announcements
    /// @param peerTable the peer's regions
    /// @param doorbell wakes this side
    /// @param peerDoorbell wakes the peer
    /// @param pidfd the peer's process, or -1
    record Parts(
            String text,
            int socket,
            LinkSetup.Greeting greeting,
            int pid,
            RingMemory inbound,
            RingMemory outbound,
            Mapping writer,
            Mapping peerWriter,
            Mapping peerTable,
            int doorbell,
            int peerDoorbell,
            int pidfd) {}

    ShmLink(ShmEndpoint endpoint, PeerAddress peer, Parts parts) {
        this.endpoint = endpoint;
        this.peer = peer;
        this.parts = parts;
        this.text = parts.text() + " (process " + parts.pid() + ")";
        this.exchange = new RegionExchange(endpoint, this, parts.socket());
    }

    /// Makes the lane, takes the windows over if any memory can be reached through them, and starts
    /// to watch the peer.
    Link start(ShmWindows found) {
        boolean reaches = found.reachAnything();
        if (reaches) {
            holders.incrementAndGet();
            windows = found;
        } else {
            found.discard();
        }
        endpoint.context().watch(parts.socket(), this::socketReady);
        if (parts.pidfd() >= 0) {
            endpoint.context().watch(parts.pidfd(), this::processEnded);
        }
        ShmRingLane lane = new ShmRingLane(this);
        return reaches ? new Link(lane, found) : new Link(lane, null, found.explain());
    }

    // Both run on the progress thread and may come late: once the descriptors are given back, their
    // numbers can be somebody else's.

    private void socketReady() {
        synchronized (resources) {
            if (state == State.FREED || exchange.readReady()) {
                return;
            }
            endpoint.context().unwatch(parts.socket());
        }
        peerLeft("process %d hung up: it ended, or closed its end".formatted(parts.pid()));
    }

    private void processEnded() {
        synchronized (resources) {
            if (state == State.FREED) {
                return;
            }
            endpoint.context().unwatch(parts.pidfd());
            ended = true;
        }
        imported.clear();
        peerLeft("process %d ended: its pidfd says so".formatted(parts.pid()));
    }

    /// The peer is gone for good: nobody needs to be waited for, and a closed link can go.
    private void peerLeft(String how) {
        gone = true;
        if (parts.pidfd() < 0) {
            imported.clear(); // nothing else will tell
        }
        lose(how);
        synchronized (resources) {
            if (state == State.LINGERING && imported.isEmpty()) {
                freeRest();
            }
        }
    }

    /// Notes that the peer is lost and wakes whoever waits for it.
    private void lose(String how) {
        synchronized (resources) {
            if (lost != null) {
                return;
            }
            lost = text + ": " + how;
            if (state == State.OPEN) {
                int unused = EventFd.signal(parts.doorbell());
            }
        }
        exchange.wake();
    }

    /// @return how it was noticed that the peer is gone, or null
    @Nullable String lost() {
        return lost;
    }

    String text() {
        return text;
    }

    PeerAddress peer() {
        return peer;
    }

    int pid() {
        return parts.pid();
    }

    LinkSetup.Greeting greeting() {
        return parts.greeting();
    }

    RingMemory inbound() {
        return parts.inbound();
    }

    RingMemory outbound() {
        return parts.outbound();
    }

    /// @return this side's announcements
    MemorySegment hazards() {
        return parts.writer().segment();
    }

    /// @return null where the peer does not know of that
    @Nullable Adverts adverts() {
        return parts.greeting().adverts()
                ? new ShmAdverts(this, parts.writer().segment(), parts.peerWriter().segment())
                : null;
    }

    /// @return the peer's regions
    MemorySegment peerTable() {
        return parts.peerTable().segment();
    }

    RegionExchange exchange() {
        return exchange;
    }

    /// Shares memory with the peer: payloads of this side's lane lie there. Blocks.
    ///
    /// @return null where the peer does not know of that
    @Nullable MemorySegment share(long bytes, Deadline deadline) {
        if (!parts.greeting().shares()) {
            return null;
        }
        Mapping made = Mapping.create("telpher-payloads", bytes, Mapping.Others.WRITE);
        boolean kept = false;
        try {
            exchange.share(made.fd(), bytes, deadline);
            made.forgetDescriptor();
            synchronized (resources) {
                if (state == State.OPEN && shared == null) {
                    shared = made;
                    kept = true;
                }
            }
        } finally {
            if (!kept) {
                made.close();
            }
        }
        return kept ? made.segment() : null;
    }

    /// The peer shares memory: payloads of its lane lie there. On the progress thread, under
    /// [#resources].
    ///
    /// @return whether it can be reached here from now on
    boolean takeShared(int descriptor, long bytes) {
        if (state != State.OPEN || peerShared != null || bytes <= 0 || bytes > MOST_SHARED) {
            return false;
        }
        try {
            peerShared =
                    Mapping.open(
                            descriptor, bytes, Memory.PROT_READ | Memory.PROT_WRITE, "payloads");
            return true;
        } catch (TelpherException e) {
            Log.warning(text + ": no shared payloads", e);
            return false;
        }
    }

    /// @return memory of the peer's payloads, or null
    @Nullable MemorySegment peerShared() {
        Mapping mapping = peerShared;
        return mapping == null ? null : mapping.segment();
    }

    int doorbell() {
        return parts.doorbell();
    }

    /// Wakes the peer. For the lane, before it is closed.
    void ringPeer() {
        int unused = EventFd.signal(parts.peerDoorbell());
    }

    /// The owner wants a GPU's region back. On the control executor.
    void revoked(int index, int generation) {
        ShmWindows mine = windows;
        if (mine != null) {
            mine.revoked(index, generation);
        } else {
            exchange.released(index, generation);
        }
    }

    /// Notes that the peer was given a region of a GPU.
    void imported(long announcement) {
        imported.add(announcement);
    }

    /// The peer has unmapped a region of a GPU, or never mapped it.
    void released(long announcement) {
        imported.remove(announcement);
    }

    /// The peer has nothing of any GPU mapped, and asks for nothing more.
    void releasedAll() {
        imported.clear();
    }

    /// @return whether the peer may have a region of a GPU mapped
    boolean hasImported(long announcement) {
        return imported.contains(announcement) && !isEnded();
    }

    /// Asks the kernel itself, since the progress thread may be the one that waits.
    private boolean isEnded() {
        if (ended) {
            return true;
        }
        synchronized (resources) {
            return state != State.FREED
                    && parts.pidfd() >= 0
                    && Poll.poll(parts.pidfd(), Poll.POLLIN, 0) > 0;
        }
    }

    /// Sends a message, unless the socket is closed already.
    void transmit(Runnable send) {
        synchronized (resources) {
            if (state != State.FREED) {
                send.run();
            }
        }
    }

    /// Notes that the peer reaches a region in a way that cannot be taken from it.
    void borrow(int index, int generation) {
        borrowed.add(HazardPage.announcement(index, generation));
    }

    /// Notes that the peer was given a region of host memory to map.
    void map(int index, int generation) {
        mapped.add(HazardPage.announcement(index, generation));
    }

    /// @return whether the peer reaches any region that an owner may have to wait for
    boolean reachesAny() {
        return !borrowed.isEmpty() || !mapped.isEmpty() || !imported.isEmpty();
    }

    /// @return whether [#borrow] was called for that region
    boolean hasBorrowed(long announcement) {
        return borrowed.contains(announcement);
    }

    /// The region is closed for good.
    void giveBack(long announcement) {
        borrowed.remove(announcement);
        mapped.remove(announcement);
    }

    /// Waits until the peer has nobody inside a region that was closed before.
    ///
    /// @return whether that came to be before the deadline. If not, memory that may linger
    ///     ([io.telpher.spi.LocalRegion#mayLinger]) can be abandoned all the same: its pages stay
    ///     with the peer, and nobody here uses them again
    boolean awaitNobodyInside(long announcement, Deadline deadline) {
        for (int spins = 0; isNamed(announcement); spins++) {
            if (deadline.passed()) {
                return false;
            }
            pause(spins);
        }
        return true;
    }

    /// @return whether the peer may be inside a region
    private boolean isNamed(long announcement) {
        if (gone) {
            return false;
        }
        synchronized (resources) {
            return state != State.FREED
                    && HazardPage.names(parts.peerWriter().segment(), announcement)
                    && !hasHungUp();
        }
    }

    /// @return whether a peer that says that it is storing may be: a GPU of a process that has hung
    ///     up may still be copying for it until the process has ended
    boolean mayStore() {
        if (parts.pidfd() >= 0) {
            return !isEnded();
        }
        if (gone) {
            return false;
        }
        synchronized (resources) {
            return state == State.FREED || !hasHungUp();
        }
    }

    /// Asks the kernel itself, since the progress thread may be the one that waits.
    private boolean hasHungUp() {
        int events = Poll.poll(parts.socket(), Poll.POLLRDHUP, 0);
        return events > 0 && (events & (Poll.POLLHUP | Poll.POLLRDHUP | Poll.POLLERR)) != 0;
    }

    /// Waits a little: the longer, the longer it has been waited for already.
    static void pause(int spins) {
        if (spins < SPINS_BEFORE_YIELD) {
            Thread.onSpinWait();
        } else if (spins < SPINS_BEFORE_SLEEP) {
            Thread.yield();
        } else {
            LockSupport.parkNanos(SLEEP_NANOS);
        }
    }

    void laneClosed() {
        release();
    }

    void windowsClosed() {
        release();
    }

    /// The endpoint closes, after its regions: nothing of this link works any more.
    void abandon() {
        lose("the endpoint was closed");
        synchronized (resources) {
            if (state == State.LINGERING) {
                freeRest();
            }
        }
    }

    private void release() {
        if (holders.decrementAndGet() == 0) {
            free();
        }
    }

    /// Gives everything back that is not needed to know when the peer leaves its regions. For a
    /// link that nobody holds.
    void free() {
        synchronized (resources) {
            if (state != State.OPEN) {
                return;
            }
            lost = lost == null ? text + ": closed" : lost;
            state = State.LINGERING;
            parts.inbound().close();
            parts.outbound().close();
            parts.writer().close();
            parts.peerTable().close();
            close(shared);
            close(peerShared);
            Mapping.closeDescriptor(parts.doorbell());
            Mapping.closeDescriptor(parts.peerDoorbell());
            if ((gone && imported.isEmpty()) || !endpoint.hasLentTo(this)) {
                freeRest();
            } else {
                // The peer reads the end of the stream, closes its windows and hangs up.
                int unused = Sockets.shutdown(parts.socket(), Sockets.SHUT_WR);
            }
        }
        exchange.wake();
    }

    private static void close(@Nullable Mapping mapping) {
        if (mapping != null) {
            mapping.close();
        }
    }

    /// Under [#resources], once.
    private void freeRest() {
        state = State.FREED;
        endpoint.context().unwatch(parts.socket());
        if (parts.pidfd() >= 0) {
            endpoint.context().unwatch(parts.pidfd());
        }
        endpoint.remove(this);
        exchange.close();
        parts.peerWriter().close();
        // A forked child of this process may keep the descriptor: the peer waits for the end.
        int unused = Sockets.shutdown(parts.socket(), Sockets.SHUT_RDWR);
        Mapping.closeDescriptor(parts.socket());
        Mapping.closeDescriptor(parts.pidfd());
    }

    @Override
    public String toString() {
        return text;
    }
}

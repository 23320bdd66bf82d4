package io.telpher.internal.transport.verbs;

import io.telpher.internal.memory.Raw;
import io.telpher.internal.observe.Log;
import io.telpher.spi.LocalRegion;
import io.telpher.spi.WorkQueue;
import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// One source's work, on whichever [NicQueue] it was posted to. Everything but the calls of
/// [WorkQueue.Work] is guarded by that queue.
final class NicWork implements WorkQueue.Work {
    private static final VarHandle CARRIER;

    static {
        try {
            CARRIER =
                    MethodHandles.lookup().findVarHandle(NicWork.class, "carrier", NicQueue.class);
        } catch (ReflectiveOperationException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private final NicQueue small;
    private final NicQueue bulk;
    private final Registrations registered;
    final WorkQueue.Source source;

    /// The queue that carries it, from when it is posted until it has ended. A queue writes itself
    /// and takes itself out under its own monitor, so that under a queue's monitor it is certain
    /// whether the work is that queue's; whoever reads it without has to look again there.
    private volatile @Nullable NicQueue carrier;

    boolean read;

    /// Nothing more is cut from it.
    boolean stopped;

    /// What is under way does not complete.
    boolean cutOff;

    /// Everything was cut.
    boolean exhausted;

    /// Batches of it that have not completed.
    int underWay;

    /// It stands among those that wait to be cut.
    boolean waiting;

    /// The worst of what went wrong, or null.
    private WorkQueue.@Nullable End failure;

    private @Nullable String why;

    /// The next of those that wait, or of those whose end has to be told.
    @Nullable NicWork next;

    private long toCut;

    // What is left of the piece that is being cut.
    private long left;
    private @Nullable VerbsWindow window;
    private @Nullable RegionKeys keys;
    private long remoteOffset;
    private long localOffset;

    /// The local memory of that piece.
    private MemorySegment memory = MemorySegment.NULL;

    /// Length of the range that was cut last, which ends where the piece goes on.
    private int range;

    NicWork(NicQueue small, NicQueue bulk, Registrations registered, WorkQueue.Source source) {
        this.small = small;
        this.bulk = bulk;
        this.registered = registered;
        this.source = source;
    }

    @Override
    public void post(boolean fromPeer, long bytes) {
        (bytes <= NicQueue.SMALL ? small : bulk).post(this, fromPeer, bytes);
    }

    @Override
    public void stop() {
        stop(false);
    }

    @Override
    public void abort() {
        stop(true);
    }

    private void stop(boolean cutOff) {
        NicQueue by = carrier;
        if (by != null) {
            by.stop(this, cutOff);
        }
    }

    boolean isOf(NicQueue queue) {
        return carrier == queue;
    }

    /// As when it was never posted.
    void begin(NicQueue queue, boolean fromPeer, long bytes) {
        carrier = queue;
        read = fromPeer;
        toCut = bytes;
        stopped = false;
        cutOff = false;
        exhausted = false;
        underWay = 0;
        failure = null;
        why = null;
        left = 0;
    }

    /// It has ended: holds on to no memory.
    void finish() {
        CARRIER.setRelease(this, null); // no fence: who still sees the queue looks again there
        window = null;
        keys = null;
        memory = MemorySegment.NULL;
    }

    /// Notes what went wrong. Of several things the one counts after which least is known, as
    /// [WorkQueue.End] lists them, since it says when local memory, or the peer's, is quiet.
    void fail(WorkQueue.End how, @Nullable String reason) {
        if (failure == null || how.compareTo(failure) > 0) {
            failure = how;
            why = reason;
        }
    }

    boolean hasFailed() {
        return failure != null;
    }

    /// Cuts the next range, of local memory that is there and a region that is open: when an arena
    /// was closed, the pages may be somebody else's, and when the peer's region was, the key.
    ///
    /// @param most bytes, at least 1
    /// @return its length, or 0 when there is none any more: exhausted, or failed
    int cut(int most) {
        try {
            if (exhausted || (left == 0 && !nextPiece())) {
                return 0;
            }
            if (!memory.scope().isAlive() || there().isClosed()) {
                fail(WorkQueue.End.STALE, null);
                return 0;
            }
        } catch (RuntimeException e) {
            Log.error("a transfer by a NIC cannot be cut into pieces", e);
            fail(WorkQueue.End.FAILED, "internal failure: " + e);
            return 0;
        }
        long n = Math.min(Math.min(left, most), here().leftInPiece(localOffset));
        n = Math.min(n, there().leftInPiece(remoteOffset));
        range = (int) n;
        left -= n;
        toCut -= n;
        exhausted = toCut == 0;
        localOffset += n;
        remoteOffset += n;
        return range;
    }

    private boolean nextPiece() {
        if (!source.next()) {
            exhausted = true;
            return false;
        }
        LocalRegion region = source.region();
        window = source.window() instanceof VerbsWindow open ? open : null;
        keys = registered.find(region.index(), region.generation());
        memory = region.segment();
        if (window == null || keys == null) {
            fail(WorkQueue.End.STALE, null); // it was closed since the work was posted
            return false;
        }
        left = source.bytes();
        remoteOffset = source.remoteOffset();
        localOffset = source.localOffset();
        return true;
    }

    private RegionKeys here() {
        return Objects.requireNonNull(keys);
    }

    private VerbsWindow there() {
        return Objects.requireNonNull(window);
    }

    // --- the range that was cut last ------------------------------------------------------------

    /// @return the peer's memory that it is in
    VerbsWindow window() {
        return there();
    }

    long localAddress() {
        return here().address() + localOffset - range;
    }

    int localKey() {
        return here().localKey(localOffset - range);
    }

    long remoteAddress() {
        return there().address() + remoteOffset - range;
    }

    int remoteKey() {
        return there().key(remoteOffset - range);
    }

    /// Copies its bytes out of local memory.
    ///
    /// @return false when that is gone: the work has failed
    boolean copyTo(long address) {
        try {
            MemorySegment.copy(memory, localOffset - range, Raw.ALL, address, range);
            return true;
        } catch (IllegalStateException e) {
            fail(WorkQueue.End.STALE, null); // its arena was closed
            return false;
        }
    }

    /// Whether nothing of it is under way and nothing more will be.
    boolean isOver() {
        return underWay == 0 && (exhausted || stopped || failure != null);
    }

    WorkQueue.End end() {
        WorkQueue.End failed = failure;
        if (failed != null) {
            return failed;
        }
        // Also when it was stopped: everything has completed.
        return exhausted ? WorkQueue.End.DONE : WorkQueue.End.STOPPED;
    }

    /// @return why it failed, for people, or null
    @Nullable String why() {
        return why;
    }
}
